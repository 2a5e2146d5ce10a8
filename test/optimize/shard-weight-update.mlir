// RUN: gspmd-opt --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(gspmd-shard-weight-update{update-axes=x update-min-bytes=64})' %s | FileCheck %s

// CHECK-LABEL: module @state_is_split_at_the_boundary_and_weights_are_not
// CHECK: @main(%arg0: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>, tf.aliasing_output = 0 : i32},
// CHECK-SAME: %arg1: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>, tf.aliasing_output = 1 : i32}
// CHECK-SAME: %arg2: tensor<8x6xf32>,
// CHECK-SAME: -> (tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, tensor<8x8xf32>)
// CHECK: [[M:%[0-9]+]] = stablehlo.add %arg1, %arg2
// CHECK: [[W:%[0-9]+]] = stablehlo.subtract %arg0
// CHECK: sdy.sharding_constraint [[W]] <@mesh, [{"x"}, {}]>
// CHECK: sdy.sharding_constraint [[M]] <@mesh, [{"x"}, {}]>
module @state_is_split_at_the_boundary_and_weights_are_not {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%w: tensor<8x6xf32> {tf.aliasing_output = 0 : i32}, %m: tensor<8x6xf32> {tf.aliasing_output = 1 : i32}, %g: tensor<8x6xf32>, %x: tensor<8x6xf32>)
      -> (tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x8xf32>) {
    %0 = stablehlo.add %m, %g : tensor<8x6xf32>
    %1 = stablehlo.subtract %w, %0 : tensor<8x6xf32>
    %2 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1] : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x8xf32>
    return %1, %0, %2 : tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_dimension_that_is_not_split_is_preferred
// CHECK: @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}
module @a_dimension_that_is_not_split_is_preferred {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%m: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) -> tensor<8x16xf32> {
    %0 = stablehlo.add %m, %m : tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
}

// -----

// CHECK-LABEL: module @what_no_axis_divides_stays
// CHECK: @main(%arg0: tensor<7x6xf32>) -> tensor<7x6xf32>
// CHECK-NOT: sharding_constraint
module @what_no_axis_divides_stays {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%m: tensor<7x6xf32>) -> tensor<7x6xf32> {
    // expected-remark @+1 {{'stablehlo.add' op is an update that is not split over "x" because no dimension of 7x6 has shards whose size is a multiple of 4}}
    %0 = stablehlo.add %m, %m : tensor<7x6xf32>
    return %0 : tensor<7x6xf32>
  }
}

// -----

// CHECK-LABEL: module @what_is_split_over_the_axis_stays
// CHECK-NOT: sharding_constraint
module @what_is_split_over_the_axis_stays {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%m: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<8x8xf32> {
    // expected-remark @+1 {{'stablehlo.add' op is an update that is not split over "x" because its weight is already split over them}}
    %0 = stablehlo.add %m, %m : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @small_tensors_and_what_is_not_elementwise_stay
// CHECK-NOT: sharding_constraint
module @small_tensors_and_what_is_not_elementwise_stay {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%m: tensor<8xf32>, %w: tensor<8x8xf32>) -> (tensor<8xf32>, tensor<8x8xf32>) {
    %0 = stablehlo.add %m, %m : tensor<8xf32>
    %1 = stablehlo.dot_general %w, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8x8xf32>
  }
}
