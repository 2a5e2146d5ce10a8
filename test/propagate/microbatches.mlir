// RUN: gspmd-opt --split-input-file --gspmd-propagate %s | FileCheck %s

// A loop takes one part of the batch at a time: each part stays split, and not their number.
sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.reshape {{.*}} [{}, {"x"}, {}]
// CHECK: stablehlo.dynamic_slice {{.*}} [{}, {"x"}, {}]
func.func public @main(%a: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %start = stablehlo.broadcast_in_dim %none, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %parts = stablehlo.reshape %a : (tensor<16x8xf32>) -> tensor<4x4x8xf32>
  %0:3 = stablehlo.while(%i = %zero, %t = %start, %p = %parts) : tensor<i32>, tensor<8xf32>, tensor<4x4x8xf32>
  cond {
    %1 = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.dynamic_slice %p, %i, %zero, %zero, sizes = [1, 4, 8] : (tensor<4x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x8xf32>
    %2 = stablehlo.reduce(%1 init: %none) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x4x8xf32>, tensor<f32>) -> tensor<8xf32>
    %3 = stablehlo.add %t, %2 : tensor<8xf32>
    %4 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %4, %3, %p : tensor<i32>, tensor<8xf32>, tensor<4x4x8xf32>
  }
  return %0#1 : tensor<8xf32>
}

// -----

// What is not gone along in a loop is split as it is laid out.
sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.reshape {{.*}} [{"x"}, {}, {}]
func.func public @main(%a: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<4x4x8xf32> {
  %parts = stablehlo.reshape %a : (tensor<16x8xf32>) -> tensor<4x4x8xf32>
  return %parts : tensor<4x4x8xf32>
}
