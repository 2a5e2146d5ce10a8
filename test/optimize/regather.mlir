// RUN: gspmd-opt --split-input-file --pass-pipeline='builtin.module(gspmd-regather{keep-gathered-bytes=40})' %s | FileCheck %s
// RUN: gspmd-opt --split-input-file --gspmd-regather %s | FileCheck %s --check-prefix=KEPT

// Two gathers of 32 bytes wait for their second use: the one that waits longer is gathered again, when it is needed.
// A view is used where its consumer is.
// CHECK-LABEL: module @what_is_needed_last_is_gathered_again
// CHECK: [[A:%[0-9]+]] = "stablehlo.all_gather"(%arg0)
// CHECK: [[B:%[0-9]+]] = "stablehlo.all_gather"(%arg1)
// CHECK: stablehlo.dot_general [[A]], [[A]]
// CHECK: stablehlo.dot_general [[B]], [[B]]
// CHECK: [[U:%[0-9]+]] = stablehlo.dot_general [[B]]
// CHECK: [[V:%[0-9]+]] = stablehlo.broadcast_in_dim [[U]]
// CHECK: [[H:%[0-9]+]]:2 = stablehlo.optimization_barrier %arg0, [[V]]
// CHECK: [[C:%[0-9]+]] = "stablehlo.all_gather"([[H]]#0)
// CHECK: [[N:%[0-9]+]] = stablehlo.reshape [[C]]
// CHECK: stablehlo.dot_general [[N]]
// CHECK-NOT: all_gather
// KEPT-LABEL: module @what_is_needed_last_is_gathered_again
// KEPT-NOT: optimization_barrier
module @what_is_needed_last_is_gathered_again attributes {gspmd.mesh = "<[\22x\22=2]>", mhlo.num_partitions = 2 : i32} {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<f32>, tensor<f32>, tensor<1xf32>) {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> {gspmd.axes = "\22x\22", gspmd.cause = "a"} : (tensor<4xf32>) -> tensor<8xf32>
    %1 = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> {gspmd.axes = "\22x\22", gspmd.cause = "b"} : (tensor<4xf32>) -> tensor<8xf32>
    %2 = stablehlo.reshape %0 : (tensor<8xf32>) -> tensor<1x8xf32>
    %3 = stablehlo.dot_general %0, %0, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
    %4 = stablehlo.dot_general %1, %1, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %6 = stablehlo.dot_general %1, %5, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %8 = stablehlo.dot_general %2, %7, contracting_dims = [1] x [0] : (tensor<1x8xf32>, tensor<8xf32>) -> tensor<1xf32>
    return %3, %6, %8 : tensor<f32>, tensor<f32>, tensor<1xf32>
  }
}

// -----

// CHECK-LABEL: module @what_is_used_at_once_is_not_kept
// CHECK-NOT: optimization_barrier
// KEPT-LABEL: module @what_is_used_at_once_is_not_kept
module @what_is_used_at_once_is_not_kept attributes {gspmd.mesh = "<[\22x\22=2]>", mhlo.num_partitions = 2 : i32} {
  func.func public @main(%a: tensor<16xf32>) -> tensor<32xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> {gspmd.axes = "\22x\22", gspmd.cause = "a"} : (tensor<16xf32>) -> tensor<32xf32>
    %1 = stablehlo.negate %0 : tensor<32xf32>
    %2 = stablehlo.add %1, %0 : tensor<32xf32>
    return %2 : tensor<32xf32>
  }
}
