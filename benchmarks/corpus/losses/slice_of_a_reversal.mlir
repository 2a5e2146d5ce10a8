// A slice of a reversed value: ours reversed the whole, of which shards are exchanged, and then cut.
// A loss that `losses.py` found (seed 32001, case 76) and made small.
// gspmd sent 32.0 KiB: 1 collective_permute over x.
// XLA GSPMD sent 20.0 KiB: 1 all_gather over y, 1 collective_permute over x.
// XLA Shardy sent 32.0 KiB: 1 collective_permute over x.
// With arguments and results as XLA GSPMD lays them out, gspmd sent 42.0 KiB.
module @jit_forward attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2]> {stablehlo.mesh = {axes = [{name = "x", size = 2 : i64}, {name = "y", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<64x8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}, {}]>}) -> (tensor<64x8x20xf32> {jax.result_info = "result[0]"}) {
    %0 = stablehlo.reverse %arg0, dims = [1] : tensor<64x8x64xf32>
    %1 = stablehlo.slice %0 [0:64, 0:8, 8:48:2] : (tensor<64x8x64xf32>) -> tensor<64x8x20xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{?}, {"x"}, {?}]> : tensor<64x8x20xf32>
    return %2 : tensor<64x8x20xf32>
  }
}
