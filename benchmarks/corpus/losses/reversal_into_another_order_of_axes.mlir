// A reversal whose result is split over the same axes in another order: ours permuted shards twice.
// gspmd sent 64.0 KiB: 1 collective_permute over x,y, 1 collective_permute over y,x.
// XLA GSPMD sent 32.0 KiB: 1 collective_permute over x,y.
// XLA Shardy sent 32.0 KiB: 1 collective_permute over x,y.
module @jit_g attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4, "y"=2]> {stablehlo.mesh = {axes = [{name = "x", size = 4 : i64}, {name = "y", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<1024x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>}) -> (tensor<1024x64xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"y", "x"}, {}]>}) {
    %0 = stablehlo.reverse %arg0, dims = [0] : tensor<1024x64xf32>
    return %0 : tensor<1024x64xf32>
  }
}
