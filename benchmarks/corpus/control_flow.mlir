// Loops and branches: one sharding for what is carried, from wherever it is said.

module @carry_from_its_start {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<64x128xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<64x128xf32>
    cond {
      %n = stablehlo.constant dense<8> : tensor<i32>
      %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %new = stablehlo.sine %c : tensor<64x128xf32>
      stablehlo.return %next, %new : tensor<i32>, tensor<64x128xf32>
    }
    return %0#1 : tensor<64x128xf32>
  }
}

// -----

module @carry_from_inside_the_body {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64x128xf32>, %w: tensor<128x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"y"}]>}) -> tensor<64x128xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<64x128xf32>
    cond {
      %n = stablehlo.constant dense<8> : tensor<i32>
      %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %dot = stablehlo.dot_general %c, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
      %new = sdy.sharding_constraint %dot <@mesh, [{"x"}, {}]> : tensor<64x128xf32>
      stablehlo.return %next, %new : tensor<i32>, tensor<64x128xf32>
    }
    return %0#1 : tensor<64x128xf32>
  }
}

// -----

module @stacked_layers {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %ws: tensor<8x128x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {?}, {"y"}]>}) -> tensor<64x128xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<64x128xf32>
    cond {
      %n = stablehlo.constant dense<8> : tensor<i32>
      %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %first = stablehlo.constant dense<0> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %cut = stablehlo.dynamic_slice %ws, %i, %first, %first, sizes = [1, 128, 128] : (tensor<8x128x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x128x128xf32>
      %w = stablehlo.reshape %cut : (tensor<1x128x128xf32>) -> tensor<128x128xf32>
      %dot = stablehlo.dot_general %c, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
      %new = stablehlo.tanh %dot : tensor<64x128xf32>
      stablehlo.return %next, %new : tensor<i32>, tensor<64x128xf32>
    }
    return %0#1 : tensor<64x128xf32>
  }
}

// -----

module @branches {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%which: tensor<i32>, %a: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<64x128xf32> {
    %0 = "stablehlo.case"(%which) ({
      %1 = stablehlo.sine %a : tensor<64x128xf32>
      stablehlo.return %1 : tensor<64x128xf32>
    }, {
      %2 = stablehlo.cosine %a : tensor<64x128xf32>
      stablehlo.return %2 : tensor<64x128xf32>
    }) : (tensor<i32>) -> tensor<64x128xf32>
    %3 = stablehlo.negate %0 : tensor<64x128xf32>
    return %3 : tensor<64x128xf32>
  }
}

// -----

module @accumulated_gradient {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%xs: tensor<8x64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) -> tensor<128x128xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<128x128xf32>
    %0:2 = stablehlo.while(%i = %zero, %sum = %start) : tensor<i32>, tensor<128x128xf32>
    cond {
      %n = stablehlo.constant dense<8> : tensor<i32>
      %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %first = stablehlo.constant dense<0> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %cut = stablehlo.dynamic_slice %xs, %i, %first, %first, sizes = [1, 64, 128] : (tensor<8x64x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x128xf32>
      %x = stablehlo.reshape %cut : (tensor<1x64x128xf32>) -> tensor<64x128xf32>
      %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<128x128xf32>
      %new = stablehlo.add %sum, %g : tensor<128x128xf32>
      stablehlo.return %next, %new : tensor<i32>, tensor<128x128xf32>
    }
    return %0#1 : tensor<128x128xf32>
  }
}
