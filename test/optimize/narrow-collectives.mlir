// RUN: gspmd-opt --split-input-file --verify-diagnostics --gspmd-narrow-collectives %s | FileCheck %s

// CHECK-LABEL: module @a_gather_moves_what_is_converted_afterwards
// CHECK: [[C:%[0-9]+]] = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xbf16>
// CHECK: "stablehlo.all_gather"([[C]])
module @a_gather_moves_what_is_converted_afterwards attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<4xf32>) -> tensor<8xbf16> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<4xf32>) -> tensor<8xf32>
    %1 = stablehlo.convert %0 : (tensor<8xf32>) -> tensor<8xbf16>
    return %1 : tensor<8xbf16>
  }
}

// -----

// CHECK-LABEL: module @a_gather_moves_what_is_not_widened_yet
// CHECK: [[G:%[0-9]+]] = "stablehlo.all_gather"(%arg0){{.*}} (tensor<4xbf16>) -> tensor<8xbf16>
// CHECK: stablehlo.convert [[G]]
module @a_gather_moves_what_is_not_widened_yet attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<4xbf16>) -> tensor<8xf32> {
    %0 = stablehlo.convert %a : (tensor<4xbf16>) -> tensor<4xf32>
    %1 = "stablehlo.all_gather"(%0) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<4xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_gather_moves_what_is_not_repeated_yet
// CHECK: [[G:%[0-9]+]] = "stablehlo.all_gather"(%arg0) {{.*}}all_gather_dim = 0
// CHECK: stablehlo.broadcast_in_dim [[G]], dims = [1]
module @a_gather_moves_what_is_not_repeated_yet attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<4xf32>) -> tensor<3x8xf32> {
    %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<4xf32>) -> tensor<3x4xf32>
    %1 = "stablehlo.all_gather"(%0) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<3x4xf32>) -> tensor<3x8xf32>
    return %1 : tensor<3x8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_gather_moves_what_is_left_of_other_dimensions
// CHECK: [[S:%[0-9]+]] = stablehlo.slice %arg0 [0:4, 2:4]
// CHECK: "stablehlo.all_gather"([[S]])
module @a_gather_moves_what_is_left_of_other_dimensions attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<4x8xf32>) -> tensor<8x2xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<4x8xf32>) -> tensor<8x8xf32>
    %1 = stablehlo.slice %0 [0:8, 2:4] : (tensor<8x8xf32>) -> tensor<8x2xf32>
    return %1 : tensor<8x2xf32>
  }
}

// -----

// CHECK-LABEL: module @a_conversion_beside_another_use_stays
// CHECK: [[G:%[0-9]+]] = "stablehlo.all_gather"(%arg0)
// CHECK: stablehlo.convert [[G]]
module @a_conversion_beside_another_use_stays attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<4xf32>) -> (tensor<8xbf16>, tensor<8xf32>) {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<4xf32>) -> tensor<8xf32>
    %1 = stablehlo.convert %0 : (tensor<8xf32>) -> tensor<8xbf16>
    return %1, %0 : tensor<8xbf16>, tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_permute_does_not_pass_a_pad
// CHECK: [[P:%[0-9]+]] = stablehlo.pad
// CHECK: "stablehlo.collective_permute"([[P]])
module @a_permute_does_not_pass_a_pad attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<4xf32>) -> tensor<8xf32> {
    %o = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = stablehlo.pad %a, %o, low = [0], high = [4], interior = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<8xf32>
    %1 = "stablehlo.collective_permute"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}
