// RUN: gspmd-opt --split-input-file --verify-diagnostics --gspmd-move-in-parts %s | FileCheck %s
// RUN: gspmd-opt --split-input-file --gspmd-move-in-parts='target=tpu-v4' %s | FileCheck %s --check-prefix=TPU

// What is summed over "y" is moved over "x" by each device in part: half of it here.

// CHECK-LABEL: module @a_sum_is_exchanged_in_parts
// CHECK: [[R:%[0-9]+]] = "stablehlo.reduce_scatter"(%arg0) {{.*}}scatter_dimension = 2
// CHECK: [[N:%[0-9]+]] = stablehlo.negate [[R]] : tensor<16x32x16xf32>
// CHECK: [[T:%[0-9]+]] = stablehlo.transpose [[N]], dims = [2, 0, 1] : (tensor<16x32x16xf32>) -> tensor<16x16x32xf32>
// CHECK: [[M:%[0-9]+]] = "stablehlo.all_to_all"([[T]]) {{.*}} (tensor<16x16x32xf32>) -> tensor<16x8x64xf32>
// CHECK: [[G:%[0-9]+]] = "stablehlo.all_gather"([[M]]) {{.*}}all_gather_dim = 0
// CHECK: return [[G]] : tensor<32x8x64xf32>

// On hardware where starting a collective takes longer than sending so little, it stays.
// TPU-LABEL: module @a_sum_is_exchanged_in_parts
// TPU: stablehlo.all_reduce
// TPU-NOT: stablehlo.all_gather
// TPU: return
module @a_sum_is_exchanged_in_parts attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<16x32x32xf32>) -> tensor<32x8x64xf32> {
    %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<16x32x32xf32>) -> tensor<16x32x32xf32>
    %1 = stablehlo.negate %0 : tensor<16x32x32xf32>
    %2 = stablehlo.transpose %1, dims = [2, 0, 1] : (tensor<16x32x32xf32>) -> tensor<32x16x32xf32>
    %3 = "stablehlo.all_to_all"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, concat_dimension = 2 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, split_count = 2 : i64, split_dimension = 1 : i64}> {gspmd.axes = "\22x\22", gspmd.cause = "an exchange"} : (tensor<32x16x32xf32>) -> tensor<32x8x64xf32>
    return %3 : tensor<32x8x64xf32>
  }
}

// -----

// A gather moves behind a permute of the same positions.

// CHECK-LABEL: module @a_gather_follows_what_is_permuted
// CHECK: [[P:%[0-9]+]] = "stablehlo.collective_permute"(%arg0) {{.*}} (tensor<64x32xf32>) -> tensor<64x32xf32>
// CHECK: "stablehlo.all_gather"([[P]]) {{.*}}all_gather_dim = 1
module @a_gather_follows_what_is_permuted attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<64x32xf32>) -> tensor<64x64xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<64x32xf32>) -> tensor<64x64xf32>
    %1 = "stablehlo.collective_permute"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 2], [1, 3], [2, 0], [3, 1]]> : tensor<4x2xi64>}> {gspmd.axes = "\22x\22", gspmd.cause = "a move"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    return %1 : tensor<64x64xf32>
  }
}

// -----

// This permute brings devices along "y" what comes from different places along "x".

// CHECK-LABEL: module @what_is_mixed_stays
// CHECK: stablehlo.all_gather
// CHECK: stablehlo.collective_permute
module @what_is_mixed_stays attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<64x32xf32>) -> tensor<64x64xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<64x32xf32>) -> tensor<64x64xf32>
    %1 = "stablehlo.collective_permute"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 2], [1, 1], [2, 0], [3, 3]]> : tensor<4x2xi64>}> {gspmd.axes = "\22x\22", gspmd.cause = "a move"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    return %1 : tensor<64x64xf32>
  }
}
