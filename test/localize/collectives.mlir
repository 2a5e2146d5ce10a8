// RUN: gspmd-opt --split-input-file --gspmd-localize %s | FileCheck %s

// CHECK-LABEL: module @an_all_gather_along_the_minor_axis_has_groups_of_neighbours
// CHECK: all_gather{{.*}}all_gather_dim = 0{{.*}}replica_groups = dense<{{\[\[}}0, 1], [2, 3]]>{{.*}}(tensor<4x6xf32>) -> tensor<8x6xf32>
// CHECK-NEXT: return
module @an_all_gather_along_the_minor_axis_has_groups_of_neighbours {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> tensor<8x6xf32> {
    %0 = sdy.all_gather [{"y"}, {}] %a out_sharding=<@mesh, [{}, {}]> : tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
  }
}

// -----

// CHECK-LABEL: module @an_all_gather_along_the_major_axis_has_strided_groups
// CHECK: all_gather{{.*}}all_gather_dim = 0{{.*}}replica_groups = dense<{{\[\[}}0, 2], [1, 3]]>{{.*}}(tensor<4x6xf32>) -> tensor<8x6xf32>
// CHECK-NEXT: return
module @an_all_gather_along_the_major_axis_has_strided_groups {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x6xf32> {
    %0 = sdy.all_gather [{"x"}, {}] %a out_sharding=<@mesh, [{}, {}]> : tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
  }
}

// -----

