// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard=target=%S/bytes-only.toml --gspmd-localize --cse %s | FileCheck %s

// Windows along another dimension than the split one stay within their rows.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: "stablehlo.select_and_scatter"(%arg0, %arg1, %{{.*}})
// CHECK: (tensor<2x4xf32>, tensor<2x2xf32>, tensor<f32>) -> tensor<2x4xf32>
// CHECK-NEXT: return
func.func public @main(
    %a: tensor<6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %gradient: tensor<6x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%a, %gradient, %zero) <{
    window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>
  }> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %1 = stablehlo.compare GE, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %1 = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<6x4xf32>, tensor<6x2xf32>, tensor<f32>) -> tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
}

// -----

// The gradient of pooling by twos: windows tile the shards, and nothing is sent.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NOT: stablehlo.collective_permute
// CHECK: "stablehlo.select_and_scatter"(%arg0, %arg1, %{{.*}})
// CHECK: (tensor<4xf32>, tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK-NEXT: return
func.func public @main(
    %a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
    %gradient: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%a, %gradient, %zero) <{
    window_dimensions = array<i64: 2>, window_strides = array<i64: 2>
  }> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %1 = stablehlo.compare GE, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %1 = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<16xf32>, tensor<8xf32>, tensor<f32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// -----

// Windows of three that overlap: an element of a shard may be chosen by the two windows that begin before it. So every
// device gets the gradients of two windows and the elements that all of its windows see, two on each side, computes
// all of these windows, and keeps the part that is its own. There are 14 windows: gradients of others are zero.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[COME:[0-9]+]] = "stablehlo.collective_permute"{{.*}} -> tensor<2xf32>
// CHECK: %[[SOURCES:[0-9]+]] = stablehlo.concatenate %[[COME]], %arg1
// CHECK: %[[THERE:[0-9]+]] = stablehlo.and
// CHECK: %[[GRADIENTS:[0-9]+]] = stablehlo.select %[[THERE]], %[[SOURCES]]
// CHECK: %[[LEFT:[0-9]+]] = "stablehlo.collective_permute"{{.*}} -> tensor<2xf32>
// CHECK: %[[RIGHT:[0-9]+]] = "stablehlo.collective_permute"{{.*}} -> tensor<2xf32>
// CHECK: %[[WIDE:[0-9]+]] = stablehlo.concatenate %[[LEFT]], %arg0, %[[RIGHT]]
// CHECK: %[[MADE:[0-9]+]] = "stablehlo.select_and_scatter"(%[[WIDE]], %[[GRADIENTS]]
// CHECK: (tensor<8xf32>, tensor<6xf32>, tensor<f32>) -> tensor<8xf32>
// CHECK-NEXT: stablehlo.slice %[[MADE]] [2:6]
// CHECK-NEXT: return
func.func public @main(
    %a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
    %gradient: tensor<14xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%a, %gradient, %zero) <{
    window_dimensions = array<i64: 3>, window_strides = array<i64: 1>
  }> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %1 = stablehlo.compare GE, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %1 = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<16xf32>, tensor<14xf32>, tensor<f32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}
