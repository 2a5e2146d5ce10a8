// A transform of a split dimension, returned whole: ours exchanges twice and gathers, XLA gathers before.
// A loss that `losses.py` found (seed 1, case 159) and made small.
// gspmd sent 8.5 KiB: 2 all_to_all over y, 1 all_gather over y.
// XLA GSPMD sent 4.0 KiB: 1 all_gather over y.
// XLA Shardy sent 4.0 KiB: 1 all_gather over y.
// With arguments and results as XLA GSPMD lays them out, gspmd sent 8.5 KiB.
module @jit_forward attributes {mhlo.num_partitions = 3 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["y"=3]> {stablehlo.mesh = {axes = [{name = "y", size = 3 : i64}]}}
  func.func public @main(%arg0: tensor<16x16x6xf32>, %arg1: tensor<16x6xf32>) -> (tensor<16x16x6xf32> {jax.result_info = "result[0]", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"y"}]>}, tensor<16x16x4xf32> {jax.result_info = "result[1]"}) {
    %0 = call @fft(%arg0) : (tensor<16x16x6xf32>) -> tensor<16x16x4xcomplex<f32>>
    %1 = stablehlo.imag %0 : (tensor<16x16x4xcomplex<f32>>) -> tensor<16x16x4xf32>
    %2 = stablehlo.broadcast_in_dim %arg1, dims = [0, 2] : (tensor<16x6xf32>) -> tensor<16x16x6xf32>
    %3 = stablehlo.add %arg0, %2 : tensor<16x16x6xf32>
    return %3, %1 : tensor<16x16x6xf32>, tensor<16x16x4xf32>
  }
  func.func private @fft(%arg0: tensor<16x16x6xf32>) -> tensor<16x16x4xcomplex<f32>> {
    %0 = stablehlo.fft %arg0, type = RFFT, length = [6] : (tensor<16x16x6xf32>) -> tensor<16x16x4xcomplex<f32>>
    return %0 : tensor<16x16x4xcomplex<f32>>
  }
}
