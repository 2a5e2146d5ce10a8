// RUN: gspmd-opt --gspmd-ingest --split-input-file %s | FileCheck %s

// Nested tuples at @main, of custom calls and across calls are flattened, with their annotations leaf by leaf.

// CHECK-LABEL: func.func public @main
// CHECK-SAME: %arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"axis_0"}]>}
// CHECK-SAME: %arg1: tensor<4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}
// CHECK-SAME: %arg2: tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>})
// CHECK-SAME: -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"axis_0"}]>}, tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"axis_0"}]>})
// CHECK-NEXT: %[[ELEMENT:.*]] = sdy.sharding_constraint %arg2 <@mesh, [{"axis_0"}]>
// CHECK-NEXT: %[[CALL:.*]]:2 = stablehlo.custom_call @foo(%[[ELEMENT]]) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
// CHECK-NEXT: %[[A:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{}]>
// CHECK-NEXT: %[[B:.*]] = sdy.sharding_constraint %[[CALL]]#1 <@mesh, [{"axis_0"}]>
// CHECK-NEXT: return %[[A]], %[[B]]
func.func @main(%arg0: tuple<tensor<4xf32>, tuple<tensor<4xi32>, tensor<2xf32>>> {mhlo.sharding = "{{devices=[2]<=[2]}, {replicated}, {replicated}}"}) -> (tuple<tensor<4xf32>, tensor<2xf32>> {mhlo.sharding = "{devices=[2]<=[2]}"}) {
  %0 = stablehlo.get_tuple_element %arg0[0] : (tuple<tensor<4xf32>, tuple<tensor<4xi32>, tensor<2xf32>>>) -> tensor<4xf32>
  %1 = stablehlo.get_tuple_element %arg0[1] : (tuple<tensor<4xf32>, tuple<tensor<4xi32>, tensor<2xf32>>>) -> tuple<tensor<4xi32>, tensor<2xf32>>
  %2 = stablehlo.get_tuple_element %1[1] {mhlo.sharding = "{devices=[2]<=[2]}"} : (tuple<tensor<4xi32>, tensor<2xf32>>) -> tensor<2xf32>
  %3 = stablehlo.custom_call @foo(%2) {xla_shape = "(f32[2],f32[2])"} : (tensor<2xf32>) -> tuple<tensor<2xf32>, tensor<2xf32>>
  %4 = stablehlo.get_tuple_element %3[1] : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
  %5 = stablehlo.tuple %0, %4 {mhlo.sharding = "{{replicated}, {devices=[2]<=[2]}}"} : tuple<tensor<4xf32>, tensor<2xf32>>
  %6 = func.call @f(%5) : (tuple<tensor<4xf32>, tensor<2xf32>>) -> tuple<tensor<4xf32>, tensor<2xf32>>
  return %6 : tuple<tensor<4xf32>, tensor<2xf32>>
}
func.func private @f(%arg0: tuple<tensor<4xf32>, tensor<2xf32>>) -> tuple<tensor<4xf32>, tensor<2xf32>> {
  return %arg0 : tuple<tensor<4xf32>, tensor<2xf32>>
}
