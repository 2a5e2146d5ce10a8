// What is padded is needed whole, too, by a constraint: ours padded parts and gathered these. Case 319 of seed 31002.
// gspmd sent 37.3 KiB: 2 all_gather over x.
// XLA GSPMD sent 12.0 KiB: 1 all_gather over x.
// XLA Shardy sent 12.0 KiB: 1 all_gather over x.
module @jit_forward attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%arg0: tensor<64x64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}) -> (tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<135x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.cosine %arg0 : tensor<64x64x16xf32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<64x64x16xf32>, tensor<f32>) -> tensor<64x64xf32>
    %2 = stablehlo.sine %1 : tensor<64x64xf32>
    %3 = sdy.sharding_constraint %2 <@mesh, [{}, {}]> : tensor<64x64xf32>
    %4 = stablehlo.pad %2, %cst, low = [0, 3], high = [0, 5], interior = [0, 1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x135xf32>
    %5 = stablehlo.multiply %4, %4 : tensor<64x135xf32>
    %6 = stablehlo.transpose %5, dims = [1, 0] : (tensor<64x135xf32>) -> tensor<135x64xf32>
    %7 = stablehlo.exponential %2 : tensor<64x64xf32>
    return %3, %6, %7 : tensor<64x64xf32>, tensor<135x64xf32>, tensor<64x64xf32>
  }
}
