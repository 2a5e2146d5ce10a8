// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard=target=%S/bytes-only.toml --gspmd-localize --cse %s | FileCheck %s

// A kept dimension needs nothing, even where it is uneven: what is computed of padding stays padding.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NOT: stablehlo.select
// CHECK: stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add across dimensions = [1]
// CHECK-SAME: (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
// CHECK-NEXT: return
func.func public @main(%a: tensor<6x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<6x5xf32>, tensor<f32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

// A reduced dimension leaves partial results, which an all-reduce of the same kind combines. Shards are full, so that
// there is no mask.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NOT: stablehlo.select
// CHECK: %[[PARTIAL:[0-9]+]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.multiply
// CHECK: "stablehlo.all_reduce"(%[[PARTIAL]])
// CHECK: stablehlo.multiply
// CHECK: gspmd.axes = "\22x\22"
func.func public @main(%a: tensor<3x8xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<3xi32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.reduce(%a init: %one) applies stablehlo.multiply across dimensions = [1]
    : (tensor<3x8xi32>, tensor<i32>) -> tensor<3xi32>
  return %0 : tensor<3xi32>
}

// -----

// Six columns on four devices: the last device has none. What is beyond the last column becomes the reducer's neutral
// element, which is one for a product.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[INSIDE:[0-9]+]] = stablehlo.compare LT
// CHECK: %[[NEUTRAL:.*]] = stablehlo.constant dense<1> : tensor<3x2xi32>
// CHECK: %[[MASKED:[0-9]+]] = stablehlo.select %[[INSIDE]], %arg0, %[[NEUTRAL]]
// CHECK: %[[PARTIAL:[0-9]+]] = stablehlo.reduce(%[[MASKED]] init: %{{.*}}) applies stablehlo.multiply
// CHECK: "stablehlo.all_reduce"(%[[PARTIAL]])
func.func public @main(%a: tensor<3x6xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<3xi32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.reduce(%a init: %one) applies stablehlo.multiply across dimensions = [1]
    : (tensor<3x6xi32>, tensor<i32>) -> tensor<3xi32>
  return %0 : tensor<3xi32>
}

// -----

// A sum that starts from some value must count it once: the first device adds it, the others add zero.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[ZERO:.*]] = stablehlo.constant dense<-0.000000e+00> : tensor<f32>
// CHECK: %[[FIRST:[0-9]+]] = stablehlo.compare EQ
// CHECK: %[[START:[0-9]+]] = stablehlo.select %[[FIRST]], %arg1, %[[ZERO]]
// CHECK: %[[SUM:[0-9]+]] = stablehlo.reduce(%arg0 init: %[[ZERO]]) applies stablehlo.add
// CHECK: %[[PARTIAL:[0-9]+]] = stablehlo.add %[[SUM]], %[[START]]
// CHECK: "stablehlo.all_reduce"(%[[PARTIAL]])
func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %start: tensor<f32>)
    -> tensor<f32> {
  %0 = stablehlo.reduce(%a init: %start) applies stablehlo.add across dimensions = [0]
    : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// A maximum may meet its start any number of times, so that every device takes it.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NOT: stablehlo.partition_id
// CHECK: %[[MOST:[0-9]+]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.maximum
// CHECK: stablehlo.maximum %[[MOST]], %arg1
// CHECK: "stablehlo.all_reduce"
// CHECK: stablehlo.maximum
func.func public @main(%a: tensor<8xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %start: tensor<i32>)
    -> tensor<i32> {
  %0 = stablehlo.reduce(%a init: %start) applies stablehlo.maximum across dimensions = [0]
    : (tensor<8xi32>, tensor<i32>) -> tensor<i32>
  return %0 : tensor<i32>
}

// -----

// No all-reduce performs an argmax: the best of every shard are gathered, and reduced once more in the same way.
// Padding becomes the initial values, which the reducer may choose any number of times.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[VALUES:[0-9]+]] = stablehlo.select %{{.*}}, %arg0
// CHECK: %[[PLACES:[0-9]+]] = stablehlo.select %{{.*}}, %arg1
// CHECK: stablehlo.reduce(%[[VALUES]] init: %{{.*}}), (%[[PLACES]] init: %{{.*}})
// CHECK-COUNT-2: "stablehlo.all_gather"{{.*}} -> tensor<4x{{f32|i32}}>
// CHECK: stablehlo.reduce({{.*}}) across dimensions = [0] : (tensor<4xf32>, tensor<4xi32>
// CHECK: stablehlo.compare GT
// CHECK-NOT: "stablehlo.all_reduce"
func.func public @main(
    %a: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
    %b: tensor<6xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<f32>, tensor<i32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.reduce(%a init: %low), (%b init: %zero) across dimensions = [0]
    : (tensor<6xf32>, tensor<6xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
   reducer(%v: tensor<f32>, %w: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
    %g = stablehlo.compare GT, %v, %w : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %m = stablehlo.select %g, %v, %w : tensor<i1>, tensor<f32>
    %k = stablehlo.select %g, %i, %j : tensor<i1>, tensor<i32>
    stablehlo.return %m, %k : tensor<f32>, tensor<i32>
  }
  return %0#0, %0#1 : tensor<f32>, tensor<i32>
}

// -----

// Of this reducer, ab + a + b, no neutral element is known. So every element is marked as being there or not, the
// reducer is applied where both are, and the marks are gathered with the partial results. The initial value is one
// more of these.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[THERE:[0-9]+]] = stablehlo.select %{{.*}} : tensor<2xi1>, tensor<2xi1>
// CHECK: stablehlo.reduce(%arg0 init: %{{.*}}), (%[[THERE]] init: %{{.*}})
// CHECK: %[[BOTH:[0-9]+]] = stablehlo.and
// CHECK: stablehlo.multiply
// CHECK: stablehlo.select %[[BOTH]]
// CHECK: "stablehlo.all_gather"{{.*}} -> tensor<4xf32>
// CHECK: "stablehlo.all_gather"{{.*}} -> tensor<4xi1>
// CHECK: %[[START:[0-9]+]] = stablehlo.broadcast_in_dim %arg1
// CHECK: stablehlo.concatenate %[[START]], {{.*}} -> tensor<5xf32>
// CHECK: stablehlo.reduce({{.*}} (tensor<5xf32>, tensor<5xi1>
func.func public @main(%a: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %start: tensor<f32>)
    -> tensor<f32> {
  %0 = stablehlo.reduce(%a init: %start) across dimensions = [0] : (tensor<6xf32>, tensor<f32>) -> tensor<f32>
   reducer(%v: tensor<f32>, %w: tensor<f32>) {
    %p = stablehlo.multiply %v, %w : tensor<f32>
    %s = stablehlo.add %v, %w : tensor<f32>
    %q = stablehlo.add %p, %s : tensor<f32>
    stablehlo.return %q : tensor<f32>
  }
  return %0 : tensor<f32>
}
