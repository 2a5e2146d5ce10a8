// A kernel is split along what is summed, and nothing is said of the result: it may be split, and the kernel gathered.
// A loss that `losses.py` found (seed 31002, case 80) and made small.
// gspmd sent 3.4 KiB: 1 all_reduce over y.
// XLA GSPMD sent 512 B: 1 all_gather over y.
// XLA Shardy sent 3.4 KiB: 1 all_reduce over y.
// With arguments and results as XLA GSPMD lays them out, gspmd sent 3.4 KiB.
module @jit_forward attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["y"=2]> {stablehlo.mesh = {axes = [{name = "y", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<10x25x8xf32>, %arg1: tensor<4x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}, {}]>}) -> (tensor<10x11x8xf32> {jax.result_info = "result[0]"}) {
    %0 = stablehlo.abs %arg0 : tensor<10x25x8xf32>
    %1 = stablehlo.negate %0 : tensor<10x25x8xf32>
    %2 = stablehlo.exponential %1 : tensor<10x25x8xf32>
    %3 = stablehlo.convolution(%2, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], pad = [[0, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<10x25x8xf32>, tensor<4x8x8xf32>) -> tensor<10x11x8xf32>
    %cst = stablehlo.constant dense<0.176776692> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<10x11x8xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<10x11x8xf32>
    return %5 : tensor<10x11x8xf32>
  }
}
