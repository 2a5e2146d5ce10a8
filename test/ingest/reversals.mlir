// RUN: gspmd-opt %s --gspmd-ingest --split-input-file | FileCheck %s

sdy.mesh @mesh = <["x"=4]>

// The gradient of a reversal, and a loss.
// CHECK-LABEL: @main
// CHECK-NOT: stablehlo.reverse
// CHECK: return
func.func @main(%a: tensor<8x3xf32>) -> (tensor<f32>, tensor<8x3xf32>) {
  %c = stablehlo.constant dense<2.0> : tensor<f32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %row = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %0 = stablehlo.reverse %a, dims = [0] : tensor<8x3xf32>
  %1 = stablehlo.broadcast_in_dim %row, dims = [1] : (tensor<3xf32>) -> tensor<8x3xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<8x3xf32>
  %3 = stablehlo.reduce(%2 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x3xf32>, tensor<f32>) -> tensor<f32>
  %4 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<8x3xf32>
  %5 = stablehlo.power %2, %4 : tensor<8x3xf32>
  %6 = stablehlo.reverse %5, dims = [0] : tensor<8x3xf32>
  return %3, %6 : tensor<f32>, tensor<8x3xf32>
}

// -----

sdy.mesh @mesh = <["x"=4]>

// Two reversed values, and what is said of one on the way.
// CHECK-LABEL: @main
// CHECK-NEXT: %[[C:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{"x"}]>
// CHECK-NEXT: %[[S:.*]] = stablehlo.add %[[C]], %arg1
// CHECK-NEXT: return %[[S]]
func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.reverse %a, dims = [0] : tensor<8xf32>
  %1 = stablehlo.reverse %b, dims = [0] : tensor<8xf32>
  %2 = sdy.sharding_constraint %0 <@mesh, [{"x"}]> : tensor<8xf32>
  %3 = stablehlo.add %2, %1 : tensor<8xf32>
  %4 = stablehlo.reverse %3, dims = [0] : tensor<8xf32>
  return %4 : tensor<8xf32>
}

// -----

sdy.mesh @mesh = <["x"=4]>

// Returned reversed as well.
// CHECK-LABEL: @main
// CHECK-COUNT-2: stablehlo.reverse
func.func @main(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = stablehlo.reverse %a, dims = [0] : tensor<8xf32>
  %1 = stablehlo.tanh %0 : tensor<8xf32>
  %2 = stablehlo.reverse %1, dims = [0] : tensor<8xf32>
  return %1, %2 : tensor<8xf32>, tensor<8xf32>
}

// -----

sdy.mesh @mesh = <["x"=4]>

// With elements that are in another order reversed, along other dimensions, and summed up along another one.
// CHECK-LABEL: @main
// CHECK-COUNT-6: stablehlo.reverse
func.func @main(%a: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %two = stablehlo.constant dense<[[1.0, 2.0], [1.0, 2.0]]> : tensor<2x2xf32>
  %0 = stablehlo.reverse %a, dims = [1] : tensor<2x2xf32>
  %1 = stablehlo.add %0, %two : tensor<2x2xf32>
  %2 = stablehlo.reverse %1, dims = [1] : tensor<2x2xf32>
  %3 = stablehlo.reverse %a, dims = [0] : tensor<2x2xf32>
  %4 = stablehlo.negate %3 : tensor<2x2xf32>
  %5 = stablehlo.reverse %4, dims = [0, 1] : tensor<2x2xf32>
  %6 = stablehlo.reverse %a, dims = [0] : tensor<2x2xf32>
  %7 = stablehlo.sine %6 : tensor<2x2xf32>
  %8 = stablehlo.reduce(%7 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
  %9 = stablehlo.reverse %7, dims = [0] : tensor<2x2xf32>
  %10 = stablehlo.add %5, %9 : tensor<2x2xf32>
  return %2, %10, %8 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>
}
