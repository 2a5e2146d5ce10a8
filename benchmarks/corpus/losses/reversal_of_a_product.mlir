// What every device has whole is multiplied, and reversed along a dimension whose result is split: ours permuted shards.
// A loss that `losses.py` found (seed 9001, case 140) and made small.
// gspmd sent 8.0 KiB: 1 collective_permute over z.
// XLA GSPMD sent 0 B: nothing.
// XLA Shardy sent 8.0 KiB: 1 collective_permute over z.
// With arguments and results as XLA GSPMD lays them out, gspmd sent 8.0 KiB.
module @jit_forward attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["z"=2]> {stablehlo.mesh = {axes = [{name = "z", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<16x16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg1: tensor<16x16xf32>) -> (tensor<16x16x16xf32> {jax.result_info = "result[0]", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"z"}]>}) {
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16x16xf32>) -> tensor<16x16x16xf32>
    %cst = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x16x16xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<16x16x16xf32>
    %3 = stablehlo.reverse %2, dims = [2] : tensor<16x16x16xf32>
    return %3 : tensor<16x16x16xf32>
  }
}
