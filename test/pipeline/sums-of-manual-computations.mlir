// RUN: gspmd-opt --split-input-file --gspmd-partition %s | FileCheck %s

// A manual computation returns a sum over x, and its result is split over x: every device reduces its shard only.
// CHECK-LABEL: module @a_sum_of_which_shards_are_taken
// CHECK: [[P:%.*]] = stablehlo.multiply %arg0
// CHECK: [[S:%.*]] = "stablehlo.reduce_scatter"([[P]])
// CHECK-SAME: scatter_dimension = 1
// CHECK: (tensor<4x8xf32>) -> tensor<4x4xf32>
// CHECK: return [[S]]
module @a_sum_of_which_shards_are_taken {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"x", "y"} (%b: tensor<4x8xf32>) {
      %1 = stablehlo.multiply %b, %b : tensor<4x8xf32>
      %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%c: tensor<f32>, %d: tensor<f32>):
        %3 = stablehlo.add %c, %d : tensor<f32>
        stablehlo.return %3 : tensor<f32>
      }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      sdy.return %2 : tensor<4x8xf32>
    } : (tensor<8x8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}

// -----

// The sum is over y, and shards are taken over x: of what is not taken, nothing is summed.
// CHECK-LABEL: module @a_sum_over_another_axis
// CHECK: [[T:%.*]] = stablehlo.dynamic_slice %arg0
// CHECK: "stablehlo.all_reduce"([[T]])
// CHECK-NOT: reduce_scatter
module @a_sum_over_another_axis {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"y"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"x", "y"} (%b: tensor<4x8xf32>) {
      %2 = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%c: tensor<f32>, %d: tensor<f32>):
        %3 = stablehlo.add %c, %d : tensor<f32>
        stablehlo.return %3 : tensor<f32>
      }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      sdy.return %2 : tensor<4x8xf32>
    } : (tensor<8x8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}

// -----

// The whole sum is returned, too.
// CHECK-LABEL: module @a_sum_that_is_read_twice
// CHECK: "stablehlo.all_reduce"
// CHECK: stablehlo.dynamic_slice
// CHECK-NOT: reduce_scatter
module @a_sum_that_is_read_twice {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"x", "y"} (%b: tensor<4x8xf32>) {
      %2 = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%c: tensor<f32>, %d: tensor<f32>):
        %3 = stablehlo.add %c, %d : tensor<f32>
        stablehlo.return %3 : tensor<f32>
      }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      sdy.return %2 : tensor<4x8xf32>
    } : (tensor<8x8xf32>) -> tensor<4x8xf32>
    return %0, %0 : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

// A loop adds what every turn returns: the sum over x is taken once, behind it.
// CHECK-LABEL: module @a_sum_in_every_turn
// CHECK: stablehlo.while
// CHECK-NOT: "stablehlo.all_reduce"
// CHECK: stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>, tensor<4x8xf32>
// CHECK: "stablehlo.all_reduce"
// CHECK: return
module @a_sum_in_every_turn {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %ten = stablehlo.constant dense<10> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<4x8xf32>
    %0:2 = stablehlo.while(%i = %zero, %sum = %none) : tensor<i32>, tensor<4x8xf32>
    cond {
      %1 = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = sdy.manual_computation(%a, %i) in_shardings=[<@mesh, [{"x"}, {}]>, <@mesh, []>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"x", "y"} (%b: tensor<4x8xf32>, %n: tensor<i32>) {
        %f = stablehlo.convert %n : (tensor<i32>) -> tensor<f32>
        %w = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
        %p = stablehlo.multiply %b, %w : tensor<4x8xf32>
        %2 = "stablehlo.all_reduce"(%p) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
        ^bb0(%c: tensor<f32>, %d: tensor<f32>):
          %3 = stablehlo.add %c, %d : tensor<f32>
          stablehlo.return %3 : tensor<f32>
        }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
        sdy.return %2 : tensor<4x8xf32>
      } : (tensor<8x8xf32>, tensor<i32>) -> tensor<4x8xf32>
      %4 = stablehlo.add %sum, %1 : tensor<4x8xf32>
      %5 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %5, %4 : tensor<i32>, tensor<4x8xf32>
    }
    return %0#1 : tensor<4x8xf32>
  }
}
