// RUN: gspmd-opt --split-input-file --verify-diagnostics --gspmd-fuse-collectives %s | FileCheck %s

// CHECK-LABEL: module @a_sum_of_which_the_own_shard_is_used_is_scattered
// CHECK-NOT: "stablehlo.all_reduce"
// CHECK: [[S:%[0-9]+]] = "stablehlo.reduce_scatter"(%arg0) {{.*}}scatter_dimension = 0
// CHECK-NOT: dynamic_slice
// CHECK: return [[S]]
module @a_sum_of_which_the_own_shard_is_used_is_scattered attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>) -> tensor<4xf32> {
    %id = stablehlo.partition_id : tensor<ui32>
    %p = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %y = stablehlo.remainder %p, %two : tensor<i32>
    %start = stablehlo.multiply %y, %four : tensor<i32>
    %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<8xf32>) -> tensor<8xf32>
    %1 = stablehlo.dynamic_slice %0, %start, sizes = [4] : (tensor<8xf32>, tensor<i32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}

// -----

// CHECK-LABEL: module @the_shard_is_cut_before_what_is_elementwise_or_transposed
// CHECK-NOT: "stablehlo.all_reduce"
// CHECK: [[S:%[0-9]+]] = "stablehlo.reduce_scatter"(%arg0) {{.*}}scatter_dimension = 1
// CHECK: [[T:%[0-9]+]] = stablehlo.transpose [[S]]{{.*}} -> tensor<4x8xf32>
// CHECK: [[B:%[0-9]+]] = stablehlo.dynamic_slice %arg1
// CHECK: stablehlo.multiply [[T]], [[B]] : tensor<4x8xf32>
module @the_shard_is_cut_before_what_is_elementwise_or_transposed attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> tensor<4x8xf32> {
    %id = stablehlo.partition_id : tensor<ui32>
    %p = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %y = stablehlo.remainder %p, %two : tensor<i32>
    %start = stablehlo.multiply %y, %four : tensor<i32>
    %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %t = stablehlo.transpose %0, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %m = stablehlo.multiply %t, %b : tensor<8x8xf32>
    %1 = stablehlo.dynamic_slice %m, %start, %zero, sizes = [4, 8] : (tensor<8x8xf32>, tensor<i32>, tensor<i32>) -> tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}

// -----

// CHECK-LABEL: module @the_shard_is_cut_before_what_chlo_computes_by_element
// CHECK-NOT: "stablehlo.all_reduce"
// CHECK: [[S:%[0-9]+]] = "stablehlo.reduce_scatter"(%arg0) {{.*}}scatter_dimension = 1
// CHECK: [[T:%[0-9]+]] = stablehlo.transpose [[S]]{{.*}} -> tensor<4x8xf32>
// CHECK: chlo.erf [[T]] : tensor<4x8xf32> -> tensor<4x8xf32>
module @the_shard_is_cut_before_what_chlo_computes_by_element attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8x8xf32>) -> tensor<4x8xf32> {
    %id = stablehlo.partition_id : tensor<ui32>
    %p = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %y = stablehlo.remainder %p, %two : tensor<i32>
    %start = stablehlo.multiply %y, %four : tensor<i32>
    %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %t = stablehlo.transpose %0, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %m = chlo.erf %t : tensor<8x8xf32> -> tensor<8x8xf32>
    %1 = stablehlo.dynamic_slice %m, %start, %zero, sizes = [4, 8] : (tensor<8x8xf32>, tensor<i32>, tensor<i32>) -> tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}

// -----

// CHECK-LABEL: module @what_a_region_computes_is_not_looked_into
// CHECK: "stablehlo.all_reduce"
// CHECK: "stablehlo.map"
// CHECK: dynamic_slice
module @what_a_region_computes_is_not_looked_into attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8x8xf32>) -> tensor<4x8xf32> {
    %id = stablehlo.partition_id : tensor<ui32>
    %p = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %y = stablehlo.remainder %p, %two : tensor<i32>
    %start = stablehlo.multiply %y, %four : tensor<i32>
    %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %t = stablehlo.transpose %0, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %m = "stablehlo.map"(%t) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%v: tensor<f32>):
      %n = stablehlo.negate %v : tensor<f32>
      stablehlo.return %n : tensor<f32>
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = stablehlo.dynamic_slice %m, %start, %zero, sizes = [4, 8] : (tensor<8x8xf32>, tensor<i32>, tensor<i32>) -> tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}

// -----

