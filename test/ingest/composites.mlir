// RUN: gspmd-opt --gspmd-ingest --split-input-file %s | FileCheck %s

// A composite computes what its decomposition does, whatever it is called; what is said of it stays.

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[A:.*]] = stablehlo.negate %arg0
// CHECK-NEXT: %[[B:.*]] = sdy.sharding_constraint %[[A]] <@mesh, [{"x"}]>
// CHECK-NEXT: return %[[B]]
sdy.mesh @mesh = <["x"=4]>
func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.composite "chlo.erf" %arg0 {decomposition = @f, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @f(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.negate %arg0 : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// One that decomposes into the operation itself is that; composites in composites go, and so do regions of them.

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[A:.*]] = chlo.erf %arg0
// CHECK-NEXT: %[[B:.*]] = stablehlo.tanh %[[A]]
// CHECK-NEXT: return %[[B]]
func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.composite "mine.outer" %arg0 {decomposition = @outer} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @outer(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.composite "chlo.erf" %arg0 {decomposition = @erf} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = "stablehlo.composite"(%0) <{decomposition = @tanh, name = "chlo.erf"}> ({
  ^bb0(%x: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
func.func private @erf(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = chlo.erf %arg0 : tensor<8xf32> -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @tanh(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %arg0 : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// What StableHLO makes of `chlo.top_k`, with its operations in another order, is taken for it; the least elements are not.

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: chlo.top_k(%arg0, k = 2)
// CHECK-NEXT: stablehlo.iota
// CHECK-NEXT: "stablehlo.sort"
func.func @main(%arg0: tensor<8xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0:2 = stablehlo.composite "chlo.top_k" %arg0 {composite_attributes = {k = 2 : i64}, decomposition = @most} : (tensor<8xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  %1:2 = stablehlo.composite "chlo.top_k" %arg0 {composite_attributes = {k = 2 : i64}, decomposition = @least} : (tensor<8xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %1#0 : tensor<2xf32>, tensor<2xf32>
}
func.func private @most(%arg0: tensor<8xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0 = stablehlo.iota dim = 0 : tensor<8xi32>
  %1:2 = "stablehlo.sort"(%arg0, %0) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %4 = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %4 : tensor<i1>
  }) : (tensor<8xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xi32>)
  %3 = stablehlo.slice %1#1 [0:2] : (tensor<8xi32>) -> tensor<2xi32>
  %2 = stablehlo.slice %1#0 [0:2] : (tensor<8xf32>) -> tensor<2xf32>
  return %2, %3 : tensor<2xf32>, tensor<2xi32>
}
func.func private @least(%arg0: tensor<8xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0 = stablehlo.iota dim = 0 : tensor<8xi32>
  %1:2 = "stablehlo.sort"(%arg0, %0) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %4 = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %4 : tensor<i1>
  }) : (tensor<8xf32>, tensor<8xi32>) -> (tensor<8xf32>, tensor<8xi32>)
  %2 = stablehlo.slice %1#0 [0:2] : (tensor<8xf32>) -> tensor<2xf32>
  %3 = stablehlo.slice %1#1 [0:2] : (tensor<8xi32>) -> tensor<2xi32>
  return %2, %3 : tensor<2xf32>, tensor<2xi32>
}

// -----

// Without its number of elements, a composite is no `chlo.top_k`.

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: stablehlo.slice
func.func @main(%arg0: tensor<8xf32>) -> tensor<2xf32> {
  %0 = stablehlo.composite "chlo.top_k" %arg0 {decomposition = @f} : (tensor<8xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @f(%arg0: tensor<8xf32>) -> tensor<2xf32> {
  %0 = stablehlo.slice %arg0 [0:2] : (tensor<8xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