// CHECK-LABEL: module @groups_follow_the_axes_in_the_order_of_the_sharding
// CHECK: all_gather{{.*}}all_gather_dim = 0{{.*}}replica_groups = dense<{{\[\[}}0, 2, 1, 3]]>{{.*}}axes = "\22y\22, \22x\22"{{.*}}(tensor<2xf32>) -> tensor<8xf32>
// CHECK-NEXT: return
module @groups_follow_the_axes_in_the_order_of_the_sharding {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y", "x"}]>}) -> tensor<8xf32> {
    %0 = sdy.all_gather [{"y", "x"}] %a out_sharding=<@mesh, [{}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @groups_name_the_device_ids_of_the_mesh
// CHECK: all_gather{{.*}}all_gather_dim = 0{{.*}}replica_groups = dense<{{\[\[}}3, 0], [1, 2]]>{{.*}}(tensor<4xf32>) -> tensor<8xf32>
// CHECK-NEXT: return
module @groups_name_the_device_ids_of_the_mesh {
  sdy.mesh @mesh = <["x"=2, "y"=2], device_ids=[3, 1, 0, 2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %0 = sdy.all_gather [{"x"}] %a out_sharding=<@mesh, [{}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_part_of_an_axis_has_groups_of_that_size
// CHECK: all_gather{{.*}}all_gather_dim = 0{{.*}}replica_groups = dense<{{\[\[}}0, 1, 2, 3], [4, 5, 6, 7]]>{{.*}}axes = "\22x\22:(2)4"{{.*}}(tensor<2xf32>) -> tensor<8xf32>
// CHECK-NEXT: return
module @a_part_of_an_axis_has_groups_of_that_size {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}]>}) {
    %0 = sdy.all_gather [{"x":(2)4}] %a out_sharding=<@mesh, [{"x":(1)2}]> : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}

// -----

// CHECK-LABEL: module @several_dimensions_are_gathered_at_once_and_put_in_order
// CHECK: all_gather{{.*}}all_gather_dim = 0{{.*}}replica_groups = dense<{{\[\[}}0, 1, 2, 3]]>{{.*}}(tensor<1x4x3xf32>) -> tensor<4x4x3xf32>
// CHECK: stablehlo.transpose {{.*}}, dims = [0, 2, 1, 3] : (tensor<2x2x4x3xf32>) -> tensor<2x4x2x3xf32>
// CHECK-NEXT: stablehlo.reshape {{.*}} -> tensor<8x6xf32>
module @several_dimensions_are_gathered_at_once_and_put_in_order {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x6xf32> {
    %0 = sdy.all_gather [{"x"}, {"y"}] %a out_sharding=<@mesh, [{}, {}]> : tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
  }
}

// -----

// CHECK-LABEL: module @the_padding_of_an_uneven_dimension_is_cut_off_after_the_gather
// CHECK: all_gather{{.*}}all_gather_dim = 0{{.*}}replica_groups = dense<{{\[\[}}0, 1, 2, 3]]>{{.*}}(tensor<2xf32>) -> tensor<8xf32>
// CHECK-NEXT: stablehlo.slice %{{.*}} [0:6] : (tensor<8xf32>) -> tensor<6xf32>
// CHECK-NEXT: return
module @the_padding_of_an_uneven_dimension_is_cut_off_after_the_gather {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<6xf32> {
    %0 = sdy.all_gather [{"x"}] %a out_sharding=<@mesh, [{}]> : tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}

// -----

// The part begins at the partition's index times the length of a shard.

// CHECK-LABEL: module @an_all_slice_takes_the_part_at_the_partition_s_index
// CHECK: %[[DEVICE:[0-9]+]] = stablehlo.convert
// CHECK: %[[BEGIN:[0-9]+]] = stablehlo.multiply %[[DEVICE]]
// CHECK: stablehlo.dynamic_slice %arg0, %[[BEGIN]], sizes = [2]
module @an_all_slice_takes_the_part_at_the_partition_s_index {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = sdy.all_slice [{"x"}] %a out_sharding=<@mesh, [{"x"}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// Of x=2, y=3, z=2 the index along y is the partition's index divided by 2, the size of z, modulo 3.

// CHECK-LABEL: module @an_index_along_one_of_several_axes_is_divided_and_wrapped
// CHECK: %[[DEVICE:[0-9]+]] = stablehlo.convert
// CHECK: dense<2>
// CHECK-NEXT: %[[ROW:[0-9]+]] = stablehlo.divide %[[DEVICE]]
// CHECK-NEXT: dense<3>
// CHECK-NEXT: stablehlo.remainder %[[ROW]]
module @an_index_along_one_of_several_axes_is_divided_and_wrapped {
  sdy.mesh @mesh = <["x"=2, "y"=3, "z"=2]>
  func.func public @main(%a: tensor<6xf32>) -> (tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) {
    %0 = sdy.all_slice [{"y"}] %a out_sharding=<@mesh, [{"y"}]> : tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}

// -----

// Of x=2, y=3 the index along y, then x, is twice that along y plus that along x.

// CHECK-LABEL: module @an_index_along_two_axes_is_combined_major_first
// CHECK: %[[DEVICE:[0-9]+]] = stablehlo.convert
// CHECK: %[[Y:[0-9]+]] = stablehlo.remainder %[[DEVICE]]
// CHECK: %[[MAJOR:[0-9]+]] = stablehlo.multiply %[[Y]]
// CHECK: %[[X:[0-9]+]] = stablehlo.divide %[[DEVICE]]
// CHECK: stablehlo.add %[[MAJOR]], %[[X]]
module @an_index_along_two_axes_is_combined_major_first {
  sdy.mesh @mesh = <["x"=2, "y"=3]>
  func.func public @main(%a: tensor<12xf32>) -> (tensor<12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y", "x"}]>}) {
    %0 = sdy.all_slice [{"y", "x"}] %a out_sharding=<@mesh, [{"y", "x"}]> : tensor<12xf32>
    return %0 : tensor<12xf32>
  }
}

// -----

// Device 0 is third in the mesh, device 1 second, device 2 fourth, device 3 first.

// CHECK-LABEL: module @with_device_ids_the_position_is_looked_up
// CHECK: %[[DEVICE:[0-9]+]] = stablehlo.convert
// CHECK: %[[TABLE:.*]] = stablehlo.constant dense<[2, 1, 3, 0]>
// CHECK: stablehlo.dynamic_slice %[[TABLE]], %[[DEVICE]], sizes = [1]
module @with_device_ids_the_position_is_looked_up {
  sdy.mesh @mesh = <["x"=4], device_ids=[3, 1, 0, 2]>
  func.func public @main(%a: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = sdy.all_slice [{"x"}] %a out_sharding=<@mesh, [{"x"}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// Without padding the last device's slice would be moved back, to what the device before it has.

// CHECK-LABEL: module @an_uneven_slice_is_padded_before_it_is_cut
// CHECK: %[[PADDED:[0-9]+]] = stablehlo.pad %arg0, %{{.*}}, low = [0], high = [2], interior = [0] : (tensor<6xf32>, tensor<f32>) -> tensor<8xf32>
// CHECK: %[[OWN:[0-9]+]] = stablehlo.dynamic_slice %[[PADDED]], %{{.*}}, sizes = [2] : (tensor<8xf32>, tensor<i32>) -> tensor<2xf32>
// CHECK: return %[[OWN]]
module @an_uneven_slice_is_padded_before_it_is_cut {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<6xf32>) -> (tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = sdy.all_slice [{"x"}] %a out_sharding=<@mesh, [{"x"}]> : tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}

// -----

// CHECK-LABEL: module @an_all_to_all_splits_one_dimension_and_joins_the_other
// CHECK: all_to_all{{.*}}concat_dimension = 0{{.*}}replica_groups = dense<{{\[\[}}0, 1, 2, 3]]>{{.*}}split_dimension = 1{{.*}}(tensor<2x12xf32>) -> tensor<8x3xf32>
// CHECK-NEXT: return
module @an_all_to_all_splits_one_dimension_and_joins_the_other {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %0 = sdy.all_to_all [{"x"}: 0->1] %a out_sharding=<@mesh, [{}, {"x"}]> : tensor<8x12xf32>
    return %0 : tensor<8x12xf32>
  }
}

// -----

// CHECK-LABEL: module @an_all_to_all_of_uneven_dimensions_pads_the_target_and_cuts_the_source
// CHECK: stablehlo.pad %arg0, {{.*}}high = [0, 1]
// CHECK: all_to_all{{.*}}concat_dimension = 0{{.*}}replica_groups = dense<{{\[\[}}0, 1, 2, 3]]>{{.*}}split_dimension = 1{{.*}}(tensor<2x8xf32>) -> tensor<8x2xf32>
// CHECK-NEXT: stablehlo.slice {{.*}} [0:6, 0:2]
module @an_all_to_all_of_uneven_dimensions_pads_the_target_and_cuts_the_source {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<6x7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<6x7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %0 = sdy.all_to_all [{"x"}: 0->1] %a out_sharding=<@mesh, [{}, {"x"}]> : tensor<6x7xf32>
    return %0 : tensor<6x7xf32>
  }
}

// -----

// CHECK-LABEL: module @a_permute_lists_where_every_shard_goes
// CHECK: collective_permute{{.*}}source_target_pairs = dense<{{\[\[}}0, 0], [1, 2], [2, 1], [3, 3]]>{{.*}}(tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT: return
module @a_permute_lists_where_every_shard_goes {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y", "x"}]>}) {
    %0 = sdy.collective_permute %a out_sharding=<@mesh, [{"y", "x"}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_reduce_scatter_adds_and_keeps_a_part
// CHECK: %[[PARTIAL:[0-9]+]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add {{.*}} -> tensor<8xf32>
// CHECK: %[[OWN:[0-9]+]] = "stablehlo.reduce_scatter"(%[[PARTIAL]])
// CHECK-SAME: replica_groups = dense<{{\[\[}}0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 0 : i64, use_global_device_ids
// CHECK: stablehlo.add
// CHECK: return %[[OWN]]
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
// CHECK: %[[PARTIAL:[0-9]+]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add {{.*}} -> tensor<6xf32>
// CHECK: %[[PADDED:[0-9]+]] = stablehlo.pad %[[PARTIAL]], %{{.*}}, low = [0], high = [2], interior = [0]
// CHECK: %[[OWN:[0-9]+]] = "stablehlo.reduce_scatter"(%[[PADDED]])
// CHECK-SAME: scatter_dimension = 0
// CHECK: gspmd.axes = "\22x\22"
// CHECK-SAME: (tensor<8xf32>) -> tensor<2xf32>
// CHECK: return %[[OWN]]
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
// CHECK: %[[PARTIAL:[0-9]+]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.maximum
// CHECK: stablehlo.bitcast_convert %[[PARTIAL]] : (tensor<8xf32>) -> tensor<8xi32>
// CHECK: %[[NAN:[0-9]+]] = stablehlo.compare NE, %[[PARTIAL]], %[[PARTIAL]]
// CHECK: %[[HIGHEST:.*]] = stablehlo.constant dense<2147483647> : tensor<8xi32>
// CHECK: %[[ORDERED:[0-9]+]] = stablehlo.select %[[NAN]], %[[HIGHEST]]
// CHECK: %[[MOST:[0-9]+]] = "stablehlo.all_reduce"(%[[ORDERED]])
// CHECK-SAME: replica_groups = dense<{{\[\[}}0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids
// CHECK: stablehlo.maximum {{.*}} : tensor<i32>
// CHECK: %[[BITS:[0-9]+]] = stablehlo.xor %[[MOST]]
// CHECK: %[[FLOAT:[0-9]+]] = stablehlo.bitcast_convert %[[BITS]] : (tensor<8xi32>) -> tensor<8xf32>
// CHECK: return %[[FLOAT]]
module @an_all_reduce_combines_as_its_combiner_says {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<8xf32> {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %low) applies stablehlo.maximum across dimensions = [1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>} : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    %1 = sdy.all_reduce {"x"} %0 out_sharding=<@mesh, [{}]> {gspmd.combiner = "max", gspmd.cause = "a test"} : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}
