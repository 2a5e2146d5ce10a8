// RUN: gspmd-opt --gspmd-ingest --split-input-file --verify-diagnostics %s | FileCheck %s

// CHECK-LABEL: module @a_constraint_in_another_order_means_its_tiles
// CHECK-NEXT: sdy.mesh @one = <["x"=2, "y"=4]>
// CHECK-NOT: sdy.mesh
// CHECK: @main(%arg0: tensor<8x8xf32> {gspmd.device_ids = array<i64: 0, 1, 2, 3, 4, 5, 6, 7>, sdy.sharding = #sdy.sharding<@one, [{"x"}, {}]>})
// CHECK-SAME: -> tensor<8x8xf32>
// CHECK: sdy.sharding_constraint %arg0 <@one, [{"x"}, {"y"}]>
module @a_constraint_in_another_order_means_its_tiles {
  sdy.mesh @one = <["x"=2, "y"=4]>
  sdy.mesh @two = <["x"=2, "y"=4], device_ids=[0, 3, 1, 6, 2, 5, 4, 7]>
  func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@one, [{"x"}, {}]>}) -> tensor<8x8xf32> {
    %0 = sdy.sharding_constraint %a <@two, [{"x"}, {"y"}]> : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @the_order_of_most_bytes_is_the_programs
// CHECK-NEXT: sdy.mesh @mesh = <["axis_0"=2, "axis_1"=4], device_ids=[0, 3, 1, 6, 2, 5, 4, 7]>
// CHECK: @main(%arg0: tensor<8x8xf32> {gspmd.device_ids = array<i64: 0, 1, 2, 3, 4, 5, 6, 7>, sdy.sharding = #sdy.sharding<@mesh, [{"axis_0"}, {}]>},
// CHECK-SAME: %arg1: tensor<64x8xf32> {gspmd.device_ids = array<i64: 0, 3, 1, 6, 2, 5, 4, 7>, sdy.sharding = #sdy.sharding<@mesh, [{"axis_0", "axis_1"}, {}]>})
module @the_order_of_most_bytes_is_the_programs {
  func.func @main(%a: tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"},
      %b: tensor<64x8xf32> {mhlo.sharding = "{devices=[8,1]0,3,1,6,2,5,4,7}"}) -> (tensor<8x8xf32>, tensor<64x8xf32>) {
    return %a, %b : tensor<8x8xf32>, tensor<64x8xf32>
  }
}

// -----

// CHECK-LABEL: module @sizes_in_another_order_are_the_same_axes
// CHECK-NEXT: sdy.mesh @mesh = <["axis_0"=2, "axis_1"=3]>
// CHECK: sdy.sharding = #sdy.sharding<@mesh, [{"axis_0"}, {"axis_1"}]>
// CHECK-SAME: sdy.sharding = #sdy.sharding<@mesh, [{"axis_1"}, {}]>
module @sizes_in_another_order_are_the_same_axes {
  func.func @main(%a: tensor<6x6xf32> {mhlo.sharding = "{devices=[2,3]<=[6]}"},
      %b: tensor<6x6xf32> {mhlo.sharding = "{devices=[3,1,2]0,1,2,4,3,5 last_tile_dim_replicate}"}) -> (tensor<6x6xf32>, tensor<6x6xf32>) {
    return %a, %b : tensor<6x6xf32>, tensor<6x6xf32>
  }
}

// -----

// 4 and 6 parts of 12 cannot both be made of axes; they are parts of one.

// CHECK-LABEL: module @sizes_that_do_not_refine_each_other_are_parts_of_an_axis
// CHECK-NEXT: sdy.mesh @mesh = <["axis_0"=12]>
// CHECK: sdy.sharding = #sdy.sharding<@mesh, [{"axis_0":(1)4}, {"axis_0":(4)3}]>
// CHECK-SAME: sdy.sharding = #sdy.sharding<@mesh, [{"axis_0":(1)6}, {}]>
module @sizes_that_do_not_refine_each_other_are_parts_of_an_axis {
  func.func @main(%a: tensor<12x6xf32> {mhlo.sharding = "{devices=[4,3]<=[12]}"},
      %b: tensor<6x6xf32> {mhlo.sharding = "{devices=[6,1,2]0,1,2,4,3,5,7,6,8,10,9,11 last_tile_dim_replicate}"}) -> (tensor<12x6xf32>, tensor<6x6xf32>) {
    return %a, %b : tensor<12x6xf32>, tensor<6x6xf32>
  }
}

// -----

// Axes of the same names, and else of the same sizes, are one axis, wherever they stand.

// CHECK-LABEL: module @axes_of_one_name_are_one
// CHECK-NEXT: sdy.mesh @one = <["x"=2, "y"=4]>
// CHECK: %arg1: tensor<4x8xf32> {gspmd.device_ids = array<i64: 0, 1, 2, 4, 3, 6, 5, 7>, sdy.sharding = #sdy.sharding<@one, [{"x"}, {"y"}]>}
module @axes_of_one_name_are_one {
  sdy.mesh @one = <["x"=2, "y"=4]>
  sdy.mesh @two = <["y"=4, "x"=2], device_ids=[0, 3, 1, 6, 2, 5, 4, 7]>
  func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@one, [{"x"}, {"y"}]>},
      %b: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@two, [{"x"}, {"y"}]>}) -> (tensor<8x8xf32>, tensor<4x8xf32>) {
    return %a, %b : tensor<8x8xf32>, tensor<4x8xf32>
  }
}

