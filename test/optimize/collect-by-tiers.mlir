// RUN: gspmd-opt --split-input-file --gspmd-collect-by-tiers='target=tpu:v5e:2x2*2@S2.X2.Y2' %s | FileCheck %s
// RUN: gspmd-opt --split-input-file --gspmd-collect-by-tiers='target=tpu:v5e:2x4@X2.Y4' %s | FileCheck %s --check-prefix=ONE

// "a" leads from one slice to the other. Within one slice, nothing is changed.

// CHECK-LABEL: module @a_sum_over_slices_is_a_sum_of_parts
// CHECK: [[S:%[0-9]+]] = "stablehlo.reduce_scatter"(%arg0) {{.*}}dense<{{\[\[}}0, 1, 2, 3], [4, 5, 6, 7]]>{{.*}}scatter_dimension = 0
// CHECK: gspmd.axes = "\22b\22", gspmd.cause = "a sum"{{.*}} -> tensor<1024x512xf32>
// CHECK: [[R:%[0-9]+]] = "stablehlo.all_reduce"([[S]]) {{.*}}dense<{{\[\[}}0, 4], [1, 5], [2, 6], [3, 7]]>
// CHECK: gspmd.axes = "\22a\22", gspmd.cause = "a sum"{{.*}} -> tensor<1024x512xf32>
// CHECK: [[G:%[0-9]+]] = "stablehlo.all_gather"([[R]]) {{.*}}all_gather_dim = 0{{.*}} -> tensor<4096x512xf32>
// CHECK: return [[G]]

// ONE-LABEL: module @a_sum_over_slices_is_a_sum_of_parts
// ONE-NOT: reduce_scatter
// ONE: all_reduce
// ONE-NOT: all_gather
module @a_sum_over_slices_is_a_sum_of_parts attributes {gspmd.mesh = "<[\22a\22=2, \22b\22=4]>", mhlo.num_partitions = 8 : i32} {
  func.func public @main(%x: tensor<4096x512xf32>) -> tensor<4096x512xf32> {
    %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22a\22, \22b\22", gspmd.cause = "a sum"} : (tensor<4096x512xf32>) -> tensor<4096x512xf32>
    return %0 : tensor<4096x512xf32>
  }
}

// -----

// CHECK-LABEL: module @a_gather_over_slices_is_one_across_and_one_inside
// CHECK: [[A:%[0-9]+]] = stablehlo.reshape %arg0 : (tensor<512x512xf32>) -> tensor<1x1x512x512xf32>
// CHECK: [[B:%[0-9]+]] = "stablehlo.all_gather"([[A]]) {{.*}}all_gather_dim = 0{{.*}}gspmd.axes = "\22a\22"{{.*}} -> tensor<2x1x512x512xf32>
// CHECK: [[C:%[0-9]+]] = "stablehlo.all_gather"([[B]]) {{.*}}all_gather_dim = 1{{.*}}gspmd.axes = "\22b\22"{{.*}} -> tensor<2x4x512x512xf32>
// CHECK-NOT: transpose
// CHECK: stablehlo.reshape {{.*}} -> tensor<4096x512xf32>
// ONE-LABEL: module @a_gather_over_slices_is_one_across_and_one_inside
// ONE-NOT: reshape
module @a_gather_over_slices_is_one_across_and_one_inside attributes {gspmd.mesh = "<[\22a\22=2, \22b\22=4]>", mhlo.num_partitions = 8 : i32} {
  func.func public @main(%x: tensor<512x512xf32>) -> tensor<4096x512xf32> {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> {gspmd.axes = "\22a\22, \22b\22", gspmd.cause = "a gather"} : (tensor<512x512xf32>) -> tensor<4096x512xf32>
    return %0 : tensor<4096x512xf32>
  }
}

// -----

// What is sent inside first lies apart in the operand, and is put together before.

// CHECK-LABEL: module @parts_of_either_tier_between_each_other_are_put_together
// CHECK: stablehlo.reshape %arg0 : (tensor<8192x512xf32>) -> tensor<2x2x2x1024x512xf32>
// CHECK: stablehlo.transpose {{.*}}, dims = [0, 2, 1, 3, 4]
// CHECK: stablehlo.reshape {{.*}} -> tensor<4x2x1024x512xf32>
// CHECK: "stablehlo.reduce_scatter"{{.*}}scatter_dimension = 0
// CHECK: gspmd.axes = "\22c\22, \22b\22"{{.*}} -> tensor<1x2x1024x512xf32>
// CHECK: "stablehlo.reduce_scatter"{{.*}}scatter_dimension = 1
// CHECK: gspmd.axes = "\22a\22"{{.*}} -> tensor<1x1x1024x512xf32>
// CHECK: stablehlo.reshape {{.*}} -> tensor<1024x512xf32>
// ONE-LABEL: module @parts_of_either_tier_between_each_other_are_put_together
// ONE-NOT: transpose
module @parts_of_either_tier_between_each_other_are_put_together attributes {gspmd.mesh = "<[\22a\22=2, \22b\22=2, \22c\22=2]>", mhlo.num_partitions = 8 : i32} {
  func.func public @main(%x: tensor<8192x512xf32>) -> tensor<1024x512xf32> {
    %0 = "stablehlo.reduce_scatter"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6, 1, 3, 5, 7]]> : tensor<1x8xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22c\22, \22a\22, \22b\22", gspmd.cause = "a sum"} : (tensor<8192x512xf32>) -> tensor<1024x512xf32>
    return %0 : tensor<1024x512xf32>
  }
}
