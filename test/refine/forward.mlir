// RUN: gspmd-opt --gspmd-ingest --gspmd-propagate --gspmd-refine %s | FileCheck %s

// Two results are wanted whole. The product that both are made of is gathered once, and all that is made of it is whole.
// What it is made of itself stays split, since the other product would be computed on every device otherwise.

// CHECK-LABEL: @whole_from_here_on
// CHECK: stablehlo.dot_general {{.*}}[<@mesh, [{}, {"x"}]>]
// CHECK-NOT: sdy.sharding_per_value
// CHECK: negate
// CHECK-NOT: sdy.sharding_per_value
// CHECK: return
module @whole_from_here_on {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
                         %b: tensor<128x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %w: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
      -> (tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
          tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %h = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
    %0 = stablehlo.dot_general %w, %h, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
    %inf = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = "stablehlo.reduce_window"(%0, %inf) <{padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 2>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %m = stablehlo.maximum %p, %q : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<64x256xf32>, tensor<f32>) -> tensor<64x256xf32>
    %2 = stablehlo.negate %1 : tensor<64x256xf32>
    %3 = stablehlo.cosine %1 : tensor<64x256xf32>
    return %2, %3 : tensor<64x256xf32>, tensor<64x256xf32>
  }
}
