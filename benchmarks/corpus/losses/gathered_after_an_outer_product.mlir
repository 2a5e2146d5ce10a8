// A gradient that is an outer product: ours gathers the product, XLA the vector.
// A loss that `losses.py` found (seed 1, case 293) and made small.
// gspmd sent 4.2 KiB: 1 all_gather over y, 1 all_reduce over y,z, 1 all_reduce over y, 1 all_gather over z, 1
// reduce_scatter over z.
// XLA GSPMD sent 176 B: 1 all_reduce over z, 1 all_gather over y,z.
// XLA Shardy sent 4.2 KiB: 1 all_gather over y, 2 all_reduce over y, 1 all_reduce over z, 1 all_gather over z.
// With arguments and results as XLA GSPMD lays them out, gspmd sent 4.2 KiB.
module @jit_loss attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["y"=2, "z"=2]> {stablehlo.mesh = {axes = [{name = "y", size = 2 : i64}, {name = "z", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<16x16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"z"}, {}, {}]>}, %arg1: tensor<16xf32>, %arg2: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y", "z"}]>}) -> (tensor<16x16x16xf32> {jax.result_info = "result[0]", sdy.sharding = #sdy.sharding<@mesh, [{"z"}, {}, {}]>}, tensor<16xf32> {jax.result_info = "result[1]"}, tensor<16xf32> {jax.result_info = "result[2]", sdy.sharding = #sdy.sharding<@mesh, [{"y", "z"}]>}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16x16xf32>, tensor<16xf32>) -> tensor<16x16xf32>
    %cst = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<16x16xf32>
    %3 = stablehlo.dot_general %2, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %cst_0 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<16xf32>
    %6 = chlo.square %5 : tensor<16xf32> -> tensor<16xf32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %8 = stablehlo.multiply %7, %5 : tensor<16xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%6 init: %cst_2) applies stablehlo.add across dimensions = [0] : (tensor<16xf32>, tensor<f32>) -> tensor<f32>
    %cst_3 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %10 = stablehlo.divide %9, %cst_3 : tensor<f32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.add %cst_4, %10 : tensor<f32>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_6 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %12 = stablehlo.divide %cst_5, %cst_6 : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %14 = stablehlo.multiply %13, %8 : tensor<16xf32>
    %cst_7 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %16 = stablehlo.multiply %14, %15 : tensor<16xf32>
    %17 = stablehlo.dot_general %16, %2, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16xf32>, tensor<16x16xf32>) -> tensor<16xf32>
    %18 = stablehlo.dot_general %16, %arg2, contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<16xf32>, tensor<16xf32>) -> tensor<16x16xf32>
    %cst_8 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %20 = stablehlo.multiply %18, %19 : tensor<16x16xf32>
    %21 = stablehlo.dot_general %20, %arg0, contracting_dims = [0, 1] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16x16x16xf32>) -> tensor<16xf32>
    %22 = stablehlo.dot_general %20, %arg1, contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<16x16xf32>, tensor<16xf32>) -> tensor<16x16x16xf32>
    return %22, %21, %17 : tensor<16x16x16xf32>, tensor<16xf32>, tensor<16xf32>
  }
}
