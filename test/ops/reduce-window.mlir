// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard=target=%S/bytes-only.toml --gspmd-localize --cse %s | FileCheck %s

// Windows along another dimension than the split one stay within their rows.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: "stablehlo.reduce_window"(%arg0
// CHECK-SAME: window_dimensions = array<i64: 1, 3>
// CHECK: (tensor<2x9xi32>, tensor<i32>) -> tensor<2x7xi32>
// CHECK-NEXT: return
func.func public @main(%a: tensor<6x9xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<6x7xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = "stablehlo.reduce_window"(%a, %zero) <{window_dimensions = array<i64: 1, 3>}> ({
  ^bb0(%l: tensor<i32>, %r: tensor<i32>):
    %1 = stablehlo.add %l, %r : tensor<i32>
    stablehlo.return %1 : tensor<i32>
  }) : (tensor<6x9xi32>, tensor<i32>) -> tensor<6x7xi32>
  return %0 : tensor<6x7xi32>
}

// -----

// Pooling by twos: the windows tile the shards, and nothing is sent.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NOT: stablehlo.collective_permute
// CHECK: "stablehlo.reduce_window"(%arg0
// CHECK: (tensor<4xf32>, tensor<f32>) -> tensor<2xf32>
// CHECK-NEXT: return
func.func public @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%a, %low) <{
    window_dimensions = array<i64: 2>, window_strides = array<i64: 2>
  }> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %1 = stablehlo.maximum %l, %r : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<16xf32>, tensor<f32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Windows of three around every element need one of each neighbour. What lies before the first of the 14 elements or
// behind the last, be it padding of the windows or of the last shard, becomes minus infinity; the windows themselves
// have no padding any more.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[LEFT:[0-9]+]] = "stablehlo.collective_permute"{{.*}}{{\[}}[0, 1], [1, 2], [2, 3]]
// CHECK: %[[RIGHT:[0-9]+]] = "stablehlo.collective_permute"{{.*}}{{\[}}[1, 0], [2, 1], [3, 2]]
// CHECK: %[[WIDE:[0-9]+]] = stablehlo.concatenate %[[LEFT]], %arg0, %[[RIGHT]]
// CHECK: %[[MASKED:[0-9]+]] = stablehlo.select %{{.*}}, %[[WIDE]]
// CHECK: "stablehlo.reduce_window"(%[[MASKED]]
// CHECK-SAME: padding = dense<0>
// CHECK: (tensor<6xf32>, tensor<f32>) -> tensor<4xf32>
func.func public @main(%a: tensor<14xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<14xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%a, %low) <{
    window_dimensions = array<i64: 3>, padding = dense<[[1, 1]]> : tensor<1x2xi64>
  }> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %1 = stablehlo.maximum %l, %r : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<14xf32>, tensor<f32>) -> tensor<14xf32>
  return %0 : tensor<14xf32>
}

// -----

// A running sum: every window begins at the first element. Devices gather each other's totals, one number of each, and
// add those of the shards before their own to their own running sum.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[TOTAL:[0-9]+]] = "stablehlo.reduce_window"(%arg0
// CHECK: -> tensor<1xi32>
// CHECK: %[[TOTALS:[0-9]+]] = "stablehlo.all_gather"(%[[TOTAL]])
// CHECK-SAME: -> tensor<4xi32>
// CHECK: %[[BEFORE:[0-9]+]] = stablehlo.compare LT
// CHECK: %[[COUNTED:[0-9]+]] = stablehlo.select %[[BEFORE]], %[[TOTALS]]
// CHECK: "stablehlo.reduce_window"(%[[COUNTED]]
// CHECK: %[[OWN:[0-9]+]] = "stablehlo.reduce_window"(%arg0
// CHECK-SAME: window_dimensions = array<i64: 4>
// CHECK: stablehlo.add %{{.*}}, %[[OWN]]
// CHECK-NOT: "stablehlo.collective_permute"
func.func public @main(%a: tensor<16xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<16xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = "stablehlo.reduce_window"(%a, %zero) <{
    window_dimensions = array<i64: 16>, padding = dense<[[15, 0]]> : tensor<1x2xi64>
  }> ({
  ^bb0(%l: tensor<i32>, %r: tensor<i32>):
    %1 = stablehlo.add %l, %r : tensor<i32>
    stablehlo.return %1 : tensor<i32>
  }) : (tensor<16xi32>, tensor<i32>) -> tensor<16xi32>
  return %0 : tensor<16xi32>
}

