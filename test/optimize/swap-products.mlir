// RUN: gspmd-opt --split-input-file --verify-diagnostics --gspmd-swap-products %s | FileCheck %s

// CHECK-LABEL: module @a_gradient_comes_out_as_the_weight_is_laid_out
// CHECK: [[P:%[0-9]+]] = stablehlo.dot_general %arg1, %arg0, contracting_dims = [0] x [0], precision = [DEFAULT, HIGHEST] : (tensor<8x6xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
// CHECK: [[S:%[0-9]+]] = "stablehlo.reduce_scatter"([[P]]) <{{.*}}scatter_dimension = 0
// CHECK: (tensor<6x4xf32>) -> tensor<3x4xf32>
// CHECK-NOT: transpose
// CHECK: return [[S]]
module @a_gradient_comes_out_as_the_weight_is_laid_out attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8x4xf32>, %b: tensor<8x6xf32>) -> tensor<3x4xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0], precision = [HIGHEST, DEFAULT] : (tensor<8x4xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %1 = "stablehlo.reduce_scatter"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22x\22", gspmd.cause = "a sum"} : (tensor<4x6xf32>) -> tensor<4x3xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>
    return %2 : tensor<3x4xf32>
  }
}

// -----

// Batch dimensions stay in front; several free ones move together.
// CHECK-LABEL: module @batches_and_several_free_dimensions
// CHECK: stablehlo.dot_general %arg1, %arg0, batching_dims = [0] x [1], contracting_dims = [1] x [0] : (tensor<2x8x6xf32>, tensor<8x2x4x5xf32>) -> tensor<2x6x4x5xf32>
// CHECK: "stablehlo.reduce_scatter"{{.*}}scatter_dimension = 2
// CHECK-NOT: transpose
module @batches_and_several_free_dimensions attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8x2x4x5xf32>, %b: tensor<2x8x6xf32>) -> tensor<2x6x2x5xf32> {
    %0 = stablehlo.dot_general %a, %b, batching_dims = [1] x [0], contracting_dims = [0] x [1] : (tensor<8x2x4x5xf32>, tensor<2x8x6xf32>) -> tensor<2x4x5x6xf32>
    %1 = "stablehlo.reduce_scatter"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22x\22", gspmd.cause = "a sum"} : (tensor<2x4x5x6xf32>) -> tensor<2x2x5x6xf32>
    %2 = stablehlo.transpose %1, dims = [0, 3, 1, 2] : (tensor<2x2x5x6xf32>) -> tensor<2x6x2x5xf32>
    return %2 : tensor<2x6x2x5xf32>
  }
}

// -----

// CHECK-LABEL: module @what_no_order_of_the_operands_gives
// CHECK: stablehlo.dot_general %arg0, %arg1
// CHECK: stablehlo.transpose
module @what_no_order_of_the_operands_gives attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8x4x2xf32>, %b: tensor<8x6xf32>) -> tensor<4x3x2xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<8x4x2xf32>, tensor<8x6xf32>) -> tensor<4x2x6xf32>
    %1 = "stablehlo.reduce_scatter"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, scatter_dimension = 2 : i64, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22x\22", gspmd.cause = "a sum"} : (tensor<4x2x6xf32>) -> tensor<4x2x3xf32>
    // expected-remark@+1 {{is not transposed before its sum is taken because swapping the operands does not give this order of dimensions}}
    %2 = stablehlo.transpose %1, dims = [0, 2, 1] : (tensor<4x2x3xf32>) -> tensor<4x3x2xf32>
    return %2 : tensor<4x3x2xf32>
  }
}

// -----

// CHECK-LABEL: module @a_product_that_is_used_unreduced_too
// CHECK: stablehlo.dot_general %arg0, %arg1
module @a_product_that_is_used_unreduced_too attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8x4xf32>, %b: tensor<8x6xf32>) -> (tensor<3x4xf32>, tensor<4x6xf32>) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %1 = "stablehlo.reduce_scatter"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22x\22", gspmd.cause = "a sum"} : (tensor<4x6xf32>) -> tensor<4x3xf32>
    // expected-remark@+1 {{is not transposed before its sum is taken because the product is also used before its sum is taken}}
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>
    return %2, %0 : tensor<3x4xf32>, tensor<4x6xf32>
  }
}

// -----

// CHECK-LABEL: module @a_sum_that_is_used_as_it_is_too
// CHECK: stablehlo.dot_general %arg0, %arg1
module @a_sum_that_is_used_as_it_is_too attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8x4xf32>, %b: tensor<8x6xf32>) -> (tensor<3x4xf32>, tensor<4x3xf32>) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %1 = "stablehlo.reduce_scatter"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22x\22", gspmd.cause = "a sum"} : (tensor<4x6xf32>) -> tensor<4x3xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>
    return %2, %1 : tensor<3x4xf32>, tensor<4x3xf32>
  }
}

// -----

// CHECK-LABEL: module @an_all_reduce_takes_any_layout
// CHECK: stablehlo.dot_general %arg0, %arg1
// CHECK: stablehlo.transpose
module @an_all_reduce_takes_any_layout attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8x4xf32>, %b: tensor<8x6xf32>) -> tensor<6x4xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
    %1 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22x\22", gspmd.cause = "a sum"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
    return %2 : tensor<6x4xf32>
  }
}

// -----

// Experts that are one to a device make a batch of one, with which XLA leaves the transpose.
// CHECK-LABEL: module @a_batch_of_one
// CHECK: stablehlo.dot_general %arg1, %arg0, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<1x8x6xf32>, tensor<1x8x4xf32>) -> tensor<1x6x4xf32>
// CHECK-NOT: transpose
module @a_batch_of_one attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<1x8x4xf32>, %b: tensor<1x8x6xf32>) -> tensor<1x6x4xf32> {
    %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<1x8x4xf32>, tensor<1x8x6xf32>) -> tensor<1x4x6xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<1x4x6xf32>) -> tensor<1x6x4xf32>
    return %1 : tensor<1x6x4xf32>
  }
}
