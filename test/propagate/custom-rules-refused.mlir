// RUN: gspmd-opt --split-input-file --verify-diagnostics --gspmd-propagate %s

sdy.mesh @mesh = <["x"=2]>
func.func public @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{'stablehlo.custom_call' op sharding rule '([i, j])->([i, j]) {i=8, j=8}, custom' is wrong: factors j make 8 elements of a dimension of 4}}
  %0 = stablehlo.custom_call @f(%a) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=8}, custom>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

sdy.mesh @mesh = <["x"=2]>
func.func public @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{'stablehlo.sine' op sharding rule '([i, j])->([i, j]) {i=2, j=4}' is wrong: factors i make 2 elements of a dimension of 8}}
  %0 = stablehlo.sine %a {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=2, j=4}>} : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

sdy.mesh @mesh = <["x"=2]>
func.func public @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{calls 'CustomSPMDPartitioning', whose partitioning functions are in the Python program that made it; partition that program with gspmd.jit}}
  %0 = stablehlo.custom_call @CustomSPMDPartitioning(%a) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=4}, custom>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

sdy.mesh @mesh = <["x"=2]>
func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{calls 'foo', which calls functions of the module; compute it in a manual computation or whole on every device with --replicate-unsupported}}
  %0 = stablehlo.custom_call @foo(%arg0) {called_computations = [@f]} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @f(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  return %arg0 : tensor<8xf32>
}

// -----

// A call with effects is never repeated on every device, so the hint does not say so.
sdy.mesh @mesh = <["x"=2]>
func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{calls 'foo', which has no sharding rule; give it one with --custom-rule or compute it in a manual computation}}
  %0 = stablehlo.custom_call @foo(%arg0) {has_side_effect = true} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// A kernel that is compiled for its shapes cannot follow a rule.
sdy.mesh @mesh = <["x"=2]>
func.func public @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @+1 {{calls 'tpu_custom_call', a kernel compiled for the shapes that it is given; compute it in a manual computation or whole on every device with --replicate-unsupported}}
  %0 = stablehlo.custom_call @tpu_custom_call(%a) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=4}, custom>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
