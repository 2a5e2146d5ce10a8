// RUN: gspmd-opt %s --split-input-file --gspmd-ingest | FileCheck %s

// What is to be split as an argument that is annotated is annotated so.
// CHECK-LABEL: module @a_member_is_as_the_argument
// CHECK: %[[I:.*]] = stablehlo.iota
// CHECK: %[[C:.*]] = sdy.sharding_constraint %[[I]] <@mesh, [{"x"}, {"y"}]>
// CHECK: return %[[C]]
module @a_member_is_as_the_argument {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func @main(%arg0: tensor<8x2xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x2xi32> {
    %0 = stablehlo.iota dim = 0 : tensor<8x2xi32>
    sdy.sharding_group %arg0 group_id=0 : tensor<8x2xi32>
    sdy.sharding_group %0 group_id=0 : tensor<8x2xi32>
    return %0 : tensor<8x2xi32>
  }
}

// -----

// Where a dimension is open, or nothing is said, propagation decides.
// CHECK-LABEL: module @open_dimensions_are_left_to_propagation
// CHECK-NOT: sdy.sharding_constraint
module @open_dimensions_are_left_to_propagation {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func @main(%arg0: tensor<8x2xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>}, %arg1: tensor<4xi32>) -> (tensor<8x2xi32>, tensor<4xi32>) {
    %0 = stablehlo.iota dim = 0 : tensor<8x2xi32>
    %1 = stablehlo.iota dim = 0 : tensor<4xi32>
    sdy.sharding_group %arg0 group_id=0 : tensor<8x2xi32>
    sdy.sharding_group %0 group_id=0 : tensor<8x2xi32>
    sdy.sharding_group %arg1 group_id=1 : tensor<4xi32>
    sdy.sharding_group %1 group_id=1 : tensor<4xi32>
    return %0, %1 : tensor<8x2xi32>, tensor<4xi32>
  }
}
