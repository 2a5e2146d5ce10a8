// RUN: gspmd-opt --gspmd-partition --split-input-file %s | FileCheck %s
// RUN: gspmd-opt --gspmd-partition=list-groups-up-to=4 --split-input-file %s | FileCheck %s --check-prefix=NAMED

// Shards change devices once; device 0, 5 and 7 keep theirs.

// CHECK-LABEL: module @an_argument_in_another_order_is_permuted
// CHECK-SAME: gspmd.mesh = "<[\22axis_0\22=8]>"
// CHECK: %arg0: tensor<2xf32> {gspmd.global_type = tensor<16xf32>, gspmd.sharding = "<@mesh, [{\22axis_0\22}]>", mhlo.sharding = "{manual}"}
// CHECK-SAME: %arg1: tensor<2xf32> {gspmd.global_type = tensor<16xf32>, gspmd.sharding = "<mesh<[\22axis_0\22=8], device_ids=[0, 3, 1, 6, 2, 5, 4, 7]>, [{\22axis_0\22}]>", mhlo.sharding = "{manual}"}
// CHECK-NEXT: [[B:%.*]] = "stablehlo.collective_permute"(%arg1)
// CHECK-SAME: source_target_pairs = dense<{{\[\[}}0, 0], [1, 2], [2, 4], [3, 1], [4, 6], [5, 5], [6, 3], [7, 7]]> : tensor<8x2xi64>
// CHECK-SAME: gspmd.axes = "\22axis_0\22", gspmd.cause = "argument 1 comes in another device order"
// CHECK-NEXT: [[SUM:%.*]] = stablehlo.add %arg0, [[B]]
// CHECK-NEXT: return [[SUM]]
module @an_argument_in_another_order_is_permuted {
  func.func @main(%a: tensor<16xf32> {mhlo.sharding = "{devices=[8]<=[8]}"}, %b: tensor<16xf32> {mhlo.sharding = "{devices=[8]0,3,1,6,2,5,4,7}"}) -> (tensor<16xf32> {mhlo.sharding = "{devices=[8]<=[8]}"}) {
    %0 = stablehlo.add %a, %b : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}

// -----

// CHECK-LABEL: module @copies_are_matched_one_to_one
// CHECK: "stablehlo.collective_permute"(%arg0)
// CHECK-SAME: source_target_pairs = dense<{{\[\[}}0, 0], [1, 2], [2, 4], [3, 1], [4, 6], [5, 5], [6, 3], [7, 7]]>
// CHECK-SAME: gspmd.cause = "argument 0 comes in another device order"
module @copies_are_matched_one_to_one {
  func.func @main(%a: tensor<8xf32> {mhlo.sharding = "{devices=[4,2]0,3,1,6,2,5,4,7 last_tile_dim_replicate}"}) -> (tensor<8xf32> {mhlo.sharding = "{devices=[4,2]<=[8] last_tile_dim_replicate}"}) {
    return %a : tensor<8xf32>
  }
}

// -----

// What is whole everywhere has no order.

// CHECK-LABEL: module @whole_values_stay
// CHECK-NOT: collective
// CHECK: return %arg0, %arg1
module @whole_values_stay {
  sdy.mesh @one = <["x"=4]>
  sdy.mesh @two = <["x"=4], device_ids=[0, 1, 3, 2]>
  func.func @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@one, [{"x"}]>}, %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@two, [{}]>}) -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@one, [{"x"}]>}, tensor<8xf32> {sdy.sharding = #sdy.sharding<@one, [{}]>}) {
    return %a, %b : tensor<16xf32>, tensor<8xf32>
  }
}

// -----

// Device i has what is last in the reversed order: it reverses its shard, and sends nothing.

// CHECK-LABEL: module @a_reversal_into_a_reversed_order_stays
// CHECK-NOT: collective_permute
// CHECK: [[REVERSED:%.*]] = stablehlo.reverse %arg0
// CHECK-NEXT: return [[REVERSED]]
module @a_reversal_into_a_reversed_order_stays {
  sdy.mesh @one = <["x"=4]>
  sdy.mesh @back = <["x"=4], device_ids=[3, 2, 1, 0]>
  func.func @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@one, [{"x"}]>}) -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@back, [{"x"}]>}) {
    %0 = stablehlo.reverse %a, dims = [0] : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}

// -----

// Each half of the program runs in the order of its values: nothing is sent between orders.

// CHECK-LABEL: module @parts_of_a_program_have_orders_of_their_own
// CHECK-NOT: collective_permute
// CHECK: "stablehlo.all_reduce"
// CHECK-SAME: replica_groups = dense<{{\[\[}}0, 1], [2, 3]]>
// CHECK: "stablehlo.all_reduce"
// CHECK-SAME: replica_groups = dense<{{\[\[}}0, 3], [1, 2]]>
// CHECK-NOT: collective_permute
// CHECK: return

// NAMED-LABEL: module @parts_of_a_program_have_orders_of_their_own
module @parts_of_a_program_have_orders_of_their_own {
  sdy.mesh @one = <["x"=2, "y"=2]>
  sdy.mesh @two = <["x"=2, "y"=2], device_ids=[0, 3, 1, 2]>
  func.func @main(%a: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@one, [{"x"}, {"y"}]>}, %b: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@two, [{"x"}, {"y"}]>})
      -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@one, [{"x"}]>}, tensor<16xf32> {sdy.sharding = #sdy.sharding<@two, [{"x"}]>}) {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [1] : (tensor<16x8xf32>, tensor<f32>) -> tensor<16xf32>
    %1 = stablehlo.reduce(%b init: %c) applies stablehlo.add across dimensions = [1] : (tensor<16x8xf32>, tensor<f32>) -> tensor<16xf32>
    return %0, %1 : tensor<16xf32>, tensor<16xf32>
  }
}

