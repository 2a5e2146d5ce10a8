// RUN: gspmd-opt --split-input-file --gspmd-localize %s | FileCheck %s

// CHECK-LABEL: module @an_all_gather_along_the_minor_axis_has_groups_of_neighbours
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<4x6xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<8x6xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0 : i64, {{.*}}, replica_groups = dense<{{\[\[}}0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", {{.*}} : (tensor<4x6xf32>) -> tensor<8x6xf32>
// CHECK: return [[V0]]
module @an_all_gather_along_the_minor_axis_has_groups_of_neighbours {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> tensor<8x6xf32> {
    %0 = sdy.all_gather [{"y"}, {}] %a out_sharding=<@mesh, [{}, {}]> : tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
  }
}

// -----

// CHECK-LABEL: module @an_all_gather_along_the_major_axis_has_strided_groups
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<4x6xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<8x6xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0 : i64, {{.*}}, replica_groups = dense<{{\[\[}}0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22x\22", {{.*}} : (tensor<4x6xf32>) -> tensor<8x6xf32>
// CHECK: return [[V0]]
module @an_all_gather_along_the_major_axis_has_strided_groups {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x6xf32> {
    %0 = sdy.all_gather [{"x"}, {}] %a out_sharding=<@mesh, [{}, {}]> : tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
  }
}

// -----

// CHECK-LABEL: module @groups_follow_the_axes_in_the_order_of_the_sharding
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<2xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<8xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0 : i64, {{.*}}, replica_groups = dense<{{\[\[}}0, 2, 1, 3]]> : tensor<1x4xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22, \22x\22", {{.*}} : (tensor<2xf32>) -> tensor<8xf32>
// CHECK: return [[V0]]
module @groups_follow_the_axes_in_the_order_of_the_sharding {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y", "x"}]>}) -> tensor<8xf32> {
    %0 = sdy.all_gather [{"y", "x"}] %a out_sharding=<@mesh, [{}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @groups_name_the_device_ids_of_the_mesh
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<4xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<8xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0 : i64, {{.*}}, replica_groups = dense<{{\[\[}}3, 0], [1, 2]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22x\22", {{.*}} : (tensor<4xf32>) -> tensor<8xf32>
// CHECK: return [[V0]]
module @groups_name_the_device_ids_of_the_mesh {
  sdy.mesh @mesh = <["x"=2, "y"=2], device_ids=[3, 1, 0, 2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %0 = sdy.all_gather [{"x"}] %a out_sharding=<@mesh, [{}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_part_of_an_axis_has_groups_of_that_size
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<2xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<8xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0 : i64, {{.*}}, replica_groups = dense<{{\[\[}}0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> {gspmd.axes = "\22x\22:(2)4", {{.*}} : (tensor<2xf32>) -> tensor<8xf32>
// CHECK: return [[V0]]
module @a_part_of_an_axis_has_groups_of_that_size {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}]>}) {
    %0 = sdy.all_gather [{"x":(2)4}] %a out_sharding=<@mesh, [{"x":(1)2}]> : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}

// -----

// CHECK-LABEL: module @several_dimensions_are_gathered_at_once_and_put_in_order
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<4x3xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<8x6xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.reshape %arg0 : (tensor<4x3xf32>) -> tensor<1x4x3xf32>
// CHECK: [[V1:%[a-z0-9_]+]] = "stablehlo.all_gather"([[V0]]) <{all_gather_dim = 0 : i64, {{.*}}, replica_groups = dense<{{\[\[}}0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> {gspmd.axes = "\22x\22, \22y\22", {{.*}} : (tensor<1x4x3xf32>) -> tensor<4x4x3xf32>
// CHECK: [[V2:%[a-z0-9_]+]] = stablehlo.reshape [[V1]] : (tensor<4x4x3xf32>) -> tensor<2x2x4x3xf32>
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.transpose [[V2]], dims = [0, 2, 1, 3] : (tensor<2x2x4x3xf32>) -> tensor<2x4x2x3xf32>
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.reshape [[V3]] : (tensor<2x4x2x3xf32>) -> tensor<8x6xf32>
// CHECK: return [[V4]]
module @several_dimensions_are_gathered_at_once_and_put_in_order {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x6xf32> {
    %0 = sdy.all_gather [{"x"}, {"y"}] %a out_sharding=<@mesh, [{}, {}]> : tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
  }
}

// -----

// CHECK-LABEL: module @the_padding_of_an_uneven_dimension_is_cut_off_after_the_gather
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<2xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<6xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0 : i64, {{.*}}, replica_groups = dense<{{\[\[}}0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> {gspmd.axes = "\22x\22", {{.*}} : (tensor<2xf32>) -> tensor<8xf32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.slice [[V0]] [0:6] : (tensor<8xf32>) -> tensor<6xf32>
// CHECK: return [[V1]]
module @the_padding_of_an_uneven_dimension_is_cut_off_after_the_gather {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<6xf32> {
    %0 = sdy.all_gather [{"x"}] %a out_sharding=<@mesh, [{}]> : tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}

// -----

// CHECK-LABEL: module @an_all_slice_takes_the_part_at_the_partition_s_index
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<8xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<2xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.partition_id : tensor<ui32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.convert [[V0]] : (tensor<ui32>) -> tensor<i32>
// CHECK: [[V2:%[a-z0-9_]+]] = stablehlo.constant dense<0> : tensor<i32>
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.constant dense<2> : tensor<i32>
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.multiply [[V1]], [[V3]] : tensor<i32>
// CHECK: [[V5:%[a-z0-9_]+]] = stablehlo.dynamic_slice %arg0, [[V4]], sizes = [2] : (tensor<8xf32>, tensor<i32>) -> tensor<2xf32>
// CHECK: return [[V5]]
module @an_all_slice_takes_the_part_at_the_partition_s_index {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = sdy.all_slice [{"x"}] %a out_sharding=<@mesh, [{"x"}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @an_index_along_one_of_several_axes_is_divided_and_wrapped
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<6xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<2xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.partition_id : tensor<ui32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.convert [[V0]] : (tensor<ui32>) -> tensor<i32>
// CHECK: [[V2:%[a-z0-9_]+]] = stablehlo.constant dense<2> : tensor<i32>
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.divide [[V1]], [[V2]] : tensor<i32>
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.constant dense<3> : tensor<i32>
// CHECK: [[V5:%[a-z0-9_]+]] = stablehlo.remainder [[V3]], [[V4]] : tensor<i32>
// CHECK: [[V6:%[a-z0-9_]+]] = stablehlo.constant dense<0> : tensor<i32>
// CHECK: [[V7:%[a-z0-9_]+]] = stablehlo.constant dense<2> : tensor<i32>
// CHECK: [[V8:%[a-z0-9_]+]] = stablehlo.multiply [[V5]], [[V7]] : tensor<i32>
// CHECK: [[V9:%[a-z0-9_]+]] = stablehlo.dynamic_slice %arg0, [[V8]], sizes = [2] : (tensor<6xf32>, tensor<i32>) -> tensor<2xf32>
// CHECK: return [[V9]]
module @an_index_along_one_of_several_axes_is_divided_and_wrapped {
  sdy.mesh @mesh = <["x"=2, "y"=3, "z"=2]>
  func.func public @main(%a: tensor<6xf32>) -> (tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) {
    %0 = sdy.all_slice [{"y"}] %a out_sharding=<@mesh, [{"y"}]> : tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}

// -----

// CHECK-LABEL: module @an_index_along_two_axes_is_combined_major_first
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<12xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<2xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.partition_id : tensor<ui32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.convert [[V0]] : (tensor<ui32>) -> tensor<i32>
// CHECK: [[V2:%[a-z0-9_]+]] = stablehlo.constant dense<3> : tensor<i32>
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.remainder [[V1]], [[V2]] : tensor<i32>
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.constant dense<2> : tensor<i32>
// CHECK: [[V5:%[a-z0-9_]+]] = stablehlo.multiply [[V3]], [[V4]] : tensor<i32>
// CHECK: [[V6:%[a-z0-9_]+]] = stablehlo.constant dense<3> : tensor<i32>
// CHECK: [[V7:%[a-z0-9_]+]] = stablehlo.divide [[V1]], [[V6]] : tensor<i32>
// CHECK: [[V8:%[a-z0-9_]+]] = stablehlo.add [[V5]], [[V7]] : tensor<i32>
// CHECK: [[V9:%[a-z0-9_]+]] = stablehlo.constant dense<0> : tensor<i32>
// CHECK: [[V10:%[a-z0-9_]+]] = stablehlo.constant dense<2> : tensor<i32>
// CHECK: [[V11:%[a-z0-9_]+]] = stablehlo.multiply [[V8]], [[V10]] : tensor<i32>
// CHECK: [[V12:%[a-z0-9_]+]] = stablehlo.dynamic_slice %arg0, [[V11]], sizes = [2] : (tensor<12xf32>, tensor<i32>) -> tensor<2xf32>
// CHECK: return [[V12]]
module @an_index_along_two_axes_is_combined_major_first {
  sdy.mesh @mesh = <["x"=2, "y"=3]>
  func.func public @main(%a: tensor<12xf32>) -> (tensor<12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y", "x"}]>}) {
    %0 = sdy.all_slice [{"y", "x"}] %a out_sharding=<@mesh, [{"y", "x"}]> : tensor<12xf32>
    return %0 : tensor<12xf32>
  }
}

// -----

// CHECK-LABEL: module @with_device_ids_the_position_is_looked_up
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<8xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<2xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.partition_id : tensor<ui32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.convert [[V0]] : (tensor<ui32>) -> tensor<i32>
// CHECK: [[V2:%[a-z0-9_]+]] = stablehlo.constant dense<[2, 1, 3, 0]> : tensor<4xi32>
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.dynamic_slice [[V2]], [[V1]], sizes = [1] : (tensor<4xi32>, tensor<i32>) -> tensor<1xi32>
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.reshape [[V3]] : (tensor<1xi32>) -> tensor<i32>
// CHECK: [[V5:%[a-z0-9_]+]] = stablehlo.constant dense<0> : tensor<i32>
// CHECK: [[V6:%[a-z0-9_]+]] = stablehlo.constant dense<2> : tensor<i32>
// CHECK: [[V7:%[a-z0-9_]+]] = stablehlo.multiply [[V4]], [[V6]] : tensor<i32>
// CHECK: [[V8:%[a-z0-9_]+]] = stablehlo.dynamic_slice %arg0, [[V7]], sizes = [2] : (tensor<8xf32>, tensor<i32>) -> tensor<2xf32>
// CHECK: return [[V8]]
module @with_device_ids_the_position_is_looked_up {
  sdy.mesh @mesh = <["x"=4], device_ids=[3, 1, 0, 2]>
  func.func public @main(%a: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = sdy.all_slice [{"x"}] %a out_sharding=<@mesh, [{"x"}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @an_uneven_slice_is_padded_before_it_is_cut
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<6xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<2xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.partition_id : tensor<ui32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.convert [[V0]] : (tensor<ui32>) -> tensor<i32>
// CHECK: [[V2:%[a-z0-9_]+]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.pad %arg0, [[V2]], low = [0], high = [2], interior = [0] : (tensor<6xf32>, tensor<f32>) -> tensor<8xf32>
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.constant dense<0> : tensor<i32>
// CHECK: [[V5:%[a-z0-9_]+]] = stablehlo.constant dense<2> : tensor<i32>
// CHECK: [[V6:%[a-z0-9_]+]] = stablehlo.multiply [[V1]], [[V5]] : tensor<i32>
// CHECK: [[V7:%[a-z0-9_]+]] = stablehlo.dynamic_slice [[V3]], [[V6]], sizes = [2] : (tensor<8xf32>, tensor<i32>) -> tensor<2xf32>
// CHECK: return [[V7]]
module @an_uneven_slice_is_padded_before_it_is_cut {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<6xf32>) -> (tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = sdy.all_slice [{"x"}] %a out_sharding=<@mesh, [{"x"}]> : tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}

// -----

// CHECK-LABEL: module @an_all_to_all_splits_one_dimension_and_joins_the_other
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<2x12xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<8x3xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = "stablehlo.all_to_all"(%arg0) <{{{.*}}, concat_dimension = 0 : i64, replica_groups = dense<{{\[\[}}0, 1, 2, 3]]> : tensor<1x4xi64>, split_count = 4 : i64, split_dimension = 1 : i64}> {gspmd.axes = "\22x\22", {{.*}} : (tensor<2x12xf32>) -> tensor<8x3xf32>
// CHECK: return [[V0]]
module @an_all_to_all_splits_one_dimension_and_joins_the_other {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %0 = sdy.all_to_all [{"x"}: 0->1] %a out_sharding=<@mesh, [{}, {"x"}]> : tensor<8x12xf32>
    return %0 : tensor<8x12xf32>
  }
}

// -----

// CHECK-LABEL: module @an_all_to_all_of_uneven_dimensions_pads_the_target_and_cuts_the_source
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<2x7xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<6x2xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.pad %arg0, [[V0]], low = [0, 0], high = [0, 1], interior = [0, 0] : (tensor<2x7xf32>, tensor<f32>) -> tensor<2x8xf32>
// CHECK: [[V2:%[a-z0-9_]+]] = "stablehlo.all_to_all"([[V1]]) <{{{.*}}, concat_dimension = 0 : i64, replica_groups = dense<{{\[\[}}0, 1, 2, 3]]> : tensor<1x4xi64>, split_count = 4 : i64, split_dimension = 1 : i64}> {gspmd.axes = "\22x\22", {{.*}} : (tensor<2x8xf32>) -> tensor<8x2xf32>
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.slice [[V2]] [0:6, 0:2] : (tensor<8x2xf32>) -> tensor<6x2xf32>
// CHECK: return [[V3]]
module @an_all_to_all_of_uneven_dimensions_pads_the_target_and_cuts_the_source {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<6x7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<6x7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %0 = sdy.all_to_all [{"x"}: 0->1] %a out_sharding=<@mesh, [{}, {"x"}]> : tensor<6x7xf32>
    return %0 : tensor<6x7xf32>
  }
}

// -----

// CHECK-LABEL: module @a_permute_lists_where_every_shard_goes
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<2xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<2xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = "stablehlo.collective_permute"(%arg0) <{{{.*}}, source_target_pairs = dense<{{\[\[}}0, 0], [1, 2], [2, 1], [3, 3]]> : tensor<4x2xi64>}> {gspmd.axes = "\22y\22, \22x\22", {{.*}} : (tensor<2xf32>) -> tensor<2xf32>
// CHECK: return [[V0]]
module @a_permute_lists_where_every_shard_goes {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y", "x"}]>}) {
    %0 = sdy.collective_permute %a out_sharding=<@mesh, [{"y", "x"}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_reduce_scatter_adds_and_keeps_a_part
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<8x4xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<2xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.reduce(%arg0 init: [[V0]]) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
// CHECK: [[V2:%[a-z0-9_]+]] = "stablehlo.reduce_scatter"([[V1]]) <{{{.*}}, replica_groups = dense<{{\[\[}}0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.add %arg1, %arg2 : tensor<f32>
// CHECK: stablehlo.return [[V3]]
// CHECK: return [[V2]]
module @a_reduce_scatter_adds_and_keeps_a_part {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>} : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    %1 = sdy.reduce_scatter [{"x"}] %0 out_sharding=<@mesh, [{"x"}]> {gspmd.cause = "a test"} : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @an_uneven_reduce_scatter_is_padded_first
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<6x4xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<2xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.reduce(%arg0 init: [[V0]]) applies stablehlo.add across dimensions = [1] : (tensor<6x4xf32>, tensor<f32>) -> tensor<6xf32>
// CHECK: [[V2:%[a-z0-9_]+]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.pad [[V1]], [[V2]], low = [0], high = [2], interior = [0] : (tensor<6xf32>, tensor<f32>) -> tensor<8xf32>
// CHECK: [[V4:%[a-z0-9_]+]] = "stablehlo.reduce_scatter"([[V3]]) <{{{.*}}, replica_groups = dense<{{\[\[}}0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
// CHECK: [[V5:%[a-z0-9_]+]] = stablehlo.add %arg1, %arg2 : tensor<f32>
// CHECK: stablehlo.return [[V5]]
// CHECK: return [[V4]]
module @an_uneven_reduce_scatter_is_padded_first {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<6x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> (tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>} : (tensor<6x16xf32>, tensor<f32>) -> tensor<6xf32>
    %1 = sdy.reduce_scatter [{"x"}] %0 out_sharding=<@mesh, [{"x"}]> {gspmd.cause = "a test"} : tensor<6xf32>
    return %1 : tensor<6xf32>
  }
}

// -----

// Floats are compared as integers of the same order, as all-reduces may drop NaN.

// CHECK-LABEL: module @an_all_reduce_combines_as_its_combiner_says
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<8x4xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<8xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.constant dense<0xFF800000> : tensor<f32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.reduce(%arg0 init: [[V0]]) applies stablehlo.maximum across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
// CHECK: [[B:%[a-z0-9_]+]] = stablehlo.bitcast_convert [[V1]] : (tensor<8xf32>) -> tensor<8xi32>
// CHECK: [[N:%[a-z0-9_]+]] = stablehlo.compare NE, [[V1]], [[V1]]
// CHECK: [[H:%[a-z0-9_]+]] = stablehlo.constant dense<2147483647> : tensor<8xi32>
// CHECK: [[O:%[a-z0-9_]+]] = stablehlo.select [[N]], [[H]],
// CHECK: [[V2:%[a-z0-9_]+]] = "stablehlo.all_reduce"([[O]]) <{{{.*}}, replica_groups = dense<{{\[\[}}0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.maximum %arg1, %arg2 : tensor<i32>
// CHECK: stablehlo.return [[V3]]
// CHECK: [[X:%[a-z0-9_]+]] = stablehlo.xor [[V2]],
// CHECK: [[F:%[a-z0-9_]+]] = stablehlo.bitcast_convert [[X]] : (tensor<8xi32>) -> tensor<8xf32>
// CHECK: return [[F]]
module @an_all_reduce_combines_as_its_combiner_says {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<8xf32> {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %low) applies stablehlo.maximum across dimensions = [1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>} : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    %1 = sdy.all_reduce {"x"} %0 out_sharding=<@mesh, [{}]> {gspmd.combiner = "max", gspmd.cause = "a test"} : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}
