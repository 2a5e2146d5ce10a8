// A constraint between a pad and the slice of it: ours shifted the padded value, and back.
// gspmd sent 2.8 KiB: 3 collective_permute over x.
// XLA GSPMD sent 768 B: 1 collective_permute over x.
// XLA Shardy sent 768 B: 1 collective_permute over x.
module @jit_g attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=8]> {stablehlo.mesh = {axes = [{name = "x", size = 8 : i64}]}}
  func.func public @main(%arg0: tensor<1024x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<1024x64xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.pad %arg0, %cst, low = [3, 0], high = [5, 0], interior = [0, 0] : (tensor<1024x64xf32>, tensor<f32>) -> tensor<1032x64xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {}]> : tensor<1032x64xf32>
    %2 = stablehlo.slice %1 [0:1024, 0:64] : (tensor<1032x64xf32>) -> tensor<1024x64xf32>
    return %2 : tensor<1024x64xf32>
  }
}
