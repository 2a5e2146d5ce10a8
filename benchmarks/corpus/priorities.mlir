// What only Shardy has words for: user priorities, axes that stay free, groups, barriers, manual computations.

module @data_before_model {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}p0, {?}p0]>}, %w: tensor<128x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}p1, {"x"}p1]>}) -> tensor<64x512xf32> {
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x512xf32>) -> tensor<64x512xf32>
    %1 = stablehlo.tanh %0 : tensor<64x512xf32>
    return %1 : tensor<64x512xf32>
  }
}

// -----

module @model_before_data {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}p1, {?}p1]>}, %w: tensor<128x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}p0, {"x"}p0]>}) -> tensor<64x512xf32> {
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x512xf32>) -> tensor<64x512xf32>
    %1 = stablehlo.tanh %0 : tensor<64x512xf32>
    return %1 : tensor<64x512xf32>
  }
}

// -----

module @axis_that_stays_free {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<64x128xf32> {
    %0 = stablehlo.sine %a : tensor<64x128xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{?}, {?}], replicated={"y"}> : tensor<64x128xf32>
    %2 = stablehlo.cosine %1 : tensor<64x128xf32>
    return %2 : tensor<64x128xf32>
  }
}

// -----

module @group_of_two_values {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %b: tensor<64x128xf32>) -> (tensor<64x128xf32>, tensor<64x128xf32>) {
    %0 = stablehlo.sine %a : tensor<64x128xf32>
    %1 = stablehlo.cosine %b : tensor<64x128xf32>
    sdy.sharding_group %0 group_id = 0 : tensor<64x128xf32>
    sdy.sharding_group %1 group_id = 0 : tensor<64x128xf32>
    return %0, %1 : tensor<64x128xf32>, tensor<64x128xf32>
  }
}

// -----

module @barrier_forward {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>}, %b: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"y"}]>}) -> tensor<64x128xf32> {
    %0 = stablehlo.sine %a : tensor<64x128xf32>
    %1 = sdy.propagation_barrier %0 allowed_direction=FORWARD : tensor<64x128xf32>
    %2 = stablehlo.add %1, %b : tensor<64x128xf32>
    return %2 : tensor<64x128xf32>
  }
}

// -----

module @free_axes_through_a_manual_computation {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<64x128xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}, {?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%b: tensor<16x128xf32>) {
      %2 = stablehlo.sine %b : tensor<16x128xf32>
      sdy.return %2 : tensor<16x128xf32>
    } : (tensor<64x128xf32>) -> tensor<64x128xf32>
    %1 = stablehlo.cosine %0 : tensor<64x128xf32>
    return %1 : tensor<64x128xf32>
  }
}
