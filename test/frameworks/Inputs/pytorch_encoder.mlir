// Arguments: down.bias, down.weight, up.bias, up.weight, norm.weight, out.bias, out.weight, value.bias, value.weight, , key.bias, key.weight, query.bias, query.weight, norm.bias
module @IrToHlo.177 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func @main(%arg0: tensor<16xf32>, %arg1: tensor<16x36xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}, %arg2: tensor<36xf32>, %arg3: tensor<36x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}, %arg4: tensor<16xf32>, %arg5: tensor<16xf32>, %arg6: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}, %arg7: tensor<16xf32>, %arg8: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}, %arg9: tensor<4x12x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}, %arg10: tensor<16xf32>, %arg11: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}, %arg12: tensor<16xf32>, %arg13: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}, %arg14: tensor<16xf32>) -> (tensor<4x12x16xf32>) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<4x12x36xf32>
    %cst_0 = stablehlo.constant dense<0.707106769> : tensor<4x12x36xf32>
    %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<4x12x36xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<48xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<48xf32>
    %cst_4 = stablehlo.constant dense<0.707106769> : tensor<4x4x4x12xf32>
    %cst_5 = stablehlo.constant dense<0.707106769> : tensor<4x4x12x4xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reshape %arg9 : (tensor<4x12x16xf32>) -> tensor<48x16xf32>
    %1 = stablehlo.transpose %arg13, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,16]{0,1}"} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<48x16xf32>, tensor<16x16xf32>) -> tensor<48x16xf32>
    %3 = stablehlo.broadcast_in_dim %arg12, dims = [1] : (tensor<16xf32>) -> tensor<48x16xf32>
    %4 = stablehlo.add %2, %3 : tensor<48x16xf32>
    %5 = stablehlo.reshape %4 : (tensor<48x16xf32>) -> tensor<4x12x4x4xf32>
    %6 = stablehlo.transpose %5, dims = [0, 2, 1, 3] {result_layout = dense<[3, 1, 2, 0]> : tensor<4xindex>, xla_shape = "f32[4,4,12,4]{3,1,2,0}"} : (tensor<4x12x4x4xf32>) -> tensor<4x4x12x4xf32>
    %7 = stablehlo.multiply %6, %cst_5 : tensor<4x4x12x4xf32>
    %8 = stablehlo.reshape %7 : (tensor<4x4x12x4xf32>) -> tensor<16x12x4xf32>
    %9 = stablehlo.transpose %arg11, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,16]{0,1}"} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %10 = stablehlo.dot_general %0, %9, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<48x16xf32>, tensor<16x16xf32>) -> tensor<48x16xf32>
    %11 = stablehlo.broadcast_in_dim %arg10, dims = [1] : (tensor<16xf32>) -> tensor<48x16xf32>
    %12 = stablehlo.add %10, %11 : tensor<48x16xf32>
    %13 = stablehlo.reshape %12 : (tensor<48x16xf32>) -> tensor<4x12x4x4xf32>
    %14 = stablehlo.transpose %13, dims = [0, 2, 3, 1] : (tensor<4x12x4x4xf32>) -> tensor<4x4x4x12xf32>
    %15 = stablehlo.multiply %14, %cst_4 : tensor<4x4x4x12xf32>
    %16 = stablehlo.reshape %15 : (tensor<4x4x4x12xf32>) -> tensor<16x4x12xf32>
    %17 = stablehlo.dot_general %8, %16, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x12x4xf32>, tensor<16x4x12xf32>) -> tensor<16x12x12xf32>
    %18 = stablehlo.reshape %17 : (tensor<16x12x12xf32>) -> tensor<4x4x12x12xf32>
    %19 = stablehlo.reduce(%18 init: %cst_6) applies stablehlo.maximum across dimensions = [3] : (tensor<4x4x12x12xf32>, tensor<f32>) -> tensor<4x4x12xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2] : (tensor<4x4x12xf32>) -> tensor<4x4x12x12xf32>
    %21 = stablehlo.subtract %18, %20 : tensor<4x4x12x12xf32>
    %22 = stablehlo.exponential %21 : tensor<4x4x12x12xf32>
    %23 = stablehlo.reduce(%22 init: %cst_7) applies stablehlo.add across dimensions = [3] : (tensor<4x4x12x12xf32>, tensor<f32>) -> tensor<4x4x12xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<4x4x12xf32>) -> tensor<4x4x12x12xf32>
    %25 = stablehlo.divide %22, %24 : tensor<4x4x12x12xf32>
    %26 = stablehlo.reshape %25 : (tensor<4x4x12x12xf32>) -> tensor<16x12x12xf32>
    %27 = stablehlo.transpose %arg8, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,16]{0,1}"} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %28 = stablehlo.dot_general %0, %27, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<48x16xf32>, tensor<16x16xf32>) -> tensor<48x16xf32>
    %29 = stablehlo.broadcast_in_dim %arg7, dims = [1] : (tensor<16xf32>) -> tensor<48x16xf32>
    %30 = stablehlo.add %28, %29 : tensor<48x16xf32>
    %31 = stablehlo.reshape %30 : (tensor<48x16xf32>) -> tensor<4x12x4x4xf32>
    %32 = stablehlo.transpose %31, dims = [0, 2, 1, 3] {result_layout = dense<[3, 1, 2, 0]> : tensor<4xindex>, xla_shape = "f32[4,4,12,4]{3,1,2,0}"} : (tensor<4x12x4x4xf32>) -> tensor<4x4x12x4xf32>
    %33 = stablehlo.reshape %32 : (tensor<4x4x12x4xf32>) -> tensor<16x12x4xf32>
    %34 = stablehlo.dot_general %26, %33, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x12x12xf32>, tensor<16x12x4xf32>) -> tensor<16x12x4xf32>
    %35 = stablehlo.reshape %34 : (tensor<16x12x4xf32>) -> tensor<4x4x12x4xf32>
    %36 = stablehlo.transpose %35, dims = [0, 2, 1, 3] {result_layout = dense<[3, 1, 2, 0]> : tensor<4xindex>, xla_shape = "f32[4,12,4,4]{3,1,2,0}"} : (tensor<4x4x12x4xf32>) -> tensor<4x12x4x4xf32>
    %37 = stablehlo.reshape %36 : (tensor<4x12x4x4xf32>) -> tensor<4x12x16xf32>
    %38 = stablehlo.transpose %arg6, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,16]{0,1}"} : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [1, 2] : (tensor<16x16xf32>) -> tensor<4x16x16xf32>
    %40 = stablehlo.dot_general %37, %39, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x12x16xf32>, tensor<4x16x16xf32>) -> tensor<4x12x16xf32>
    %41 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<16xf32>) -> tensor<4x12x16xf32>
    %42 = stablehlo.add %40, %41 : tensor<4x12x16xf32>
    %43 = stablehlo.add %arg9, %42 : tensor<4x12x16xf32>
    %44 = stablehlo.reshape %43 : (tensor<4x12x16xf32>) -> tensor<1x48x16xf32>
    %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%44, %cst_3, %cst_2) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x48x16xf32>, tensor<48xf32>, tensor<48xf32>) -> (tensor<1x48x16xf32>, tensor<48xf32>, tensor<48xf32>)
    %45 = stablehlo.broadcast_in_dim %arg14, dims = [2] : (tensor<16xf32>) -> tensor<4x12x16xf32>
    %46 = stablehlo.reshape %output : (tensor<1x48x16xf32>) -> tensor<4x12x16xf32>
    %47 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<16xf32>) -> tensor<4x12x16xf32>
    %48 = stablehlo.multiply %46, %47 : tensor<4x12x16xf32>
    %49 = stablehlo.add %45, %48 : tensor<4x12x16xf32>
    %50 = stablehlo.reshape %49 : (tensor<4x12x16xf32>) -> tensor<48x16xf32>
    %51 = stablehlo.transpose %arg3, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[16,36]{0,1}"} : (tensor<36x16xf32>) -> tensor<16x36xf32>
    %52 = stablehlo.dot_general %50, %51, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<48x16xf32>, tensor<16x36xf32>) -> tensor<48x36xf32>
    %53 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<36xf32>) -> tensor<48x36xf32>
    %54 = stablehlo.add %52, %53 : tensor<48x36xf32>
    %55 = stablehlo.reshape %54 : (tensor<48x36xf32>) -> tensor<4x12x36xf32>
    %56 = stablehlo.multiply %55, %cst_1 : tensor<4x12x36xf32>
    %57 = stablehlo.multiply %55, %cst_0 : tensor<4x12x36xf32>
    %58 = stablehlo.custom_call @mhlo.erf(%57) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<4x12x36xf32>) -> tensor<4x12x36xf32>
    %59 = stablehlo.add %58, %cst : tensor<4x12x36xf32>
    %60 = stablehlo.multiply %56, %59 : tensor<4x12x36xf32>
    %61 = stablehlo.reshape %60 : (tensor<4x12x36xf32>) -> tensor<48x36xf32>
    %62 = stablehlo.transpose %arg1, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[36,16]{0,1}"} : (tensor<16x36xf32>) -> tensor<36x16xf32>
    %63 = stablehlo.dot_general %61, %62, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<48x36xf32>, tensor<36x16xf32>) -> tensor<48x16xf32>
    %64 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<16xf32>) -> tensor<48x16xf32>
    %65 = stablehlo.add %63, %64 : tensor<48x16xf32>
    %66 = stablehlo.reshape %65 : (tensor<48x16xf32>) -> tensor<4x12x16xf32>
    %67 = stablehlo.add %49, %66 : tensor<4x12x16xf32>
    return %67 : tensor<4x12x16xf32>
  }
}
