// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard=target=%S/bytes-only.toml --gspmd-localize --cse %s | FileCheck %s

// The mean is that of all devices, and so is the variance about it: one all-reduce of sums each, divided by the number
// of elements in the whole batch.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NOT: stablehlo.select
// CHECK: stablehlo.reduce(%arg0
// CHECK: "stablehlo.all_reduce"
// CHECK: %[[COUNT:.*]] = stablehlo.constant dense<8.000000e+00>
// CHECK: %[[MEAN:[0-9]+]] = stablehlo.divide %{{.*}}, %[[COUNT]]
// CHECK: stablehlo.subtract %arg0
// CHECK: "stablehlo.all_reduce"
// CHECK: %[[VARIANCE:[0-9]+]] = stablehlo.divide %{{.*}}, %[[COUNT]]
// CHECK-NOT: "stablehlo.all_reduce"
// CHECK: return %{{.*}}, %[[MEAN]], %[[VARIANCE]]
func.func public @main(
    %x: tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %s: tensor<3xf32>, %o: tensor<3xf32>)
    -> (tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, tensor<3xf32>, tensor<3xf32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %s, %o) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}>
    : (tensor<8x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<8x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1, %0#2 : tensor<8x3xf32>, tensor<3xf32>, tensor<3xf32>
}

// -----

// An uneven batch: padding counts as zero in the sums of values, and again in the sums of squares, where a zero less
// the mean would not be zero any more.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[INSIDE:[0-9]+]] = stablehlo.compare LT
// CHECK: %[[VALUES:[0-9]+]] = stablehlo.select %[[INSIDE]], %arg0
// CHECK: stablehlo.reduce(%[[VALUES]]
// CHECK: "stablehlo.all_reduce"
// CHECK: stablehlo.constant dense<6.000000e+00>
// CHECK: %[[SQUARES:[0-9]+]] = stablehlo.select %[[INSIDE]]
// CHECK: stablehlo.reduce(%[[SQUARES]]
// CHECK: "stablehlo.all_reduce"
func.func public @main(
    %x: tensor<6x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %s: tensor<3xf32>, %o: tensor<3xf32>)
    -> (tensor<6x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, tensor<3xf32>, tensor<3xf32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %s, %o) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}>
    : (tensor<6x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<6x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1, %0#2 : tensor<6x3xf32>, tensor<3xf32>, tensor<3xf32>
}

// -----

// The gradients come from two sums, of the gradient and of its products with the centered operand. Both are in one
// all-reduce.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[PRODUCTS:[0-9]+]] = stablehlo.multiply %{{.*}}, %arg4
// CHECK: %[[FIRST:[0-9]+]] = stablehlo.select %{{.*}}, %arg4
// CHECK: %[[SECOND:[0-9]+]] = stablehlo.select %{{.*}}, %[[PRODUCTS]]
// CHECK: stablehlo.reduce(%[[FIRST]]
// CHECK: stablehlo.reduce(%[[SECOND]]
// CHECK: %[[BOTH:[0-9]+]] = stablehlo.concatenate
// CHECK: "stablehlo.all_reduce"(%[[BOTH]])
// CHECK: gspmd.axes = "\22x\22"
// CHECK-SAME: tensor<2x3xf32>
// CHECK-NOT: "stablehlo.all_reduce"
func.func public @main(
    %x: tensor<6x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %s: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>,
    %g: tensor<6x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<6x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, tensor<3xf32>, tensor<3xf32>) {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}>
    : (tensor<6x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<6x3xf32>)
    -> (tensor<6x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1, %0#2 : tensor<6x3xf32>, tensor<3xf32>, tensor<3xf32>
}

// -----

// Split features have statistics of their own: the operation stays as it is, of fewer features.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: "stablehlo.batch_norm_training"(%arg0, %arg1, %arg2)
// CHECK-SAME: (tensor<7x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<7x2xf32>, tensor<2xf32>, tensor<2xf32>)
// CHECK-NEXT: return
func.func public @main(
    %x: tensor<7x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
    %s: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
    %o: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<7x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
        tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
        tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %s, %o) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}>
    : (tensor<7x6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<7x6xf32>, tensor<6xf32>, tensor<6xf32>)
  return %0#0, %0#1, %0#2 : tensor<7x6xf32>, tensor<6xf32>, tensor<6xf32>
}

// -----

// Inference has its statistics given, and takes every element alone.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: "stablehlo.batch_norm_inference"
// CHECK-SAME: -> tensor<2x3xf32>
// CHECK-NEXT: return
func.func public @main(
    %x: tensor<6x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %s: tensor<3xf32>, %o: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>)
    -> (tensor<6x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = "stablehlo.batch_norm_inference"(%x, %s, %o, %m, %v) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}>
    : (tensor<6x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<6x3xf32>
  return %0 : tensor<6x3xf32>
}
