// A value is reversed, padded, and reversed again: XLA GSPMD keeps the order of the devices reversed in between.
// gspmd sent 20.0 KiB: 3 collective_permute over x.
// XLA GSPMD sent 6.0 KiB: 1 collective_permute over x.
// XLA Shardy sent 20.0 KiB: 3 collective_permute over x.
module @jit_forward attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%arg0: tensor<512x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<384x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reverse %arg0, dims = [0] : tensor<512x16xf32>
    %1 = stablehlo.pad %0, %cst, low = [0, 0], high = [-128, 0], interior = [0, 0] : (tensor<512x16xf32>, tensor<f32>) -> tensor<384x16xf32>
    %2 = stablehlo.tanh %1 : tensor<384x16xf32>
    %3 = stablehlo.reverse %2, dims = [0] : tensor<384x16xf32>
    return %3 : tensor<384x16xf32>
  }
}