// -----

// A single window over the dimension is a reduction: partial results, and an all-reduce. The padding of the last shard
// does not count.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[INSIDE:[0-9]+]] = stablehlo.and
// CHECK: %[[MASKED:[0-9]+]] = stablehlo.select %[[INSIDE]], %arg0
// CHECK: %[[PARTIAL:[0-9]+]] = "stablehlo.reduce_window"(%[[MASKED]]
// CHECK-SAME: window_dimensions = array<i64: 4>
// CHECK: "stablehlo.all_reduce"(%[[PARTIAL]])
// CHECK: gspmd.axes = "\22x\22"
func.func public @main(%a: tensor<14xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<1xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = "stablehlo.reduce_window"(%a, %zero) <{window_dimensions = array<i64: 14>}> ({
  ^bb0(%l: tensor<i32>, %r: tensor<i32>):
    %1 = stablehlo.add %l, %r : tensor<i32>
    stablehlo.return %1 : tensor<i32>
  }) : (tensor<14xi32>, tensor<i32>) -> tensor<1xi32>
  return %0 : tensor<1xi32>
}

// -----

// A running combination by several operations, here a logarithm of sums: totals of shards are gathered, and the body
// combines them with what each device has.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[TOTAL:[0-9]+]] = "stablehlo.reduce_window"(%arg0
// CHECK: %[[TOTALS:[0-9]+]] = "stablehlo.all_gather"(%[[TOTAL]])
// CHECK-SAME: (tensor<1x2xf32>) -> tensor<4x2xf32>
// CHECK: %[[OTHERS:[0-9]+]] = "stablehlo.reduce_window"(
// CHECK: %[[OWN:[0-9]+]] = "stablehlo.reduce_window"(%arg0
// CHECK: %[[SPREAD:[0-9]+]] = stablehlo.broadcast_in_dim %[[OTHERS]]
// CHECK: "stablehlo.map"(%[[SPREAD]], %[[OWN]])
// CHECK-NOT: "stablehlo.collective_permute"
func.func public @main(%a: tensor<16x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<16x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %none = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%a, %none) <{
    window_dimensions = array<i64: 16, 1>, padding = dense<[[15, 0], [0, 0]]> : tensor<2x2xi64>
  }> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %1 = stablehlo.exponential %l : tensor<f32>
    %2 = stablehlo.exponential %r : tensor<f32>
    %3 = stablehlo.add %1, %2 : tensor<f32>
    %4 = stablehlo.log %3 : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }) : (tensor<16x2xf32>, tensor<f32>) -> tensor<16x2xf32>
  return %0 : tensor<16x2xf32>
}

// -----

// A window that spans more than there is: there are no results, and nothing is sent for them.

sdy.mesh @mesh = <["x"=2]>

// CHECK-LABEL: func.func public @main
// CHECK: constant dense<0> : tensor<0x2xi32>
// CHECK-NOT: gspmd.axes
func.func public @main(%a: tensor<3x4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<0x4xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = "stablehlo.reduce_window"(%a, %zero) <{
    window_dimensions = array<i64: 5, 1>, window_strides = array<i64: 1, 1>
  }> ({
  ^bb0(%l: tensor<i32>, %r: tensor<i32>):
    %1 = stablehlo.add %l, %r : tensor<i32>
    stablehlo.return %1 : tensor<i32>
  }) : (tensor<3x4xi32>, tensor<i32>) -> tensor<0x4xi32>
  return %0 : tensor<0x4xi32>
}
