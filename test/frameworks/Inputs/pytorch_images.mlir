// Arguments: second.bias, second.weight, norm.running_var, norm.running_mean, norm.bias, norm.weight, first.bias, first.weight, 
module @IrToHlo.75 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<4x8x3x3xf32>, %arg2: tensor<8xf32>, %arg3: tensor<8xf32>, %arg4: tensor<8xf32>, %arg5: tensor<8xf32>, %arg6: tensor<8xf32>, %arg7: tensor<8x3x3x3xf32>, %arg8: tensor<2x3x44x10xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"x", "y"}, {}]>}) -> (tensor<2x4x11x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"x", "y"}, {}]>}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<2x8x44x10xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.convolution(%arg8, %arg7) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x3x44x10xf32>, tensor<8x3x3x3xf32>) -> tensor<2x8x44x10xf32>
    %1 = stablehlo.broadcast_in_dim %arg6, dims = [1] : (tensor<8xf32>) -> tensor<2x8x44x10xf32>
    %2 = stablehlo.add %0, %1 : tensor<2x8x44x10xf32>
    %3 = "stablehlo.batch_norm_inference"(%2, %arg5, %arg4, %arg3, %arg2) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<2x8x44x10xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8x44x10xf32>
    %4 = stablehlo.maximum %3, %cst : tensor<2x8x44x10xf32>
    %5 = "stablehlo.reduce_window"(%4, %cst_0) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
    ^bb0(%arg9: tensor<f32>, %arg10: tensor<f32>):
      %9 = stablehlo.maximum %arg9, %arg10 : tensor<f32>
      stablehlo.return %9 : tensor<f32>
    }) : (tensor<2x8x44x10xf32>, tensor<f32>) -> tensor<2x8x22x5xf32>
    %6 = stablehlo.convolution(%5, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x22x5xf32>, tensor<4x8x3x3xf32>) -> tensor<2x4x11x3xf32>
    %7 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<4xf32>) -> tensor<2x4x11x3xf32>
    %8 = stablehlo.add %6, %7 : tensor<2x4x11x3xf32>
    return %8 : tensor<2x4x11x3xf32>
  }
}
