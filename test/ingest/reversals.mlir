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

// With elements that are in another order reversed, and summed up along another dimension. What is reversed again along one
// more dimension is reversed along that alone.
// CHECK-LABEL: @main
// CHECK: stablehlo.reverse %arg0, dims = [1]
// CHECK: stablehlo.reverse %{{.*}}, dims = [1]
// CHECK-NEXT: %[[N:.*]] = stablehlo.negate %arg0
// CHECK-NEXT: stablehlo.reverse %[[N]], dims = [1]
// CHECK-COUNT-2: stablehlo.reverse %{{.*}}, dims = [0]
// CHECK-NOT: stablehlo.reverse
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

// -----

sdy.mesh @mesh = <["x"=4]>

// What is padded and cut between two reversals is padded and cut at the other end; a concatenation has its parts in the
// other order.
// CHECK-LABEL: @main
// CHECK-NEXT: %[[Z:.*]] = stablehlo.constant
// CHECK-NEXT: %[[P:.*]] = stablehlo.pad %arg0, %[[Z]], low = [1, 0], high = [2, 0], interior = [0, 0]
// CHECK-NEXT: %[[S:.*]] = stablehlo.slice %[[P]] [5:10:2, 0:3]
// CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %[[S]]
// CHECK-NEXT: %[[C:.*]] = stablehlo.concatenate %[[T]], %[[S]], dim = 0
// CHECK-NEXT: return %[[C]]
func.func @main(%a: tensor<8x3xf32>) -> tensor<6x3xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reverse %a, dims = [0] : tensor<8x3xf32>
  %1 = stablehlo.pad %0, %z, low = [2, 0], high = [1, 0], interior = [0, 0] : (tensor<8x3xf32>, tensor<f32>) -> tensor<11x3xf32>
  %2 = stablehlo.slice %1 [1:6:2, 0:3] : (tensor<11x3xf32>) -> tensor<3x3xf32>
  %3 = stablehlo.tanh %2 : tensor<3x3xf32>
  %4 = stablehlo.concatenate %2, %3, dim = 0 : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<6x3xf32>
  %5 = stablehlo.reverse %4, dims = [0] : tensor<6x3xf32>
  return %5 : tensor<6x3xf32>
}

// -----

sdy.mesh @mesh = <["x"=4]>

// A normalization along the other dimension, and a product that sums up along the reversed one.
// CHECK-LABEL: @main
// CHECK-NOT: stablehlo.reverse
// CHECK: return
func.func @main(%a: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<4x4xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reverse %a, dims = [0] : tensor<8x4xf32>
  %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8xf32>) -> tensor<8x4xf32>
  %3 = stablehlo.divide %0, %2 : tensor<8x4xf32>
  %4 = stablehlo.dot_general %3, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %5 = stablehlo.dot_general %0, %4, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %6 = stablehlo.reverse %4, dims = [0] : tensor<8x4xf32>
  return %6, %5 : tensor<8x4xf32>, tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["x"=4]>

// What is updated at a place that counts from the beginning stays.
// CHECK-LABEL: @main
// CHECK-COUNT-2: stablehlo.reverse
func.func @main(%a: tensor<8xf32>, %u: tensor<1xf32>, %i: tensor<i32>) -> tensor<8xf32> {
  %0 = stablehlo.reverse %a, dims = [0] : tensor<8xf32>
  %1 = stablehlo.dynamic_update_slice %0, %u, %i : (tensor<8xf32>, tensor<1xf32>, tensor<i32>) -> tensor<8xf32>
  %2 = stablehlo.reverse %1, dims = [0] : tensor<8xf32>
  return %2 : tensor<8xf32>
}
