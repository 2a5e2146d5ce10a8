// Reshapes, transposes, slices, gathers: dimensions that are split, merged, cut or looked up.

module @heads_are_split {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<16x32x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}, {"y"}]>}) -> tensor<16x8x32x8xf32> {
    %0 = stablehlo.reshape %a : (tensor<16x32x64xf32>) -> tensor<16x32x8x8xf32>
    %1 = stablehlo.transpose %0, dims = [0, 2, 1, 3] : (tensor<16x32x8x8xf32>) -> tensor<16x8x32x8xf32>
    return %1 : tensor<16x8x32x8xf32>
  }
}

// -----

module @heads_are_merged {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<16x8x32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}, {?}, {?}]>}) -> tensor<16x32x64xf32> {
    %0 = stablehlo.transpose %a, dims = [0, 2, 1, 3] : (tensor<16x8x32x8xf32>) -> tensor<16x32x8x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<16x32x8x8xf32>) -> tensor<16x32x64xf32>
    return %1 : tensor<16x32x64xf32>
  }
}

// -----

module @axis_larger_than_the_factor {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>}) -> tensor<2x32x16xf32> {
    %0 = stablehlo.reshape %a : (tensor<64x16xf32>) -> tensor<2x32x16xf32>
    %1 = stablehlo.tanh %0 : tensor<2x32x16xf32>
    return %1 : tensor<2x32x16xf32>
  }
}

// -----

module @microbatches {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<16x4x128xf32> {
    %0 = stablehlo.reshape %a : (tensor<64x128xf32>) -> tensor<16x4x128xf32>
    %1 = stablehlo.tanh %0 : tensor<16x4x128xf32>
    return %1 : tensor<16x4x128xf32>
  }
}

// -----

module @embedding {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%table: tensor<1024x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {?}]>}, %ids: tensor<32x16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}, {}]>}) -> tensor<32x16x64xf32> {
    %0 = "stablehlo.gather"(%table, %ids) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 64>}> : (tensor<1024x64xf32>, tensor<32x16x1xi32>) -> tensor<32x16x64xf32>
    %1 = stablehlo.tanh %0 : tensor<32x16x64xf32>
    return %1 : tensor<32x16x64xf32>
  }
}

// -----

module @rotary_halves {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<16x32x8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}, {"y"}, {?}]>}) -> tensor<16x32x8x64xf32> {
    %0 = stablehlo.slice %a [0:16, 0:32, 0:8, 0:32] : (tensor<16x32x8x64xf32>) -> tensor<16x32x8x32xf32>
    %1 = stablehlo.slice %a [0:16, 0:32, 0:8, 32:64] : (tensor<16x32x8x64xf32>) -> tensor<16x32x8x32xf32>
    %2 = stablehlo.negate %1 : tensor<16x32x8x32xf32>
    %3 = stablehlo.concatenate %2, %0, dim = 3 : (tensor<16x32x8x32xf32>, tensor<16x32x8x32xf32>) -> tensor<16x32x8x64xf32>
    return %3 : tensor<16x32x8x64xf32>
  }
}

// -----

module @fused_projection_is_cut {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<32x384xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> (tensor<32x128xf32>, tensor<32x128xf32>, tensor<32x128xf32>) {
    %0 = stablehlo.slice %a [0:32, 0:128] : (tensor<32x384xf32>) -> tensor<32x128xf32>
    %1 = stablehlo.slice %a [0:32, 128:256] : (tensor<32x384xf32>) -> tensor<32x128xf32>
    %2 = stablehlo.slice %a [0:32, 256:384] : (tensor<32x384xf32>) -> tensor<32x128xf32>
    %3 = stablehlo.tanh %0 : tensor<32x128xf32>
    %4 = stablehlo.tanh %1 : tensor<32x128xf32>
    %5 = stablehlo.tanh %2 : tensor<32x128xf32>
    return %3, %4, %5 : tensor<32x128xf32>, tensor<32x128xf32>, tensor<32x128xf32>
  }
}

// -----

module @shifted_tokens {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<32x64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.pad %a, %zero, low = [0, 1], high = [0, -1], interior = [0, 0] : (tensor<32x64xf32>, tensor<f32>) -> tensor<32x64xf32>
    %1 = stablehlo.tanh %0 : tensor<32x64xf32>
    return %1 : tensor<32x64xf32>
  }
}

// -----

module @sorted_along_the_split_dimension {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"x"}]>}) -> tensor<64x128xf32> {
    %0 = "stablehlo.sort"(%a) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %less = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    }) : (tensor<64x128xf32>) -> tensor<64x128xf32>
    %1 = stablehlo.tanh %0 : tensor<64x128xf32>
    return %1 : tensor<64x128xf32>
  }
}

// -----

module @convolution_of_an_image {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8x64x64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}, {?}, {?}]>}, %k: tensor<3x3x16x32xf32>) -> tensor<8x64x64x32xf32> {
    %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x64x64x16xf32>, tensor<3x3x16x32xf32>) -> tensor<8x64x64x32xf32>
    %1 = stablehlo.tanh %0 : tensor<8x64x64x32xf32>
    return %1 : tensor<8x64x64x32xf32>
  }
}
