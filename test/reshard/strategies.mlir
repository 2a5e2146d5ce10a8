// RUN: gspmd-opt --split-input-file --gspmd-reshard %s | FileCheck %s

// Tokens [batch, sequence, model] come back from experts [expert, batch, capacity, model]. To exchange the experts' results is
// less than to sum what each device has of all tokens, and nothing that the tensors agree on speaks for either.

// CHECK-LABEL: module @of_strategies_that_keep_what_is_agreed_the_cheapest_is_taken
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_to_all [{"x"}: 0->1] %arg1 out_sharding=<@mesh, [{}, {"x"}, {}, {}]>
// CHECK: stablehlo.dot_general %arg0, [[V0]]
// CHECK-NOT: sdy.reduce_scatter
module @of_strategies_that_keep_what_is_agreed_the_cheapest_is_taken {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%combine: tensor<32x16x8x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}, {}]>},
      %made: tensor<8x32x5x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}, {}]>})
      -> (tensor<32x16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}) {
    %0 = stablehlo.dot_general %combine, %made, batching_dims = [0] x [1], contracting_dims = [3, 2] x [2, 0]
        {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}, {}]>]>} : (tensor<32x16x8x5xf32>, tensor<8x32x5x64xf32>) -> tensor<32x16x64xf32>
    return %0 : tensor<32x16x64xf32>
  }
}

// -----

// A reversal brings every device the rows and columns that it wants, however the operand is split: nothing is moved before.

// CHECK-LABEL: module @reversed_into_other_shards
// CHECK-NOT: sdy.{{all|collective|reshard}}
// CHECK: stablehlo.reverse %arg0, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}, {"x"}]>]>}
// CHECK-NEXT: return
module @reversed_into_other_shards {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<512x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> (tensor<512x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}) {
    %0 = stablehlo.reverse %a, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}, {"x"}]>]>} : tensor<512x256xf32>
    return %0 : tensor<512x256xf32>
  }
}

// -----

// A value that an operation takes twice is moved once: that is half of what its result would be.

// CHECK-LABEL: module @a_value_joined_to_itself
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_gather [{"x"}, {}] %arg0
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = stablehlo.concatenate [[V0]], [[V0]]
// CHECK-NEXT: return [[V1]]
module @a_value_joined_to_itself {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x8xf32> {
    %0 = stablehlo.concatenate %a, %a, dim = 1 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// Rows have x, so that of the axes of the weights y is left for their columns: less of them is gathered.

// CHECK-LABEL: module @a_contraction_over_what_is_left
// CHECK: [[A:%[a-z0-9_]+]] = sdy.all_to_all [{"y"}: 0->1] %arg1
// CHECK-NEXT: [[B:%[a-z0-9_]+]] = sdy.all_gather [{"x"}, {}] [[A]] out_sharding=<@mesh, [{}, {"y"}]>
// CHECK-NEXT: [[P:%[a-z0-9_]+]] = stablehlo.dot_general %arg0, [[B]], {{.*}}<@mesh, [{"x"}, {"y"}]>
// CHECK-NEXT: [[R:%[a-z0-9_]+]] = sdy.all_gather [{}, {"y"}] [[P]]
// CHECK-NEXT: return [[R]]
module @a_contraction_over_what_is_left {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<4096x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %b: tensor<4096x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>})
      -> (tensor<4096x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : (tensor<4096x4096xf32>, tensor<4096x64xf32>) -> tensor<4096x64xf32>
    return %0 : tensor<4096x64xf32>
  }
}