// -----

// Groups by mesh axes are of a mesh in that order.

// NAMED-LABEL: module @groups_by_axes_name_a_mesh_in_their_order
// NAMED: sdy.mesh @one = <["x"=4, "y"=2]>
// NAMED: sdy.mesh @order_0 = <["x"=4, "y"=2], device_ids=[0, 3, 1, 6, 2, 5, 4, 7]>
// NAMED: replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @one, axes = [#stablehlo.axis_ref<name = "y">]>
// NAMED: replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @order_0, axes = [#stablehlo.axis_ref<name = "y">]>
module @groups_by_axes_name_a_mesh_in_their_order {
  sdy.mesh @one = <["x"=4, "y"=2]>
  sdy.mesh @two = <["x"=4, "y"=2], device_ids=[0, 3, 1, 6, 2, 5, 4, 7]>
  func.func @main(%a: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@one, [{"x"}, {"y"}]>}, %b: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@two, [{"x"}, {"y"}]>})
      -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@one, [{"x"}]>}, tensor<16xf32> {sdy.sharding = #sdy.sharding<@two, [{"x"}]>}) {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [1] : (tensor<16x8xf32>, tensor<f32>) -> tensor<16xf32>
    %1 = stablehlo.reduce(%b init: %c) applies stablehlo.add across dimensions = [1] : (tensor<16x8xf32>, tensor<f32>) -> tensor<16xf32>
    return %0, %1 : tensor<16xf32>, tensor<16xf32>
  }
}

// -----

// Weights are gathered among the devices that have them, and are the same everywhere then.

// CHECK-LABEL: module @what_is_gathered_is_gathered_in_its_order
// CHECK-NOT: collective_permute
// CHECK: [[W:%.*]] = "stablehlo.all_gather"(%arg1)
// CHECK-SAME: replica_groups = dense<{{\[\[}}0, 3, 1, 6, 2, 5, 4, 7]]>
// CHECK-NEXT: stablehlo.dot_general %arg0, [[W]]
// CHECK-NOT: collective_permute
// CHECK: return
module @what_is_gathered_is_gathered_in_its_order {
  sdy.mesh @one = <["x"=8]>
  sdy.mesh @two = <["x"=8], device_ids=[0, 3, 1, 6, 2, 5, 4, 7]>
  func.func @main(%a: tensor<1024x8xf32> {sdy.sharding = #sdy.sharding<@one, [{"x"}, {}]>}, %w: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@two, [{"x"}, {}]>}) -> (tensor<1024x8xf32> {sdy.sharding = #sdy.sharding<@one, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<1024x8xf32>, tensor<8x8xf32>) -> tensor<1024x8xf32>
    return %0 : tensor<1024x8xf32>
  }
}

// -----

// Where the program begins in an order that nothing else is in, masks are made for its devices.

// CHECK-LABEL: module @what_depends_on_the_device_is_made_again
// CHECK: stablehlo.constant dense<[1, 0, 2, 3]> : tensor<4xi32>
// CHECK-NOT: collective_permute
// CHECK: "stablehlo.all_reduce"
module @what_depends_on_the_device_is_made_again {
  sdy.mesh @one = <["x"=4]>
  sdy.mesh @two = <["x"=4], device_ids=[0, 2, 1, 3]>
  sdy.mesh @three = <["x"=4], device_ids=[1, 2, 0, 3]>
  func.func @main(%a: tensor<1024xf32> {sdy.sharding = #sdy.sharding<@three, [{"x"}]>}, %b: tensor<7xf32> {sdy.sharding = #sdy.sharding<@two, [{"x"}]>}) -> (tensor<1024xf32> {sdy.sharding = #sdy.sharding<@three, [{"x"}]>}, tensor<f32>) {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%b init: %c) applies stablehlo.add across dimensions = [0] : (tensor<7xf32>, tensor<f32>) -> tensor<f32>
    return %a, %0 : tensor<1024xf32>, tensor<f32>
  }
}

// -----

// A change of tiles and of devices is one: whoever has a part sends it to who needs it.

// CHECK-LABEL: module @tiles_and_devices_change_at_once
// CHECK-COUNT-1: stablehlo.collective_permute
// CHECK-NOT: stablehlo.collective_permute
// CHECK-NOT: stablehlo.all_
// CHECK: return
module @tiles_and_devices_change_at_once {
  sdy.mesh @one = <["x"=2, "y"=4]>
  sdy.mesh @two = <["x"=4, "y"=2], device_ids=[0, 3, 1, 6, 2, 5, 4, 7]>
  func.func @main(%a: tensor<64x8xf32> {sdy.sharding = #sdy.sharding<@one, [{"x"}, {}]>}) -> (tensor<64x8xf32> {sdy.sharding = #sdy.sharding<@two, [{"y", "x"}, {}]>}) {
    return %a : tensor<64x8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_permute_leads_to_the_other_order_as_well
// CHECK-COUNT-1: stablehlo.collective_permute
// CHECK-NOT: stablehlo.collective_permute
// CHECK: return
module @a_permute_leads_to_the_other_order_as_well {
  sdy.mesh @one = <["x"=2, "y"=2]>
  sdy.mesh @two = <["x"=2, "y"=2], device_ids=[0, 3, 1, 2]>
  func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@one, [{"x"}, {"y"}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@two, [{"y"}, {"x"}]>}) {
    %0 = stablehlo.negate %a {sdy.sharding = #sdy.sharding_per_value<[<@one, [{"x"}, {"y"}]>]>} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
