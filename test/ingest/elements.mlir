// RUN: gspmd-opt --split-input-file --verify-diagnostics --gspmd-ingest %s | FileCheck %s

// A function that a custom call compares by is given single elements: what is said of their sharding is forgotten.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func private @greater
// CHECK-SAME: (%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<i1>
// CHECK-NEXT: stablehlo.compare GT, %arg0, %arg1 :
// CHECK-NEXT: return
func.func private @greater(%a: tensor<f32>, %b: tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>})
    -> (tensor<i1> {mhlo.sharding = "{replicated}"}) {
  %0 = sdy.sharding_constraint %a <@mesh, []> : tensor<f32>
  %1 = stablehlo.custom_call @Sharding(%b) {mhlo.sharding = "{replicated}"} : (tensor<f32>) -> tensor<f32>
  %2 = stablehlo.compare GT, %0, %1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>]>}
    : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %2 : tensor<i1>
}
// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.custom_call @ApproxTopK
func.func public @main(%a: tensor<8xf32>, %low: tensor<f32>) -> tensor<2xf32> {
  %0 = stablehlo.custom_call @ApproxTopK(%a, %low) {
    called_computations = [@greater], mhlo.backend_config = {reduction_dim = 0 : i64, top_k = 2 : i64}
  } : (tensor<8xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// It may not ask which device it runs on.

sdy.mesh @mesh = <["x"=4]>

func.func private @greater(%a: tensor<f32>, %b: tensor<f32>) -> tensor<i1> {
  // expected-error@+1 {{'stablehlo.partition_id' op inside a function that a custom call compares by}}
  %0 = stablehlo.partition_id : tensor<ui32>
  %1 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %1 : tensor<i1>
}
func.func public @main(%a: tensor<8xf32>, %low: tensor<f32>) -> tensor<2xf32> {
  %0 = stablehlo.custom_call @ApproxTopK(%a, %low) {
    called_computations = [@greater], mhlo.backend_config = {reduction_dim = 0 : i64, top_k = 2 : i64}
  } : (tensor<8xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

sdy.mesh @mesh = <["x"=4]>

func.func private @positive(%a: tensor<f32>) -> tensor<f32> {
  return %a : tensor<f32>
}
func.func private @greater(%a: tensor<f32>, %b: tensor<f32>) -> tensor<i1> {
  // expected-error@+1 {{'func.call' op inside a function that a custom call compares by}}
  %0 = func.call @positive(%a) : (tensor<f32>) -> tensor<f32>
  %1 = stablehlo.compare GT, %0, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %1 : tensor<i1>
}
func.func public @main(%a: tensor<8xf32>, %low: tensor<f32>) -> tensor<2xf32> {
  %0 = stablehlo.custom_call @ApproxTopK(%a, %low) {
    called_computations = [@greater], mhlo.backend_config = {reduction_dim = 0 : i64, top_k = 2 : i64}
  } : (tensor<8xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// A marker there has to be one.

sdy.mesh @mesh = <["x"=4]>

func.func private @greater(%a: tensor<f32>, %b: tensor<f32>) -> tensor<i1> {
  // expected-error@+1 {{custom call 'Sharding' makes (tensor<f32>) of (tensor<f32>, tensor<f32>); expected the type it takes}}
  %0 = stablehlo.custom_call @Sharding(%a, %b) {mhlo.sharding = "{replicated}"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = stablehlo.compare GT, %0, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %1 : tensor<i1>
}
func.func public @main(%a: tensor<8xf32>, %low: tensor<f32>) -> tensor<2xf32> {
  %0 = stablehlo.custom_call @ApproxTopK(%a, %low) {
    called_computations = [@greater], mhlo.backend_config = {reduction_dim = 0 : i64, top_k = 2 : i64}
  } : (tensor<8xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// The same holds for the bodies of reductions and the like.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.add across dimensions = [0]
func.func public @main(%a: tensor<8xf32>, %zero: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.reduce(%a init: %zero) across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    reducer(%p: tensor<f32>, %q: tensor<f32>) {
      %1 = sdy.sharding_constraint %p <@mesh, []> : tensor<f32>
      %2 = stablehlo.add %1, %q {mhlo.sharding = "{replicated}"} : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }
  return %0 : tensor<f32>
}

// -----

sdy.mesh @mesh = <["x"=4]>

func.func public @main(%a: tensor<8xf32>, %zero: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.reduce(%a init: %zero) across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    reducer(%p: tensor<f32>, %q: tensor<f32>) {
      // expected-error@+1 {{'stablehlo.all_reduce' op in the body of 'stablehlo.reduce'}}
      %1 = "stablehlo.all_reduce"(%p) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
        ^bb0(%r: tensor<f32>, %s: tensor<f32>):
          stablehlo.return %r : tensor<f32>
      }) : (tensor<f32>) -> tensor<f32>
      %2 = stablehlo.add %1, %q : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }
  return %0 : tensor<f32>
}

// -----

// What is summed up as a wider type than it has becomes that before.

// CHECK-LABEL: func.func public @main
// CHECK: %[[WIDE:.*]] = stablehlo.convert %arg0 : (tensor<8xi16>) -> tensor<8xi64>
// CHECK: stablehlo.reduce(%[[WIDE]] init: %{{.*}}) applies stablehlo.add across dimensions = [0] : (tensor<8xi64>, tensor<i64>) -> tensor<i64>
func.func public @main(%a: tensor<8xi16>) -> tensor<i64> {
  %zero = stablehlo.constant dense<0> : tensor<i16>
  %0 = stablehlo.reduce(%a init: %zero) across dimensions = [0] : (tensor<8xi16>, tensor<i16>) -> tensor<i64>
  reducer(%p: tensor<i64>, %q: tensor<i64>) {
    %s = stablehlo.add %p, %q : tensor<i64>
    stablehlo.return %s : tensor<i64>
  }
  return %0 : tensor<i64>
}

// -----

// So does what a selection compares, which converts it back.

// CHECK-LABEL: func.func public @main
// CHECK-DAG: stablehlo.convert %arg0 : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-DAG: stablehlo.convert %arg1 : (tensor<4xbf16>) -> tensor<4xf32>
// CHECK: "stablehlo.select_and_scatter"
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>):
// CHECK-DAG: stablehlo.convert %[[A]] : (tensor<f32>) -> tensor<bf16>
// CHECK-DAG: stablehlo.convert %[[B]] : (tensor<f32>) -> tensor<bf16>
// CHECK: stablehlo.compare GE, %{{.*}}, %{{.*}} : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
func.func public @main(%a: tensor<8xbf16>, %s: tensor<4xbf16>) -> tensor<8xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<bf16>
  %0 = "stablehlo.select_and_scatter"(%a, %s, %z) ({
  ^bb0(%p: tensor<bf16>, %q: tensor<bf16>):
    %c = stablehlo.compare GE, %p, %q : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %c = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) {window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}
    : (tensor<8xbf16>, tensor<4xbf16>, tensor<bf16>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
