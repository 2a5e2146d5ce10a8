// RUN: gspmd-opt --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(gspmd-gather-in-pieces{gather-pieces=2 target=tpu-v5e})' %s | FileCheck %s

// Both products take the gather in halves of the first dimension that neither sums over.
// CHECK-LABEL: module @products_that_wait_begin_with_the_first_half
// CHECK: [[A:%[0-9]+]] = stablehlo.slice %arg0 [0:512, 0:4096]
// CHECK: [[GA:%[0-9]+]] = "stablehlo.all_gather"([[A]]) <{all_gather_dim = 1
// CHECK: [[B:%[0-9]+]] = stablehlo.slice %arg0 [512:1024, 0:4096]
// CHECK: [[GB:%[0-9]+]] = "stablehlo.all_gather"([[B]]) <{all_gather_dim = 1
// CHECK: [[P:%[0-9]+]] = stablehlo.dot_general [[GA]], %arg1
// CHECK: [[Q:%[0-9]+]] = stablehlo.dot_general [[GB]], %arg1
// CHECK: stablehlo.concatenate [[P]], [[Q]], dim = 0 : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<1024x512xf32>
// CHECK: [[R:%[0-9]+]] = stablehlo.dot_general %arg2, [[GA]]
// CHECK: [[S:%[0-9]+]] = stablehlo.dot_general %arg2, [[GB]]
// CHECK: stablehlo.concatenate [[R]], [[S]], dim = 1 : (tensor<256x512xf32>, tensor<256x512xf32>) -> tensor<256x1024xf32>
module @products_that_wait_begin_with_the_first_half attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<1024x4096xf32>, %b: tensor<8192x512xf32>, %c: tensor<256x8192xf32>) -> (tensor<1024x512xf32>, tensor<256x1024xf32>) {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<1024x4096xf32>) -> tensor<1024x8192xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<1024x8192xf32>, tensor<8192x512xf32>) -> tensor<1024x512xf32>
    %2 = stablehlo.dot_general %c, %0, contracting_dims = [1] x [1] : (tensor<256x8192xf32>, tensor<1024x8192xf32>) -> tensor<256x1024xf32>
    return %1, %2 : tensor<1024x512xf32>, tensor<256x1024xf32>
  }
}

// -----

// CHECK-LABEL: module @batches_are_cut_in_both_operands
// CHECK: "stablehlo.all_gather"{{.*}} (tensor<4x512x2048xf32>) -> tensor<4x512x4096xf32>
// CHECK: stablehlo.slice %arg1 [0:4, 0:4096, 0:512]
// CHECK: stablehlo.slice %arg1 [4:8, 0:4096, 0:512]
// CHECK: stablehlo.concatenate {{.*}}, dim = 0
module @batches_are_cut_in_both_operands attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8x512x2048xf32>, %b: tensor<8x4096x512xf32>) -> tensor<8x512x512xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 2 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<8x512x2048xf32>) -> tensor<8x512x4096xf32>
    %1 = stablehlo.dot_general %0, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<8x512x4096xf32>, tensor<8x4096x512xf32>) -> tensor<8x512x512xf32>
    return %1 : tensor<8x512x512xf32>
  }
}

// -----

// CHECK-LABEL: module @products_before_hide_the_gather
// CHECK: "stablehlo.all_gather"(%arg0)
module @products_before_hide_the_gather attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<1024x4096xf32>, %b: tensor<8192x512xf32>, %c: tensor<8192x8192xf32>) -> (tensor<1024x512xf32>, tensor<8192x8192xf32>) {
    %d = stablehlo.dot_general %c, %c, contracting_dims = [1] x [0] : (tensor<8192x8192xf32>, tensor<8192x8192xf32>) -> tensor<8192x8192xf32>
    // expected-remark@+1 {{is not gathered in chunks because the products before its consumers take longer than the gather}}
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<1024x4096xf32>) -> tensor<1024x8192xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<1024x8192xf32>, tensor<8192x512xf32>) -> tensor<1024x512xf32>
    return %1, %d : tensor<1024x512xf32>, tensor<8192x8192xf32>
  }
}

// -----

// What the gather's operand comes from hides nothing.
// CHECK-LABEL: module @a_product_that_gives_the_operand_is_waited_for
// CHECK-COUNT-2: "stablehlo.all_gather"
module @a_product_that_gives_the_operand_is_waited_for attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<1024x8192xf32>, %b: tensor<8192x512xf32>, %c: tensor<8192x4096xf32>) -> tensor<1024x512xf32> {
    %d = stablehlo.dot_general %a, %c, contracting_dims = [1] x [0] : (tensor<1024x8192xf32>, tensor<8192x4096xf32>) -> tensor<1024x4096xf32>
    %0 = "stablehlo.all_gather"(%d) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<1024x4096xf32>) -> tensor<1024x8192xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<1024x8192xf32>, tensor<8192x512xf32>) -> tensor<1024x512xf32>
    return %1 : tensor<1024x512xf32>
  }
}

// -----

// CHECK-LABEL: module @products_that_sum_over_what_is_left
module @products_that_sum_over_what_is_left attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<1024x4096xf32>, %b: tensor<8192x512xf32>, %c: tensor<1024x512xf32>) -> (tensor<1024x512xf32>, tensor<8192x512xf32>) {
    // expected-remark@+1 {{is not gathered in chunks because no other dimension that all products keep is a multiple of 2}}
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<1024x4096xf32>) -> tensor<1024x8192xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<1024x8192xf32>, tensor<8192x512xf32>) -> tensor<1024x512xf32>
    %2 = stablehlo.dot_general %0, %c, contracting_dims = [0] x [0] : (tensor<1024x8192xf32>, tensor<1024x512xf32>) -> tensor<8192x512xf32>
    return %1, %2 : tensor<1024x512xf32>, tensor<8192x512xf32>
  }
}

// -----

// CHECK-LABEL: module @something_else_takes_all_of_it
module @something_else_takes_all_of_it attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<1024x4096xf32>, %b: tensor<8192x512xf32>) -> (tensor<1024x512xf32>, tensor<1024x8192xf32>) {
    // expected-remark@+1 {{is not gathered in chunks because not every use of it is one operand of a product in its block}}
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<1024x4096xf32>) -> tensor<1024x8192xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<1024x8192xf32>, tensor<8192x512xf32>) -> tensor<1024x512xf32>
    %2 = stablehlo.negate %0 : tensor<1024x8192xf32>
    return %1, %2 : tensor<1024x512xf32>, tensor<1024x8192xf32>
  }
}

// -----

// CHECK-LABEL: module @small_gathers
module @small_gathers attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<4x6xf32>, %b: tensor<12x5xf32>) -> tensor<4x5xf32> {
    // expected-remark@+1 {{is not gathered in chunks because 192 bytes are gathered, less than 1048576}}
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<4x6xf32>) -> tensor<4x12xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<4x12xf32>, tensor<12x5xf32>) -> tensor<4x5xf32>
    return %1 : tensor<4x5xf32>
  }
}

// -----

// CHECK-LABEL: module @results_that_take_longer_to_put_together
module @results_that_take_longer_to_put_together attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8192x32xf32>, %b: tensor<64x32768xf32>) -> tensor<8192x32768xf32> {
    // expected-remark-re@+1 {{is not gathered in chunks because concatenating the results takes {{.*}} us, and chunks save {{.*}} us}}
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<8192x32xf32>) -> tensor<8192x64xf32>
    %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<8192x64xf32>, tensor<64x32768xf32>) -> tensor<8192x32768xf32>
    return %1 : tensor<8192x32768xf32>
  }
}
