// RUN: gspmd-opt %s --gspmd-ingest --split-input-file | FileCheck %s

// A partial value that enters is one of summands, which are counted by a leading dimension and summed; a result that is
// to be left partial is taken apart into summands.

// CHECK-LABEL: func.func public @main
// CHECK-SAME: %arg0: tensor<4x8x6xf32> {gspmd.unreduced, sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}, {?}]>}
// CHECK-SAME: -> (tensor<2x8x6xf32> {gspmd.unreduced, sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {}, {}], replicated={"y"}>})
// CHECK-NEXT: %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[SUM:.*]] = stablehlo.reduce(%arg0 init: %[[ZERO]]) applies stablehlo.add across dimensions = [0]
// CHECK-NEXT: %[[TANH:.*]] = stablehlo.tanh %[[SUM]]
// CHECK-NEXT: %[[APART:.*]] = stablehlo.custom_call @gspmd.taken_apart(%[[TANH]]) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x":(1)2}, {}, {}], replicated={"y"}>]>}
// CHECK-NEXT: return %[[APART]]
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func public @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {?}], unreduced={"x"}>}) -> (tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], replicated={"y"}, unreduced={"x":(1)2}>}) {
  %0 = stablehlo.tanh %a : tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}

// -----

// A constraint to be partial says nothing: sums wait until they are needed. What is said of an operation's own result says
// no more than how it is split.

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[DOT:.*]] = stablehlo.dot_general {{.*}}sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}, {}]>]>
// CHECK-NEXT: return %[[DOT]]
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}, %b: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}, {}], unreduced={"x"}>]>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{"y"}, {?}], unreduced={"x"}> : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// -----

// XLA's notations; axes of size 1 leave nothing to sum.

// CHECK-LABEL: func.func public @main
// CHECK-SAME: %arg0: tensor<2x8xf32> {gspmd.unreduced, sdy.sharding = #sdy.sharding<@mesh, [{"axis_1"}, {"axis_0"}]>}
// CHECK-SAME: -> (tensor<4x8xf32> {gspmd.unreduced, sdy.sharding = #sdy.sharding<@mesh, [{"axis_0", "axis_1"}, {}]>})
// CHECK: %[[SUM:.*]] = stablehlo.reduce(%arg0
// CHECK-NEXT: %[[APART:.*]] = stablehlo.custom_call @gspmd.taken_apart(%[[SUM]])
// CHECK-NEXT: return %[[APART]]
func.func public @main(%a: tensor<8xf32> {mhlo.sharding = "{devices=[2,2]<=[4] last_tile_dims={unreduced}}"}) -> (tensor<8xf32> {mhlo.sharding = "{unreduced}"}) {
  %0 = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = "{unreduced}"} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func public @main
// CHECK-SAME: %arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}
// CHECK-NEXT: return %arg0
sdy.mesh @mesh = <["x"=4, "u"=1]>
func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}], unreduced={"u"}>}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}

// -----

// What crosses the boundary of a manual computation does so in a dimension of summands, one for each device inside. What
// is unreduced over an axis that the computation does not hold is whole there.

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[IN:.*]] = stablehlo.custom_call @gspmd.taken_apart(%arg0) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : (tensor<8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: %[[OUT:.*]] = sdy.manual_computation(%[[IN]], %arg1) in_shardings=[<@mesh, [{"x"}, {}]>, <@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}, {?}], replicated={"y"}>] manual_axes={"x"} (%[[A:.*]]: tensor<1x8xf32>, %[[B:.*]]: tensor<2xf32>) {
// CHECK-NEXT: %[[SUMMAND:.*]] = stablehlo.reshape %[[A]] : (tensor<1x8xf32>) -> tensor<8xf32>
// CHECK-NEXT: %[[TANH:.*]] = stablehlo.tanh %[[SUMMAND]]
// CHECK-NEXT: %[[COUNTED:.*]] = stablehlo.reshape %[[TANH]] : (tensor<8xf32>) -> tensor<1x8xf32>
// CHECK-NEXT: sdy.return %[[COUNTED]]
// CHECK: (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
// CHECK: %[[SUM:.*]] = stablehlo.reduce(%[[OUT]] init: %{{.*}}) applies stablehlo.add across dimensions = [0]
// CHECK-NEXT: return %[[SUM]]
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func public @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%a, %b) in_shardings=[<@mesh, [{}], unreduced={"x"}>, <@mesh, [{"x"}], unreduced={"y"}>] out_shardings=[<@mesh, [{?}], replicated={"y"}, unreduced={"x"}>] manual_axes={"x"} (%c: tensor<8xf32>, %d: tensor<2xf32>) {
    %1 = stablehlo.tanh %c : tensor<8xf32>
    sdy.return %1 : tensor<8xf32>
  } : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// A branch whose result is only taken apart gives summands itself.

// CHECK-LABEL: func.func public @main
// CHECK: %[[BOTH:.*]] = "stablehlo.case"(%arg0) ({
// CHECK-NEXT: %[[TANH:.*]] = stablehlo.tanh %arg1
// CHECK-NEXT: %[[APART:.*]] = stablehlo.custom_call @gspmd.taken_apart(%[[TANH]]) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>} : (tensor<8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: stablehlo.return %[[APART]]
// CHECK: %[[OTHER:.*]] = stablehlo.custom_call @gspmd.taken_apart(%arg1)
// CHECK-NEXT: stablehlo.return %[[OTHER]]
// CHECK: (tensor<i32>) -> tensor<4x8xf32>
// CHECK-NEXT: return %[[BOTH]]
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func public @main(%i: tensor<i32>, %a: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}], unreduced={"x"}>}) {
  %0 = "stablehlo.case"(%i) ({
    %1 = stablehlo.tanh %a : tensor<8xf32>
    stablehlo.return %1 : tensor<8xf32>
  }, {
    stablehlo.return %a : tensor<8xf32>
  }) : (tensor<i32>) -> tensor<8xf32>
  %2 = sdy.sharding_constraint %0 <@mesh, [{"y"}], unreduced={"x"}> : tensor<8xf32>
  return %2 : tensor<8xf32>
}
