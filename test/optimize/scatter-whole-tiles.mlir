// RUN: gspmd-opt --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(gspmd-scatter-whole-tiles{target=tpu-v3})' %s | FileCheck %s
// RUN: gspmd-opt --split-input-file --pass-pipeline='builtin.module(gspmd-scatter-whole-tiles{target=a100})' %s | FileCheck %s --check-prefix=ANY
// ANY-NOT: LayoutConstraint

// 128 elements of two bytes are half of a row of a tile; before the last dimension they are whole columns.
// CHECK-LABEL: module @the_last_dimension_becomes_the_one_before
// CHECK: [[P:%[0-9]+]] = stablehlo.dot_general
// CHECK: [[L:%[0-9]+]] = stablehlo.custom_call @LayoutConstraint([[P]]) {operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>], result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>]}
// CHECK: "stablehlo.reduce_scatter"([[L]]) <{{.*}}scatter_dimension = 2
module @the_last_dimension_becomes_the_one_before attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<4x1024x512xbf16>, %b: tensor<512x256xbf16>) -> tensor<4x1024x128xbf16> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [2] x [0] : (tensor<4x1024x512xbf16>, tensor<512x256xbf16>) -> tensor<4x1024x256xbf16>
    %1 = "stablehlo.reduce_scatter"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 2 : i64, use_global_device_ids}> ({
    ^bb0(%l: tensor<bf16>, %r: tensor<bf16>):
      %s = stablehlo.add %l, %r : tensor<bf16>
      stablehlo.return %s : tensor<bf16>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<4x1024x256xbf16>) -> tensor<4x1024x128xbf16>
    return %1 : tensor<4x1024x128xbf16>
  }
}

// -----

// Four elements fill no column of a tile either. Any number does before the two dimensions that tiles lie along.
// CHECK-LABEL: module @a_few_elements_come_first
// CHECK: stablehlo.custom_call @LayoutConstraint({{.*}} {operand_layouts = [dense<[1, 0, 2]> : tensor<3xindex>]
// CHECK: "stablehlo.reduce_scatter"{{.*}}scatter_dimension = 2
module @a_few_elements_come_first attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<512x1024x512xf32>, %b: tensor<512x8xf32>) -> tensor<512x1024x4xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [2] x [0] : (tensor<512x1024x512xf32>, tensor<512x8xf32>) -> tensor<512x1024x8xf32>
    %1 = "stablehlo.reduce_scatter"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 2 : i64, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<512x1024x8xf32>) -> tensor<512x1024x4xf32>
    return %1 : tensor<512x1024x4xf32>
  }
}

// -----

// Whole tiles stay where they are, and so does what is summed over all devices.
// CHECK-LABEL: module @whole_tiles_and_all_devices
// CHECK-NOT: LayoutConstraint
// CHECK: return
module @whole_tiles_and_all_devices attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<1024x512xf32>, %b: tensor<512x256xf32>) -> (tensor<1024x128xf32>, tensor<1024x64xf32>) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<1024x512xf32>, tensor<512x256xf32>) -> tensor<1024x256xf32>
    %1 = "stablehlo.reduce_scatter"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<1024x256xf32>) -> tensor<1024x128xf32>
    %2 = "stablehlo.reduce_scatter"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22x\22, \22y\22", gspmd.cause = "a sum"} : (tensor<1024x256xf32>) -> tensor<1024x64xf32>
    return %1, %2 : tensor<1024x128xf32>, tensor<1024x64xf32>
  }
}

// -----

module @declined attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<1024x256xbf16>, %b: tensor<1024x256xi32>, %c: tensor<64x256xbf16>) -> (tensor<1024x128xbf16>, tensor<1024x128xi32>, tensor<64x128xbf16>) {
    // expected-remark @below {{is not kept a reduce-scatter by its layout because 524288 bytes are scattered, less than 1048576}}
    %0 = "stablehlo.reduce_scatter"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
    ^bb0(%l: tensor<bf16>, %r: tensor<bf16>):
      %s = stablehlo.add %l, %r : tensor<bf16>
      stablehlo.return %s : tensor<bf16>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<1024x256xbf16>) -> tensor<1024x128xbf16>
    // expected-remark @below {{is not kept a reduce-scatter by its layout because the compiler replaces every reduce-scatter of i32 by an all-reduce}}
    %1 = "stablehlo.reduce_scatter"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
    ^bb0(%l: tensor<i32>, %r: tensor<i32>):
      %s = stablehlo.add %l, %r : tensor<i32>
      stablehlo.return %s : tensor<i32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<1024x256xi32>) -> tensor<1024x128xi32>
    // expected-remark @below {{is not kept a reduce-scatter by its layout because 128 elements fill whole tiles in no order of dimensions}}
    %2 = "stablehlo.reduce_scatter"(%c) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
    ^bb0(%l: tensor<bf16>, %r: tensor<bf16>):
      %s = stablehlo.add %l, %r : tensor<bf16>
      stablehlo.return %s : tensor<bf16>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<64x256xbf16>) -> tensor<64x128xbf16>
    return %0, %1, %2 : tensor<1024x128xbf16>, tensor<1024x128xi32>, tensor<64x128xbf16>
  }
}
