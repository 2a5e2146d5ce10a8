// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard %s | FileCheck %s

// The mean of a partial product is taken first, so that a row is reduced and not the matrix.
// CHECK-LABEL: module @mean
// CHECK: stablehlo.dot_general {{.*}}unreduced={"x"}
// CHECK-NEXT: stablehlo.constant
// CHECK-NEXT: stablehlo.reduce{{.*}}unreduced={"x"}
// CHECK: stablehlo.divide {{.*}}unreduced={"x"}
// CHECK-NEXT: sdy.all_reduce {"x"} {{.*}} : tensor<32xf32>
// CHECK-NOT: sdy.all_reduce
module @mean {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %b: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<32xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<16x32xf32>, tensor<f32>) -> tensor<32xf32>
    %count = stablehlo.constant dense<16.0> : tensor<32xf32>
    %2 = stablehlo.divide %1, %count : tensor<32xf32>
    return %2 : tensor<32xf32>
  }
}

// -----

// A maximum is not linear, nor is a sum that starts from something, nor is what the constant is divided by.
// CHECK-LABEL: module @maximum
// CHECK: stablehlo.dot_general
// CHECK: sdy.all_reduce {"x"} {{.*}} : tensor<16x32xf32>
module @maximum {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %b: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<32xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %least) applies stablehlo.maximum across dimensions = [0] : (tensor<16x32xf32>, tensor<f32>) -> tensor<32xf32>
    return %1 : tensor<32xf32>
  }
}

// -----

// CHECK-LABEL: module @sum_from_one
// CHECK: stablehlo.dot_general
// CHECK: sdy.all_reduce {"x"} {{.*}} : tensor<16x32xf32>
module @sum_from_one {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %b: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<32xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %one) applies stablehlo.add across dimensions = [0] : (tensor<16x32xf32>, tensor<f32>) -> tensor<32xf32>
    return %1 : tensor<32xf32>
  }
}

// -----

// CHECK-LABEL: module @divided_by_it
// CHECK: stablehlo.dot_general
// CHECK: sdy.all_reduce
// CHECK: stablehlo.divide
module @divided_by_it {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %b: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<16x32xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %one = stablehlo.constant dense<1.0> : tensor<16x32xf32>
    %1 = stablehlo.divide %one, %0 : tensor<16x32xf32>
    return %1 : tensor<16x32xf32>
  }
}
