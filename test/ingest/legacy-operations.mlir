// RUN: gspmd-opt --gspmd-ingest --split-input-file %s | FileCheck %s

// Deprecated and MHLO operations and custom calls that stand for an operation; what is said of them stays.

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[DOT:.*]] = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [0]
// CHECK-NEXT: %[[A:.*]] = sdy.sharding_constraint %[[DOT]] <@mesh, [{"x"}, {?}]>
// CHECK-NEXT: %[[B:.*]] = chlo.erf %[[A]] {gspmd.annotated, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>}
// CHECK-NEXT: chlo.top_k(%arg1, k = 2)
// CHECK-NEXT: %[[C:.*]] = sdy.sharding_constraint %[[B]] <@mesh, [{}, {"x"}]>
// CHECK-NEXT: chlo.erf %[[C]] : tensor<4x4xf32>
// CHECK-NEXT: chlo.top_k(%arg1, k = 3) {gspmd.annotated, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>, <@mesh, [{}]>]>}
// CHECK-NEXT: stablehlo.add
// CHECK-NEXT: stablehlo.constant
// CHECK-NEXT: stablehlo.tanh
// CHECK-NEXT: return
func.func @main(%arg0: tensor<4x4xf32>, %arg1: tensor<8xf32>) -> (tensor<4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<3xf32>) {
  %0 = stablehlo.dot %arg0, %arg0 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=4]>, [{"x"}, {?}]>]>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mhlo.erf %0 {mhlo.sharding = "{replicated}"} : tensor<4x4xf32>
  %values, %indices = mhlo.topk(%arg1, k = 2) : tensor<8xf32> -> (tensor<2xf32>, tensor<2xi32>)
  %2 = mhlo.copy %1 {mhlo.sharding = "{devices=[1,4]<=[4]}"} : tensor<4x4xf32>
  %3 = stablehlo.custom_call @mhlo.erf(%2) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %4:2 = stablehlo.custom_call @mhlo.topk(%arg1) {mhlo.attributes = {k = 3 : i64, largest = true, mhlo.sharding = "{{devices=[4]<=[4]}, {replicated}}"}, mhlo.version = 1 : i64} : (tensor<8xf32>) -> (tensor<3xf32>, tensor<3xi32>)
  %5 = mhlo.add %3, %3 : tensor<4x4xf32>
  %6 = sdy.constant dense<1.000000e+00> : tensor<2xf32>
  %7 = stablehlo.composite "mine.tanh" %5 {decomposition = @tanh} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %7, %values, %6, %4#0 : tensor<4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<3xf32>
}
func.func private @tanh(%arg0: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.tanh %arg0 : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// Shapes that constants decide are fixed.

// CHECK-LABEL: func.func public @main
// CHECK-SAME: -> tensor<4xf32>
// CHECK-NEXT: stablehlo.reshape %arg0 : (tensor<4xf32>) -> tensor<2x2xf32>
// CHECK-NEXT: stablehlo.reshape
func.func @main(%arg0: tensor<4xf32>) -> tensor<?xf32> {
  %0 = stablehlo.constant dense<2> : tensor<2xi32>
  %1 = stablehlo.dynamic_reshape %arg0, %0 : (tensor<4xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  %2 = stablehlo.constant dense<4> : tensor<1xi32>
  %3 = stablehlo.dynamic_reshape %1, %2 : (tensor<?x?xf32>, tensor<1xi32>) -> tensor<?xf32>
  return %3 : tensor<?xf32>
}

// -----

// What Shardy's own passes leave: a reshard is a constraint, named computations and data-flow edges dissolve.

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[A:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{"x"}]>
// CHECK-NEXT: %[[B:.*]] = sdy.sharding_constraint %[[A]] <@mesh, [{}]>
// CHECK-NEXT: %[[C:.*]] = stablehlo.tanh %[[B]]
// CHECK-NEXT: %[[D:.*]] = sdy.sharding_constraint %[[C]] <@mesh, [{"x"}]>
// CHECK-NEXT: return %[[D]]
sdy.mesh @mesh = <["x"=2]>
func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = sdy.reshard %arg0 <@mesh, [{"x"}]> : tensor<4xf32>
  %1 = sdy.named_computation<"f">(%0) in_shardings=[<@mesh, [{}]>] out_shardings=[<@mesh, [{"x"}]>] (%arg1: tensor<4xf32>) {
    %3 = stablehlo.tanh %arg1 : tensor<4xf32>
    sdy.return %3 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  %2 = sdy.data_flow_edge %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// Frontend attributes that are not about shardings, as TensorFlow's on its products, go with the old operation.

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[A:.*]] = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [0]
// CHECK-NEXT: return %[[A]]
func.func @main(%arg0: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.dot %arg0, %arg0 {mhlo.frontend_attributes = {grad_x = "false", grad_y = "false"}} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mhlo.copy %0 {mhlo.frontend_attributes = {grad_x = "true"}, mhlo.attributes = {}} : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// The size of a whole dimension, set as TensorFlow does it behind its top-k, is no news.

// CHECK-LABEL: func.func public @main
// CHECK-NOT: set_dimension_size
// CHECK: %[[A:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{"axis_0"}, {}]>
// CHECK-NEXT: return %[[A]]
func.func @main(%arg0: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = stablehlo.constant dense<3> : tensor<i32>
  %1 = stablehlo.set_dimension_size %arg0, %0, dim = 1 {mhlo.sharding = "{devices=[4,1]<=[4]}"} : (tensor<4x3xf32>, tensor<i32>) -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}
