// RUN: gspmd-opt --split-input-file --gspmd-order %s | FileCheck %s

// Devices 2 and 3 hold each other's shard of the second argument: they exchange them. The attributes that said so become
// part of the shardings.

// CHECK-LABEL: module @an_argument_in_another_order
// CHECK-NOT: gspmd.device_ids
// CHECK: %arg1: tensor<2xf32> {{{.*}}device_ids=[0, 1, 3, 2]
// CHECK: %[[MOVED:[0-9]+]] = "stablehlo.collective_permute"(%arg1)
// CHECK-SAME: {{\[}}[0, 0], [1, 1], [2, 3], [3, 2]]
// CHECK-SAME: gspmd.cause = "argument 1 comes in another device order"
// CHECK-NEXT: stablehlo.add %arg0, %[[MOVED]]
// CHECK-NOT: "stablehlo.collective_permute"
module @an_argument_in_another_order attributes {gspmd.mesh = "<[\22x\22=4]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(
      %a: tensor<2xf32> {gspmd.device_ids = array<i64: 0, 1, 2, 3>, gspmd.global_type = tensor<8xf32>, gspmd.sharding = "<@mesh, [{\22x\22}]>", mhlo.sharding = "{manual}"},
      %b: tensor<2xf32> {gspmd.device_ids = array<i64: 0, 1, 3, 2>, gspmd.global_type = tensor<8xf32>, gspmd.sharding = "<@mesh, [{\22x\22}]>", mhlo.sharding = "{manual}"})
      -> (tensor<2xf32> {gspmd.device_ids = array<i64: 0, 1, 2, 3>, gspmd.global_type = tensor<8xf32>, gspmd.sharding = "<@mesh, [{\22x\22}]>", mhlo.sharding = "{manual}"}) {
    %0 = stablehlo.add %a, %b : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}

// -----

// All is in one order, which is not that of the mesh: the program runs in it, and nothing moves.

// CHECK-LABEL: module @everything_in_one_other_order
// CHECK-NOT: "stablehlo.collective_permute"
// CHECK: stablehlo.add %arg0, %arg1
// CHECK-NEXT: return
module @everything_in_one_other_order attributes {gspmd.mesh = "<[\22x\22=4]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(
      %a: tensor<2xf32> {gspmd.device_ids = array<i64: 0, 1, 3, 2>, gspmd.global_type = tensor<8xf32>, gspmd.sharding = "<@mesh, [{\22x\22}]>", mhlo.sharding = "{manual}"},
      %b: tensor<2xf32> {gspmd.device_ids = array<i64: 0, 1, 3, 2>, gspmd.global_type = tensor<8xf32>, gspmd.sharding = "<@mesh, [{\22x\22}]>", mhlo.sharding = "{manual}"})
      -> (tensor<2xf32> {gspmd.device_ids = array<i64: 0, 1, 3, 2>, gspmd.global_type = tensor<8xf32>, gspmd.sharding = "<@mesh, [{\22x\22}]>", mhlo.sharding = "{manual}"}) {
    %0 = stablehlo.add %a, %b : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}

// -----

// Nothing is said of any order: the program is left alone.

// CHECK-LABEL: module @one_order
// CHECK: %arg0: tensor<2xf32> {gspmd.global_type = tensor<8xf32>, gspmd.sharding = "<@mesh, [{\22x\22}]>", mhlo.sharding = "{manual}"}
// CHECK-NEXT: stablehlo.add %arg0, %arg0
// CHECK-NEXT: return
module @one_order attributes {gspmd.mesh = "<[\22x\22=4]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(
      %a: tensor<2xf32> {gspmd.global_type = tensor<8xf32>, gspmd.sharding = "<@mesh, [{\22x\22}]>", mhlo.sharding = "{manual}"})
      -> (tensor<2xf32> {gspmd.global_type = tensor<8xf32>, gspmd.sharding = "<@mesh, [{\22x\22}]>", mhlo.sharding = "{manual}"}) {
    %0 = stablehlo.add %a, %a : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
