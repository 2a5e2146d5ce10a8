// RUN: gspmd-opt --split-input-file --pass-pipeline='builtin.module(gspmd-regather{keep-gathered-bytes=40})' %s | FileCheck %s
// RUN: gspmd-opt --split-input-file --gspmd-regather %s | FileCheck %s --check-prefix=KEPT

// Two gathers of 32 bytes wait for their second use: the one that waits longer is gathered again, when it is needed.
// CHECK-LABEL: module @what_is_needed_last_is_gathered_again
// CHECK: [[A:%[0-9]+]] = "stablehlo.all_gather"(%arg0)
// CHECK: [[B:%[0-9]+]] = "stablehlo.all_gather"(%arg1)
// CHECK: stablehlo.negate [[A]]
// CHECK: stablehlo.negate [[B]]
// CHECK: [[S:%[0-9]+]] = stablehlo.sine
// CHECK: [[U:%[0-9]+]] = stablehlo.add [[S]], [[B]]
// CHECK: [[H:%[0-9]+]]:2 = stablehlo.optimization_barrier %arg0, [[U]]
// CHECK: [[C:%[0-9]+]] = "stablehlo.all_gather"([[H]]#0)
// CHECK: stablehlo.multiply [[U]], [[C]]
// CHECK-NOT: all_gather
// KEPT-LABEL: module @what_is_needed_last_is_gathered_again
// KEPT-NOT: optimization_barrier
module @what_is_needed_last_is_gathered_again attributes {gspmd.mesh = "<[\22x\22=2]>", mhlo.num_partitions = 2 : i32} {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> {gspmd.axes = "\22x\22", gspmd.cause = "a"} : (tensor<4xf32>) -> tensor<8xf32>
    %1 = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> {gspmd.axes = "\22x\22", gspmd.cause = "b"} : (tensor<4xf32>) -> tensor<8xf32>
    %2 = stablehlo.negate %0 : tensor<8xf32>
    %3 = stablehlo.negate %1 : tensor<8xf32>
    %4 = stablehlo.add %2, %3 : tensor<8xf32>
    %5 = stablehlo.sine %4 : tensor<8xf32>
    %6 = stablehlo.add %5, %1 : tensor<8xf32>
    %7 = stablehlo.multiply %6, %0 : tensor<8xf32>
    return %7 : tensor<8xf32>
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
