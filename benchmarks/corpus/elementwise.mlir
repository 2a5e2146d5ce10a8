// Elementwise operations, broadcasts, reductions: what spreads first, and how far.

module @forward_and_backward {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64x128xf32>, %b: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<64x128xf32> {
    %0 = stablehlo.sine %a : tensor<64x128xf32>
    %1 = stablehlo.add %0, %b : tensor<64x128xf32>
    %2 = stablehlo.negate %1 : tensor<64x128xf32>
    return %2 : tensor<64x128xf32>
  }
}

// -----

module @axes_of_two_operands_are_merged {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {?}]>}, %b: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"y", ?}]>}) -> tensor<64x128xf32> {
    %0 = stablehlo.add %a, %b : tensor<64x128xf32>
    return %0 : tensor<64x128xf32>
  }
}

// -----

module @operands_disagree {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<64x128xf32> {
    %0 = stablehlo.add %a, %b : tensor<64x128xf32>
    %1 = stablehlo.tanh %0 : tensor<64x128xf32>
    return %1 : tensor<64x128xf32>
  }
}

// -----

module @operands_disagree_and_the_user_decides {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> (tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %0 = stablehlo.add %a, %b : tensor<64x128xf32>
    %1 = stablehlo.tanh %0 : tensor<64x128xf32>
    return %1 : tensor<64x128xf32>
  }
}

// -----

module @one_longer_than_the_other {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>}) -> tensor<64x128xf32> {
    %0 = stablehlo.multiply %a, %b : tensor<64x128xf32>
    return %0 : tensor<64x128xf32>
  }
}

// -----

module @bias_and_layer_norm {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %bias: tensor<128xf32>) -> tensor<64x128xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x128xf32>, tensor<f32>) -> tensor<64xf32>
    %mean = stablehlo.broadcast_in_dim %sum, dims = [0] : (tensor<64xf32>) -> tensor<64x128xf32>
    %centred = stablehlo.subtract %a, %mean : tensor<64x128xf32>
    %wide = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<128xf32>) -> tensor<64x128xf32>
    %0 = stablehlo.add %centred, %wide : tensor<64x128xf32>
    return %0 : tensor<64x128xf32>
  }
}

// -----

module @softmax {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<32x8x64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}, {?}, {?}]>}) -> tensor<32x8x64x64xf32> {
    %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %max = stablehlo.reduce(%a init: %least) applies stablehlo.maximum across dimensions = [3] : (tensor<32x8x64x64xf32>, tensor<f32>) -> tensor<32x8x64xf32>
    %wide = stablehlo.broadcast_in_dim %max, dims = [0, 1, 2] : (tensor<32x8x64xf32>) -> tensor<32x8x64x64xf32>
    %shifted = stablehlo.subtract %a, %wide : tensor<32x8x64x64xf32>
    %exp = stablehlo.exponential %shifted : tensor<32x8x64x64xf32>
    %sum = stablehlo.reduce(%exp init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<32x8x64x64xf32>, tensor<f32>) -> tensor<32x8x64xf32>
    %norm = stablehlo.broadcast_in_dim %sum, dims = [0, 1, 2] : (tensor<32x8x64xf32>) -> tensor<32x8x64x64xf32>
    %0 = stablehlo.divide %exp, %norm : tensor<32x8x64x64xf32>
    return %0 : tensor<32x8x64x64xf32>
  }
}

// -----

module @one_constant_in_two_regions {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) -> (tensor<64x128xf32>, tensor<64x128xf32>) {
    %one = stablehlo.constant dense<1.0> : tensor<64x128xf32>
    %0 = stablehlo.add %a, %one : tensor<64x128xf32>
    %1 = stablehlo.add %b, %one : tensor<64x128xf32>
    return %0, %1 : tensor<64x128xf32>, tensor<64x128xf32>
  }
}

// -----

module @constraint_in_the_middle {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>}) -> tensor<64x128xf32> {
    %0 = stablehlo.sine %a : tensor<64x128xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {"y"}]> : tensor<64x128xf32>
    %2 = stablehlo.cosine %1 : tensor<64x128xf32>
    %3 = stablehlo.add %2, %0 : tensor<64x128xf32>
    return %3 : tensor<64x128xf32>
  }
}

// -----

module @outer_sum {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<64x128xf32> {
    %0 = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<64xf32>) -> tensor<64x128xf32>
    %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<128xf32>) -> tensor<64x128xf32>
    %2 = stablehlo.add %0, %1 : tensor<64x128xf32>
    return %2 : tensor<64x128xf32>
  }
}
