// RUN: gspmd-opt --split-input-file --verify-diagnostics --gspmd-ingest %s

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%b: tensor<4x4xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{calls 'all-gather-start' with 'async_collective_config' that does not describe it; write it as JAX does}}
  %0 = stablehlo.custom_call @"all-gather-start"(%b) {mhlo.frontend_attributes = {async_collective_config = ""}} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%b: tensor<4x4xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{calls 'all-gather-start' with 'async_collective_config' that does not describe it; write it as JAX does}}
  %0 = stablehlo.custom_call @"all-gather-start"(%b) {mhlo.frontend_attributes = {async_collective_config = "["}} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%b: tensor<4x4xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{calls 'all-gather-start' with 'async_collective_config' that does not describe it; write it as JAX does}}
  %0 = stablehlo.custom_call @"all-gather-start"(%b) {mhlo.frontend_attributes = {async_collective_config = "{\22replica_groups\22: [[0, 2], [1, 3]], \22channel_id\22: 1}"}} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%b: tensor<4x4xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{calls 'all-gather-start' with 'async_collective_config' that does not describe it; write it as JAX does}}
  %0 = stablehlo.custom_call @"all-gather-start"(%b) {mhlo.frontend_attributes = {async_collective_config = "{\22all_gather_dimension\22: 2, \22replica_groups\22: [[0, 2], [1, 3]], \22channel_id\22: 1}"}} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%b: tensor<4x4xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{calls 'all-gather-start' with 'async_collective_config' that does not describe it; write it as JAX does}}
  %0 = stablehlo.custom_call @"all-gather-start"(%b) {mhlo.frontend_attributes = {async_collective_config = "{\22all_gather_dimension\22: 0, \22replica_groups\22: [[0, 2], [1, 3]], \22channel_id\22: 1}"}} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%b: tensor<4x4xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{calls 'all-gather-start' with 'async_collective_config' that does not describe it; write it as JAX does}}
  %0 = stablehlo.custom_call @"all-gather-start"(%b) {mhlo.frontend_attributes = {async_collective_config = "{\22all_gather_dimension\22: 1, \22channel_id\22: 1, \22replica_groups\22: [[0, 2.5], [1, 3]]}"}} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%b: tensor<4x4xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{calls 'all-gather-start' with 'async_collective_config' that does not describe it; write it as JAX does}}
  %0 = stablehlo.custom_call @"all-gather-start"(%b) {mhlo.frontend_attributes = {async_collective_config = "{\22all_gather_dimension\22: 1, \22channel_id\22: 1, \22replica_groups\22: [[0, 2], [1]]}"}} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%b: tensor<4x4xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{calls 'all-gather-start' with 'async_collective_config' that does not describe it; write it as JAX does}}
  %0 = stablehlo.custom_call @"all-gather-start"(%b) {mhlo.frontend_attributes = {async_collective_config = "{\22all_gather_dimension\22: 1, \22channel_id\22: 1, \22replica_groups\22: [[0, 2], [2, 3]]}"}} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%b: tensor<4x4xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{calls 'all-gather-start' with 'async_collective_config' that does not describe it; write it as JAX does}}
  %0 = stablehlo.custom_call @"all-gather-start"(%b) {mhlo.frontend_attributes = {async_collective_config = "{\22all_gather_dimension\22: 1, \22channel_id\22: 1, \22replica_groups\22: 3}"}} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%b: tensor<4x4xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{calls 'all-gather-start' with 'async_collective_config' that does not describe it; write it as JAX does}}
  %0 = stablehlo.custom_call @"all-gather-start"(%b) {mhlo.frontend_attributes = {async_collective_config = "{\22all_gather_dimension\22: 1, \22channel_id\22: \22x\22, \22replica_groups\22: [[0, 2], [1, 3]]}"}} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%b: tensor<4x4xf32>) -> tensor<8x2xf32> {
  // expected-error @+1 {{calls 'all-to-all-start' with 'async_collective_config' that does not describe it; write it as JAX does}}
  %0 = stablehlo.custom_call @"all-to-all-start"(%b) {mhlo.frontend_attributes = {async_collective_config = "{\22split_dimension\22: 1, \22concat_dimension\22: 0, \22split_count\22: 4, \22replica_groups\22: [[0, 2], [1, 3]], \22channel_id\22: 1}"}} : (tensor<4x4xf32>) -> tensor<8x2xf32>
  return %0 : tensor<8x2xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%b: tensor<4x4xf32>) -> tensor<2x4xf32> {
  // expected-error @+1 {{calls 'reduce-scatter-start' with 'async_collective_config' that does not describe it; write it as JAX does}}
  %0 = stablehlo.custom_call @"reduce-scatter-start"(%b) {called_computations = [@add], mhlo.frontend_attributes = {async_collective_config = "{\22scatter_dimension\22: true, \22replica_groups\22: [[0, 2], [1, 3]], \22channel_id\22: 1}"}} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
func.func private @add(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  return %a : tensor<f32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%b: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{calls 'collective-permute-start' with 'async_collective_config' that does not describe it; write it as JAX does}}
  %0 = stablehlo.custom_call @"collective-permute-start"(%b) {mhlo.frontend_attributes = {async_collective_config = "{\22permutation\22: [[0, 2], [1, 2]], \22channel_id\22: 1}"}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%b: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{calls 'all-reduce-start' without a function that combines two elements; name one in 'called_computations'}}
  %0 = stablehlo.custom_call @"all-reduce-start"(%b) {mhlo.frontend_attributes = {async_collective_config = "{\22replica_groups\22: [[0, 2], [1, 3]], \22channel_id\22: 1, \22use_global_device_ids\22: true}"}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%b: tensor<4x4xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{calls 'all-gather-done' with a result of another type}}
  %0 = stablehlo.custom_call @"all-gather-done"(%b) : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%b: tensor<4x4xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{calls 'all-gather-start' with 'async_collective_config' that does not describe it; write it as JAX does}}
  %0 = stablehlo.custom_call @"all-gather-start"(%b) {mhlo.frontend_attributes = {async_collective_config = "{\22all_gather_dimension\22: 1, \22channel_id\22: 99999999999, \22replica_groups\22: [[0, 2], [1, 3]]}"}} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func public @main(%b: tensor<4x4xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{calls 'all-gather-start' with 'async_collective_config' that does not describe it; write it as JAX does}}
  %0 = stablehlo.custom_call @"all-gather-start"(%b) {mhlo.frontend_attributes = {async_collective_config = "{\22all_gather_dimension\22: 1, \22channel_id\22: 1, \22replica_groups\22: [[0, 2], [1, 9999999999999999999999]]}"}} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
