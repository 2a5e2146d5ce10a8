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
  // expected-error @+1 {{calls 'CustomSPMDPartitioning', which functions of the Python program that made it split; partition that program with gspmd.jit}}
  %0 = stablehlo.custom_call @CustomSPMDPartitioning(%a) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=4}, custom>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
