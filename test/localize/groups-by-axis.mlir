// RUN: gspmd-opt --split-input-file --gspmd-localize %s | FileCheck %s
// RUN: gspmd-opt --split-input-file --gspmd-localize=list-groups-up-to=256 %s | FileCheck %s --check-prefix=LISTED

// CHECK-LABEL: module @on_more_than_64_devices_groups_name_the_axes
// CHECK: sdy.mesh @mesh = <["x"=64, "y"=4]>
// CHECK: replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "y">]>
// LISTED-LABEL: module @on_more_than_64_devices_groups_name_the_axes
// LISTED-NOT: sdy.mesh
// LISTED: replica_groups = dense<{{.*}}> : tensor<64x4xi64>
module @on_more_than_64_devices_groups_name_the_axes {
  sdy.mesh @mesh = <["x"=64, "y"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) -> tensor<8xf32> {
    %0 = sdy.all_gather [{"y"}] %a out_sharding=<@mesh, [{}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_part_of_an_axis_is_named_with_its_sizes
// CHECK: replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x", sub_axis_info = (2)4>]>
module @a_part_of_an_axis_is_named_with_its_sizes {
  sdy.mesh @mesh = <["x"=64, "y"=4]>
  func.func public @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)8}]>}) -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}]>}) {
    %0 = sdy.all_gather [{"x":(2)4}] %a out_sharding=<@mesh, [{"x":(1)2}]> : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}

// -----

// CHECK-LABEL: module @several_axes_are_named_in_their_order
// CHECK: replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "y">, #stablehlo.axis_ref<name = "x">]>
module @several_axes_are_named_in_their_order {
  sdy.mesh @mesh = <["x"=64, "y"=4]>
  func.func public @main(%a: tensor<256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y", "x"}]>}) -> tensor<256xf32> {
    %0 = sdy.all_gather [{"y", "x"}] %a out_sharding=<@mesh, [{}]> : tensor<256xf32>
    return %0 : tensor<256xf32>
  }
}

// -----

// CHECK-LABEL: module @a_permute_still_lists_its_pairs
// CHECK: source_target_pairs = dense<{{.*}}> : tensor<128x2xi64>
module @a_permute_still_lists_its_pairs {
  sdy.mesh @mesh = <["x"=64, "y"=2]>
  func.func public @main(%a: tensor<128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}]>}) -> (tensor<128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y", "x"}]>}) {
    %0 = sdy.collective_permute %a out_sharding=<@mesh, [{"y", "x"}]> : tensor<128xf32>
    return %0 : tensor<128xf32>
  }
}
