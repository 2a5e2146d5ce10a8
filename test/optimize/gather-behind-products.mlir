// RUN: gspmd-opt --split-input-file --verify-diagnostics --gspmd-gather-behind-products %s | FileCheck %s

// Rows of a product are fewer bytes than those of its operand.

// CHECK-LABEL: module @the_result_is_gathered
// CHECK: [[D:%[0-9]+]] = stablehlo.dot_general %arg0, %arg1, {{.*}} (tensor<32x64xf32>, tensor<64x8xf32>) -> tensor<32x8xf32>
// CHECK: "stablehlo.all_gather"([[D]]) {{.*}}all_gather_dim = 0{{.*}} (tensor<32x8xf32>) -> tensor<64x8xf32>
module @the_result_is_gathered attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<32x64xf32> {gspmd.sharding = "<@mesh, [{\22y\22}, {}]>"}, %b: tensor<64x8xf32> {gspmd.sharding = "<@mesh, [{}, {\22x\22}]>"}) -> tensor<64x8xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<32x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    return %1 : tensor<64x8xf32>
  }
}

// -----

// Devices along "y" have other columns of %b, and need all rows of %a for them.

// CHECK-LABEL: module @the_other_operand_differs
// CHECK: "stablehlo.all_gather"(%arg0)
module @the_other_operand_differs attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<32x64xf32> {gspmd.sharding = "<@mesh, [{\22y\22}, {}]>"}, %b: tensor<64x8xf32> {gspmd.sharding = "<@mesh, [{}, {\22y\22}]>"}) -> tensor<64x8xf32> {
    // expected-remark@below {{is not gathered behind the product because the product's other operand may differ along the same axes}}
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<32x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
    return %1 : tensor<64x8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_larger_result_is_not_gathered
// CHECK: "stablehlo.all_gather"(%arg0)
module @a_larger_result_is_not_gathered attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<32x64xf32>, %b: tensor<64x80xf32>) -> tensor<64x80xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<32x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x80xf32>) -> tensor<64x80xf32>
    return %1 : tensor<64x80xf32>
  }
}
