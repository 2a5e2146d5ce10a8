// RUN: gspmd-opt --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(gspmd-collective-matmul{matmul-min-bytes=0 use-cost-model=false bidirectional=true})' %s | FileCheck %s --check-prefix=BOTH
// RUN: gspmd-opt --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(gspmd-collective-matmul{matmul-min-bytes=0 use-cost-model=false ring-devices=2})' %s | FileCheck %s --check-prefix=PART

// The halves of a shard take turns: the sum of the first one travels while the product for the second one is done, whose
// sum then travels during the next product for the first one.

// BOTH-LABEL: module @halves_take_turns
// BOTH: [[A0:%[0-9]+]] = stablehlo.dot_general {{.*}} -> tensor<2x5xf32>
// BOTH: [[B0:%[0-9]+]] = stablehlo.dot_general {{.*}} -> tensor<2x5xf32>
// BOTH: [[B1:%[0-9]+]] = "stablehlo.collective_permute"([[B0]])
// BOTH: [[A1:%[0-9]+]] = "stablehlo.collective_permute"([[A0]])
// BOTH: [[B2:%[0-9]+]] = stablehlo.dot_general {{.*}} -> tensor<2x5xf32>
// BOTH: [[B3:%[0-9]+]] = stablehlo.add [[B1]], [[B2]]
// BOTH: [[A2:%[0-9]+]] = stablehlo.dot_general {{.*}} -> tensor<2x5xf32>
// BOTH: [[A3:%[0-9]+]] = stablehlo.add [[A1]], [[A2]]
// BOTH: [[B4:%[0-9]+]] = "stablehlo.collective_permute"([[B3]])
// BOTH-NOT: "stablehlo.reduce_scatter"

// The ring goes along the major part of the axis. What it sums up are two shards, which the rest of the axis divides.

// PART-LABEL: module @halves_take_turns
// PART: [[A:%[0-9]+]] = stablehlo.dot_general {{.*}} -> tensor<8x5xf32>
// PART: [[T:%[0-9]+]] = "stablehlo.collective_permute"([[A]]){{.*}}gspmd.axes = "\22y\22:(1)2"
// PART: [[B:%[0-9]+]] = stablehlo.dot_general {{.*}} -> tensor<8x5xf32>
// PART: [[S:%[0-9]+]] = stablehlo.add [[T]], [[B]]
// PART: "stablehlo.reduce_scatter"([[S]])
// PART: gspmd.axes = "\22y\22:(2)2"{{.*}} (tensor<8x5xf32>) -> tensor<4x5xf32>
module @halves_take_turns attributes {gspmd.mesh = "<[\22y\22=4]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<16x6xf32>, %b: tensor<6x5xf32>) -> tensor<4x5xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x6xf32>, tensor<6x5xf32>) -> tensor<16x5xf32>
    %1 = "stablehlo.reduce_scatter"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<16x5xf32>) -> tensor<4x5xf32>
    return %1 : tensor<4x5xf32>
  }
}
