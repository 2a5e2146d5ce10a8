// Elementwise operations between two reversals: XLA GSPMD keeps the order of the devices reversed.
// A loss that `losses.py` found (seed 1, case 145) and made small.
// gspmd sent 2.0 KiB: 2 collective_permute over y.
// XLA GSPMD sent 0 B: nothing.
// XLA Shardy sent 2.0 KiB: 2 collective_permute over y.
// With arguments and results as XLA GSPMD lays them out, gspmd sent 2.0 KiB.
module @jit_loss attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["y"=2]> {stablehlo.mesh = {axes = [{name = "y", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<8x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}, {}]>}) -> (tensor<8x8x8xf32> {jax.result_info = "result[0]"}) {
    %0 = stablehlo.reverse %arg0, dims = [0] : tensor<8x8x8xf32>
    %1 = chlo.square %0 : tensor<8x8x8xf32> -> tensor<8x8x8xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x8x8xf32>
    %3 = stablehlo.multiply %2, %0 : tensor<8x8x8xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%1 init: %cst_0) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<8x8x8xf32>, tensor<f32>) -> tensor<f32>
    %cst_1 = stablehlo.constant dense<5.120000e+02> : tensor<f32>
    %5 = stablehlo.divide %4, %cst_1 : tensor<f32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.add %cst_2, %5 : tensor<f32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_4 = stablehlo.constant dense<5.120000e+02> : tensor<f32>
    %7 = stablehlo.divide %cst_3, %cst_4 : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<f32>) -> tensor<8x8x8xf32>
    %9 = stablehlo.multiply %8, %3 : tensor<8x8x8xf32>
    %10 = stablehlo.reverse %9, dims = [0] : tensor<8x8x8xf32>
    return %10 : tensor<8x8x8xf32>
  }
}
