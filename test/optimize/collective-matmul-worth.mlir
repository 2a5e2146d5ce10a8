// RUN: gspmd-opt --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(gspmd-collective-matmul{})' %s | FileCheck %s

// CHECK-LABEL: module @large_products_hide_the_communication
// CHECK-NOT: "stablehlo.all_gather"
// CHECK: "stablehlo.collective_permute"
module @large_products_hide_the_communication attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<512x8192xf32>, %b: tensor<8192x1024xf32>) -> tensor<1024x1024xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<512x8192xf32>) -> tensor<1024x8192xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<1024x8192xf32>, tensor<8192x1024xf32>) -> tensor<1024x1024xf32>
    return %1 : tensor<1024x1024xf32>
  }
}

// -----

// CHECK-LABEL: module @thin_products_hide_little
// CHECK: "stablehlo.all_gather"
module @thin_products_hide_little attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<512x8192xf32>, %b: tensor<8192x1xf32>) -> tensor<1024x1xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<512x8192xf32>) -> tensor<1024x8192xf32>
    // expected-remark-re @+1 {{'stablehlo.dot_general' op is not overlapped with communication because that is estimated to be hardly faster: {{.*}} us overlapped, {{.*}} us one after the other}}
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<1024x8192xf32>, tensor<8192x1xf32>) -> tensor<1024x1xf32>
    return %1 : tensor<1024x1xf32>
  }
}

// -----

// CHECK-LABEL: module @small_products_are_left_alone
// CHECK: "stablehlo.all_gather"
module @small_products_are_left_alone attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<4x6xf32>, %b: tensor<6x5xf32>) -> tensor<8x5xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<4x6xf32>) -> tensor<8x6xf32>
    // expected-remark @+1 {{'stablehlo.dot_general' op is not overlapped with communication because 192 bytes are gathered or scattered, less than 1048576}}
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<8x6xf32>, tensor<6x5xf32>) -> tensor<8x5xf32>
    return %1 : tensor<8x5xf32>
  }
}