// CHECK-LABEL: module @what_is_reduced_over_more_axes_is_reduced_on_the_shard
// CHECK: [[S:%[0-9]+]] = "stablehlo.reduce_scatter"(%arg0) {{.*}}dense<{{\[\[}}0, 1], [2, 3]]>
// CHECK: "stablehlo.all_reduce"([[S]]) {{.*}}dense<{{\[\[}}0, 2], [1, 3]]>
// CHECK: gspmd.axes = "\22x\22"
module @what_is_reduced_over_more_axes_is_reduced_on_the_shard attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>) -> tensor<4xf32> {
    %id = stablehlo.partition_id : tensor<ui32>
    %p = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %y = stablehlo.remainder %p, %two : tensor<i32>
    %start = stablehlo.multiply %y, %four : tensor<i32>
    %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22x\22, \22y\22", gspmd.cause = "a sum"} : (tensor<8xf32>) -> tensor<8xf32>
    %1 = stablehlo.dynamic_slice %0, %start, sizes = [4] : (tensor<8xf32>, tensor<i32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}

// -----

// CHECK-LABEL: module @a_slice_at_another_place_stays
// CHECK: all_reduce
// CHECK: dynamic_slice
module @a_slice_at_another_place_stays attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>) -> tensor<4xf32> {
    %id = stablehlo.partition_id : tensor<ui32>
    %p = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %y = stablehlo.remainder %p, %two : tensor<i32>
    %start = stablehlo.multiply %y, %four : tensor<i32>
    %o = stablehlo.subtract %four, %start : tensor<i32>
    // expected-remark @+1 {{'stablehlo.all_reduce' op is not made a reduce-scatter because the slice of dim 0 does not begin at the device's own shard}}
    %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<8xf32>) -> tensor<8xf32>
    %1 = stablehlo.dynamic_slice %0, %o, sizes = [4] : (tensor<8xf32>, tensor<i32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}

// -----

// CHECK-LABEL: module @a_sum_that_is_padded_to_even_shards_is_scattered
// CHECK-NOT: "stablehlo.all_reduce"
// CHECK: [[P:%[0-9]+]] = stablehlo.pad %arg0, {{.*}} high = [1]
// CHECK: [[S:%[0-9]+]] = "stablehlo.reduce_scatter"([[P]]) {{.*}}scatter_dimension = 0
// CHECK-NOT: dynamic_slice
// CHECK: return [[S]]
module @a_sum_that_is_padded_to_even_shards_is_scattered attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<7xf32>) -> tensor<4xf32> {
    %id = stablehlo.partition_id : tensor<ui32>
    %p = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %y = stablehlo.remainder %p, %two : tensor<i32>
    %start = stablehlo.multiply %y, %four : tensor<i32>
    %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<7xf32>) -> tensor<7xf32>
    %1 = stablehlo.pad %0, %zero, low = [0], high = [1], interior = [0] : (tensor<7xf32>, tensor<f32>) -> tensor<8xf32>
    %2 = stablehlo.dynamic_slice %1, %start, sizes = [4] : (tensor<8xf32>, tensor<i32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}

// -----

// CHECK-LABEL: module @what_a_sum_is_padded_with_is_not_summed
// CHECK: "stablehlo.all_reduce"(%arg0)
// CHECK: stablehlo.pad
module @what_a_sum_is_padded_with_is_not_summed attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<7xf32>) -> tensor<4xf32> {
    %id = stablehlo.partition_id : tensor<ui32>
    %p = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %y = stablehlo.remainder %p, %two : tensor<i32>
    %start = stablehlo.multiply %y, %four : tensor<i32>
    %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<7xf32>) -> tensor<7xf32>
    %1 = stablehlo.pad %0, %one, low = [0], high = [1], interior = [0] : (tensor<7xf32>, tensor<f32>) -> tensor<8xf32>
    %2 = stablehlo.dynamic_slice %1, %start, sizes = [4] : (tensor<8xf32>, tensor<i32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}

// -----

// CHECK-LABEL: module @more_would_be_sent_of_what_is_padded
// CHECK: "stablehlo.all_reduce"(%arg0)
// CHECK: stablehlo.pad
module @more_would_be_sent_of_what_is_padded attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<7xf32>) -> tensor<8xf32> {
    %id = stablehlo.partition_id : tensor<ui32>
    %p = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %eight = stablehlo.constant dense<8> : tensor<i32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %y = stablehlo.remainder %p, %two : tensor<i32>
    %start = stablehlo.multiply %y, %eight : tensor<i32>
    %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22y\22", gspmd.cause = "a sum"} : (tensor<7xf32>) -> tensor<7xf32>
    %1 = stablehlo.pad %0, %zero, low = [0], high = [9], interior = [0] : (tensor<7xf32>, tensor<f32>) -> tensor<16xf32>
    %2 = stablehlo.dynamic_slice %1, %start, sizes = [8] : (tensor<16xf32>, tensor<i32>) -> tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @what_is_gathered_for_another_is_not_gathered_again
// CHECK: "stablehlo.all_gather"(%arg0)
// CHECK-SAME: (tensor<2xf32>) -> tensor<8xf32>
// CHECK-NOT: "stablehlo.all_gather"
// CHECK: return
module @what_is_gathered_for_another_is_not_gathered_again attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<2xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
    %id = stablehlo.partition_id : tensor<ui32>
    %p = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %x = stablehlo.divide %p, %two : tensor<i32>
    %start = stablehlo.multiply %x, %four : tensor<i32>
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> {gspmd.axes = "\22x\22, \22y\22", gspmd.cause = "a constraint"} : (tensor<2xf32>) -> tensor<8xf32>
    %1 = stablehlo.tanh %0 : tensor<8xf32>
    %2 = stablehlo.dynamic_slice %0, %start, sizes = [4] : (tensor<8xf32>, tensor<i32>) -> tensor<4xf32>
    return %1, %2 : tensor<8xf32>, tensor<4xf32>
  }
}
