// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard %s | FileCheck %s

// All devices along "y" would make the same partial results: each makes a part, which is reduced and put together.
// CHECK-LABEL: module @gradient
// CHECK: stablehlo.dot_general {{.*}}"y"{{.*}}unreduced={"x"}
// CHECK-NEXT: sdy.reduce_scatter [{"x"}, {}]
// CHECK-NEXT: sdy.all_gather [{}, {"y"}]
module @gradient {
  sdy.mesh @mesh = <["x"=4, "y"=4]>
  func.func public @main(%a: tensor<8192x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %b: tensor<8192x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
                         -> (tensor<512x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<8192x512xf32>, tensor<8192x512xf32>) -> tensor<512x512xf32>
    return %0 : tensor<512x512xf32>
  }
}

// -----

// Of a few bytes it is not worth another collective.
// CHECK-LABEL: module @small
// CHECK: stablehlo.dot_general
// CHECK-NOT: all_gather
// CHECK: sdy.reduce_scatter
// CHECK-NOT: all_gather
module @small {
  sdy.mesh @mesh = <["x"=4, "y"=4]>
  func.func public @main(%a: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %b: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
                         -> (tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<16x16xf32>
    return %0 : tensor<16x16xf32>
  }
}

// -----

// Manual axes are not idle, whatever the tensors inside are split over.
// CHECK-LABEL: module @manual
// CHECK: sdy.manual_computation
// CHECK: stablehlo.dot_general
// CHECK-NOT: "y"}
// CHECK: sdy.return
module @manual {
  sdy.mesh @mesh = <["x"=4, "y"=4]>
  func.func public @main(%a: tensor<64x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %b: tensor<64x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<512x512xf32> {
    %0 = sdy.manual_computation(%a, %b) in_shardings=[<@mesh, [{"x"}, {}]>, <@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"y"} (%c: tensor<64x512xf32>, %d: tensor<64x512xf32>) {
      %1 = stablehlo.dot_general %c, %d, contracting_dims = [0] x [0] : (tensor<64x512xf32>, tensor<64x512xf32>) -> tensor<512x512xf32>
      sdy.return %1 : tensor<512x512xf32>
    } : (tensor<64x512xf32>, tensor<64x512xf32>) -> tensor<512x512xf32>
    return %0 : tensor<512x512xf32>
  }
}

// -----

// What has been gathered for one user is cut for the next, not sent again.
// CHECK-LABEL: module @moved_before
// CHECK: %[[WHOLE:.*]] = sdy.all_gather [{"x"}, {}] %arg0
// CHECK: sdy.all_slice [{}, {"x"}] %[[WHOLE]]
// CHECK-NOT: sdy.all_to_all
module @moved_before {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
                         -> (tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %0 = sdy.sharding_constraint %a <@mesh, [{}, {}]> : tensor<64x64xf32>
    %1 = stablehlo.tanh %0 : tensor<64x64xf32>
    %2 = sdy.sharding_constraint %a <@mesh, [{}, {"x"}]> : tensor<64x64xf32>
    return %1, %2 : tensor<64x64xf32>, tensor<64x64xf32>
  }
}
