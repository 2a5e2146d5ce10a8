// RUN: gspmd-opt --split-input-file --verify-diagnostics --gspmd-propagate %s

sdy.mesh @mesh = <["x"=4]>

func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{calls 'lapack_sgetrf', which has no sharding rule}}
  %0 = stablehlo.custom_call @lapack_sgetrf(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

sdy.mesh @mesh = <["x"=4]>

func.func public @main() -> tensor<ui32> {
  // expected-error @+1 {{depends on the device it runs on}}
  %0 = stablehlo.partition_id : tensor<ui32>
  return %0 : tensor<ui32>
}
