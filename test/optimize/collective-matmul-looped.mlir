// RUN: gspmd-opt --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(gspmd-collective-matmul{matmul-min-bytes=0 use-cost-model=false max-unrolled-steps=1 bidirectional=true})' %s | FileCheck %s

// CHECK-LABEL: module @many_steps_are_a_loop
// CHECK-COUNT-2: "stablehlo.collective_permute"(%arg0)
// CHECK: return
module @many_steps_are_a_loop attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<4x6xf32>, %b: tensor<6x5xf32>) -> tensor<16x5xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> {gspmd.axes = "\22x\22, \22y\22", gspmd.cause = "a gather"} : (tensor<4x6xf32>) -> tensor<16x6xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<16x6xf32>, tensor<6x5xf32>) -> tensor<16x5xf32>
    return %1 : tensor<16x5xf32>
  }
}