// -----

// Devices in the body are those of the computation's mesh, and are renamed with it.

// CHECK-LABEL: module @a_manual_computation_over_another_order
// CHECK: sdy.manual_computation(%arg1) in_shardings=[<@one, [{"x"}]>] out_shardings=[<@one, [{}]>] manual_axes={"x"}
// CHECK: [[TABLE:%.*]] = stablehlo.constant dense<[0, 3, 1, 6, 2, 5, 4, 7]> : tensor<8xi32>
// CHECK: stablehlo.dynamic_slice [[TABLE]]
// CHECK: source_target_pairs = dense<{{\[\[}}0, 1], [3, 4]]>
// CHECK: replica_groups = dense<{{\[\[}}0, 1, 2, 3, 4, 5, 6, 7]]>
module @a_manual_computation_over_another_order {
  sdy.mesh @one = <["x"=8]>
  sdy.mesh @two = <["x"=8], device_ids=[0, 3, 1, 6, 2, 5, 4, 7]>
  func.func @main(%a: tensor<64xi32> {sdy.sharding = #sdy.sharding<@one, [{"x"}]>}, %b: tensor<8xi32>) -> (tensor<64xi32>, tensor<1xi32>) {
    %0 = sdy.manual_computation(%b) in_shardings=[<@two, [{"x"}]>] out_shardings=[<@two, [{}]>] manual_axes={"x"} (%arg: tensor<1xi32>) {
      %i = stablehlo.partition_id : tensor<ui32>
      %j = stablehlo.convert %i : (tensor<ui32>) -> tensor<i32>
      %k = stablehlo.broadcast_in_dim %j, dims = [] : (tensor<i32>) -> tensor<1xi32>
      %l = stablehlo.add %k, %arg : tensor<1xi32>
      %n = "stablehlo.collective_permute"(%l) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 3], [6, 2]]> : tensor<2x2xi64>}> : (tensor<1xi32>) -> tensor<1xi32>
      %s = "stablehlo.all_reduce"(%n) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 3, 1, 6, 2, 5, 4, 7]]> : tensor<1x8xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<i32>, %q: tensor<i32>):
        %r = stablehlo.add %p, %q : tensor<i32>
        stablehlo.return %r : tensor<i32>
      }) : (tensor<1xi32>) -> tensor<1xi32>
      %t = stablehlo.abs %s : tensor<1xi32>
      sdy.return %t : tensor<1xi32>
    } : (tensor<8xi32>) -> tensor<1xi32>
    return %a, %0 : tensor<64xi32>, tensor<1xi32>
  }
}

// -----

