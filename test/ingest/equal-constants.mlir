// RUN: gspmd-opt %s --gspmd-ingest --split-input-file | FileCheck %s

// Constants that are said several times, and their broadcasts, stand once, at the beginning.

// CHECK-LABEL: func.func public @main
// CHECK-NEXT:    [[HALF:%.+]] = stablehlo.constant dense<5.000000e-01> : tensor<f32>
// CHECK-NEXT:    [[HALVES:%.+]] = stablehlo.broadcast_in_dim [[HALF]], dims = []
// CHECK-NEXT:    [[SUM:%.+]] = stablehlo.add %{{.*}}, [[HALVES]]
// CHECK-NEXT:    stablehlo.multiply [[SUM]], [[HALVES]]
// CHECK-NEXT:    return
sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.constant dense<0.5> : tensor<f32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.add %a, %1 : tensor<8xf32>
  %3 = stablehlo.constant dense<0.5> : tensor<f32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %5 = stablehlo.multiply %2, %4 : tensor<8xf32>
  return %5 : tensor<8xf32>
}

// -----

// A constant that is said once stays where it is said, also where a later one is like it but for its type.

// CHECK-LABEL: func.func public @main
// CHECK-NEXT:    stablehlo.negate
// CHECK-NEXT:    stablehlo.constant dense<1.000000e+00> : tensor<8xf32>
// CHECK-NEXT:    stablehlo.add
// CHECK-NEXT:    stablehlo.constant dense<1.000000e+00> : tensor<4xf32>
sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<8xf32>, %b: tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  %0 = stablehlo.negate %a : tensor<8xf32>
  %1 = stablehlo.constant dense<1.0> : tensor<8xf32>
  %2 = stablehlo.add %0, %1 : tensor<8xf32>
  %3 = stablehlo.constant dense<1.0> : tensor<4xf32>
  %4 = stablehlo.add %b, %3 : tensor<4xf32>
  return %2, %4 : tensor<8xf32>, tensor<4xf32>
}

// -----

// Bodies of loops have constants of their own, which those of the function are no part of.

// CHECK-LABEL: func.func public @main
// CHECK-COUNT-1: stablehlo.constant dense<0> : tensor<i32>
// CHECK:         cond {
// CHECK:         } do {
// CHECK-NEXT:      [[ONE:%.+]] = stablehlo.constant dense<1> : tensor<i32>
// CHECK-NEXT:      [[NEXT:%.+]] = stablehlo.add %{{.*}}, [[ONE]]
// CHECK-NEXT:      stablehlo.add %{{.*}}, [[ONE]]
sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<i32>) -> tensor<i32> {
  %0 = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %0, %v = %a) : tensor<i32>, tensor<i32>
    cond {
      %n = stablehlo.constant dense<4> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %again = stablehlo.constant dense<1> : tensor<i32>
      %w = stablehlo.add %v, %again : tensor<i32>
      stablehlo.return %next, %w : tensor<i32>, tensor<i32>
    }
  return %r#1 : tensor<i32>
}

// -----

// In a sharding group a constant is meant as a value, not for its use: programs with groups keep theirs.

// CHECK-LABEL: func.func public @main
// CHECK-COUNT-2: stablehlo.constant dense<0.000000e+00> : tensor<8xf32>
sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
  sdy.sharding_group %a group_id = 0 : tensor<8xf32>
  %0 = stablehlo.constant dense<0.0> : tensor<8xf32>
  sdy.sharding_group %0 group_id = 0 : tensor<8xf32>
  %1 = stablehlo.constant dense<0.0> : tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
