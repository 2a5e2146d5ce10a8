// RUN: gspmd-opt --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(gspmd-collective-matmul{matmul-min-bytes=0 use-cost-model=false})' %s | FileCheck %s

// CHECK-LABEL: module @a_product_is_done_with_each_shard_as_it_arrives
// CHECK-NOT: "stablehlo.all_gather"
// CHECK: [[N:%[0-9]+]] = "stablehlo.collective_permute"(%arg0){{.*}}dense<{{\[\[}}1, 0], [0, 1], [3, 2], [2, 3]]>{{.*}}the product needs it
// CHECK: [[A:%[0-9]+]] = stablehlo.dot_general %arg0, %arg1,
// CHECK: [[R:%[0-9]+]] = stablehlo.dynamic_update_slice %{{.*}}, [[A]],
// CHECK: [[B:%[0-9]+]] = stablehlo.dot_general [[N]], %arg1,
// CHECK: [[S:%[0-9]+]] = stablehlo.dynamic_update_slice [[R]], [[B]],
// CHECK: return [[S]]
module @a_product_is_done_with_each_shard_as_it_arrives attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<4x6xf32>, %b: tensor<6x5xf32>) -> tensor<8x5xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "the product needs it"} : (tensor<4x6xf32>) -> tensor<8x6xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<8x6xf32>, tensor<6x5xf32>) -> tensor<8x5xf32>
    return %1 : tensor<8x5xf32>
  }
}

// -----

// CHECK-LABEL: module @sums_travel_while_the_next_part_is_computed
// CHECK-NOT: "stablehlo.reduce_scatter"
// CHECK: [[A:%[0-9]+]] = stablehlo.dynamic_slice %arg0
// CHECK: [[P:%[0-9]+]] = stablehlo.dot_general [[A]], %arg1,
// CHECK: [[T:%[0-9]+]] = "stablehlo.collective_permute"([[P]])
// CHECK: [[Q:%[0-9]+]] = stablehlo.dot_general
// CHECK: [[S:%[0-9]+]] = stablehlo.add [[T]], [[Q]]
// CHECK: return [[S]]
module @sums_travel_while_the_next_part_is_computed attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8x6xf32>, %b: tensor<6x5xf32>) -> tensor<4x5xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x6xf32>, tensor<6x5xf32>) -> tensor<8x5xf32>
    %1 = "stablehlo.reduce_scatter"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<8x5xf32>) -> tensor<4x5xf32>
    return %1 : tensor<4x5xf32>
  }
}

// -----

// CHECK-LABEL: module @what_several_products_need_is_gathered_once
// CHECK: "stablehlo.all_gather"
module @what_several_products_need_is_gathered_once attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<4x6xf32>, %b: tensor<6x5xf32>) -> (tensor<8x5xf32>, tensor<8x5xf32>) {
    // expected-remark @+1 {{'stablehlo.all_gather' op is not overlapped with communication because 2 operations use the gathered value}}
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<4x6xf32>) -> tensor<8x6xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<8x6xf32>, tensor<6x5xf32>) -> tensor<8x5xf32>
    %c = stablehlo.negate %b : tensor<6x5xf32>
    %2 = stablehlo.dot_general %0, %c, contracting_dims = [1] x [0] : (tensor<8x6xf32>, tensor<6x5xf32>) -> tensor<8x5xf32>
    return %1, %2 : tensor<8x5xf32>, tensor<8x5xf32>
  }
}

// -----

// CHECK-LABEL: module @shards_that_are_not_full_are_gathered_before
// CHECK: "stablehlo.all_gather"
module @shards_that_are_not_full_are_gathered_before attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<4x6xf32>, %b: tensor<6x5xf32>) -> tensor<7x5xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<4x6xf32>) -> tensor<8x6xf32>
    %s = stablehlo.slice %0 [0:7, 0:6] : (tensor<8x6xf32>) -> tensor<7x6xf32>
    // expected-remark @+1 {{'stablehlo.dot_general' op is not overlapped with communication because the last shard of its operand has padding}}
    %1 = stablehlo.dot_general %s, %b, contracting_dims = [1] x [0] : (tensor<7x6xf32>, tensor<6x5xf32>) -> tensor<7x5xf32>
    return %1 : tensor<7x5xf32>
  }
}