// Axes of its mesh become whole axes: the common mesh is cut where these end.

// CHECK-LABEL: module @a_manual_computation_over_a_transposed_mesh
// CHECK-NEXT: sdy.mesh @one = <["axis_0"=2, "axis_1"=2]>
// CHECK: sdy.manual_computation(%arg1) in_shardings=[<@one, [{"axis_1"}]>] out_shardings=[<@one, [{"axis_1"}]>] manual_axes={"axis_1"}
module @a_manual_computation_over_a_transposed_mesh {
  sdy.mesh @one = <["x"=4]>
  sdy.mesh @two = <["y"=2, "z"=2], device_ids=[0, 2, 1, 3]>
  func.func @main(%a: tensor<64xi32> {sdy.sharding = #sdy.sharding<@one, [{"x"}]>}, %b: tensor<8xi32>) -> (tensor<64xi32>, tensor<8xi32>) {
    %0 = sdy.manual_computation(%b) in_shardings=[<@two, [{"y"}]>] out_shardings=[<@two, [{"y"}]>] manual_axes={"y"} (%arg: tensor<4xi32>) {
      sdy.return %arg : tensor<4xi32>
    } : (tensor<8xi32>) -> tensor<8xi32>
    return %a, %0 : tensor<64xi32>, tensor<8xi32>
  }
}

// -----

module @an_order_inside_another {
  sdy.mesh @one = <["x"=2, "y"=2]>
  sdy.mesh @two = <["x"=2, "y"=2], device_ids=[0, 1, 3, 2]>
  func.func @main(%a: tensor<8xi32> {sdy.sharding = #sdy.sharding<@one, [{"x", "y"}]>}) -> tensor<8xi32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@one, [{"x"}]>] out_shardings=[<@one, [{"x"}]>] manual_axes={"x"} (%arg: tensor<4xi32>) {
      // expected-error @below {{manual computation inside one over another device order; use one mesh for both}}
      %1 = sdy.manual_computation(%arg) in_shardings=[<@two, [{"y"}]>] out_shardings=[<@two, [{"y"}]>] manual_axes={"y"} (%inner: tensor<2xi32>) {
        sdy.return %inner : tensor<2xi32>
      } : (tensor<4xi32>) -> tensor<4xi32>
      sdy.return %1 : tensor<4xi32>
    } : (tensor<8xi32>) -> tensor<8xi32>
    return %0 : tensor<8xi32>
  }
}

// -----

module @two_annotations_of_one_value_in_different_orders {
  sdy.mesh @one = <["x"=4]>
  // expected-error @below {{two annotations that contradict each other: [{"x"}] by 'sdy' but [{"x"}] by 'mhlo.sharding'; keep one}}
  func.func @main(%a: tensor<8xi32> {sdy.sharding = #sdy.sharding<@one, [{"x"}]>, mhlo.sharding = "{devices=[4]0,1,3,2}"}) -> tensor<8xi32> {
    return %a : tensor<8xi32>
  }
}

// -----

// Branches are annotated as other operations are.

// CHECK-LABEL: module @a_branch_in_another_order
// CHECK: }) {gspmd.annotated, sdy.sharding = #sdy.sharding_per_value<[<@one, [{"x"}]>]>}
module @a_branch_in_another_order {
  sdy.mesh @one = <["x"=4]>
  sdy.mesh @two = <["x"=4], device_ids=[0, 1, 3, 2]>
  func.func @main(%i: tensor<i32>, %a: tensor<8xi32> {sdy.sharding = #sdy.sharding<@one, [{"x"}]>}) -> tensor<8xi32> {
    %0 = "stablehlo.case"(%i) ({
      stablehlo.return %a : tensor<8xi32>
    }, {
      %1 = stablehlo.add %a, %a : tensor<8xi32>
      stablehlo.return %1 : tensor<8xi32>
    }) {sdy.sharding = #sdy.sharding_per_value<[<@two, [{"x"}]>]>} : (tensor<i32>) -> tensor<8xi32>
    return %0 : tensor<8xi32>
  }
}
