// RUN: gspmd-opt --gspmd-ingest --split-input-file %s | FileCheck %s

// Calls are inlined, in nested functions and at several call sites, and nothing but @main is left.

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: stablehlo.tanh %arg0
// CHECK-NEXT: stablehlo.tanh
// CHECK-NEXT: stablehlo.negate
// CHECK-NEXT: stablehlo.tanh
// CHECK-NEXT: stablehlo.tanh
// CHECK-NEXT: stablehlo.negate
// CHECK-NEXT: return
// CHECK-NOT: func.func
func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @outer(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @outer(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @outer(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @inner(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @inner(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = stablehlo.negate %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
func.func private @inner(%arg0: tensor<4xf32>) -> tensor<4xf32> attributes {no_inline} {
  %0 = stablehlo.tanh %arg0 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @unused(%arg0: tensor<?xf32>) -> tensor<?xf32> {
  return %arg0 : tensor<?xf32>
}

// -----

// Constants stay in the loop in which they are.

// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.while
// CHECK: do {
// CHECK-NEXT: %[[ONE:.*]] = stablehlo.constant dense<1>
// CHECK-NEXT: stablehlo.add %iterArg, %[[ONE]]
func.func @main(%arg0: tensor<i32>) -> tensor<i32> {
  %0 = stablehlo.while(%iterArg = %arg0) : tensor<i32>
  cond {
    %1 = stablehlo.constant dense<5> : tensor<i32>
    %2 = stablehlo.compare LT, %iterArg, %1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  } do {
    %1 = func.call @step(%iterArg) : (tensor<i32>) -> tensor<i32>
    stablehlo.return %1 : tensor<i32>
  }
  return %0 : tensor<i32>
}
func.func private @step(%arg0: tensor<i32>) -> tensor<i32> {
  %0 = stablehlo.constant dense<1> : tensor<i32>
  %1 = stablehlo.add %arg0, %0 : tensor<i32>
  return %1 : tensor<i32>
}

// -----

// What is said of a callee's arguments and results, and of a call's results, becomes constraints in that order.

// CHECK-LABEL: func.func public @main(%arg0: tensor<8x8xf32>)
// CHECK-NEXT: %[[ARGUMENT:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{"x"}, {}]>
// CHECK-NEXT: %[[BODY:.*]] = stablehlo.tanh %[[ARGUMENT]]
// CHECK-NEXT: %[[RESULT:.*]] = sdy.sharding_constraint %[[BODY]] <@mesh, [{}, {"y"}]>
// CHECK-NEXT: %[[CALL:.*]] = sdy.sharding_constraint %[[RESULT]] <@mesh, [{"y"}, {?}]>
// CHECK-NEXT: return %[[CALL]]
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = call @f(%arg0) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}, {?}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
func.func private @f(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) {
  %0 = stablehlo.tanh %arg0 : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// The only public function is the entry, whatever its name; attributes that say nothing of shardings stay.

// CHECK-LABEL: func.func public @main
// CHECK-SAME: %arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32}
// CHECK-SAME: -> (tensor<4xf32> {jax.result_info = "result"})
func.func @step(%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<4xf32> {jax.result_info = "result"}) {
  return %arg0 : tensor<4xf32>
}
