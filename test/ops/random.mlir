// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard --gspmd-localize --cse %s | FileCheck %s

// Every device makes the bits of its own part. THREE_FRY makes two words of a counter, which lie beside each other in
// the first even dimension: the counter is moved on to where the device's rows begin, and one row of counters makes two
// rows of bits. The state afterwards has gone on by all 24 counters, on every device.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[BEGIN:[0-9]+]] = stablehlo.add %[[COUNTER:[0-9]+]], %{{.*}} : tensor<ui64>
// CHECK: %[[HERE:[0-9]+]] = stablehlo.reshape %[[BEGIN]]
// CHECK: %[[STATE:[0-9]+]] = stablehlo.concatenate %{{.*}}, %[[HERE]]
// CHECK: stablehlo.rng_bit_generator %[[STATE]], algorithm = THREE_FRY
// CHECK-SAME: -> (tensor<2xui64>, tensor<2x6xui32>)
// CHECK: %[[ALL:.*]] = stablehlo.constant dense<24> : tensor<ui64>
// CHECK: %[[NEXT:[0-9]+]] = stablehlo.add %[[COUNTER]], %[[ALL]]
// CHECK: %[[LAST:[0-9]+]] = stablehlo.reshape %[[NEXT]]
// CHECK: %[[AFTER:[0-9]+]] = stablehlo.concatenate %{{.*}}, %[[LAST]]
// CHECK: return %[[AFTER]], %{{.*}} : tensor<2xui64>, tensor<2x6xui32>
// CHECK-NOT: stablehlo.all_
func.func public @main(%state: tensor<2xui64>)
    -> (tensor<2xui64>, tensor<8x6xui32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0, %1 = stablehlo.rng_bit_generator %state, algorithm = THREE_FRY
    : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8x6xui32>)
  return %0, %1 : tensor<2xui64>, tensor<8x6xui32>
}

// -----

// PHILOX makes four words of a counter. Parts of two begin in the middle of a counter's words: a device makes all words
// of two counters and cuts out its own. Six numbers fill three devices.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.rng_bit_generator {{.*}}, algorithm = PHILOX : {{.*}} -> (tensor<3xui64>, tensor<2x4xui32>)
// CHECK: %[[WORD:[0-9]+]] = stablehlo.remainder
// CHECK: stablehlo.dynamic_slice %{{.*}}, %[[WORD]], sizes = [2] : (tensor<8xui32>
// CHECK-NOT: stablehlo.all_
func.func public @main(%state: tensor<3xui64>)
    -> (tensor<3xui64>, tensor<6xui32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0, %1 = stablehlo.rng_bit_generator %state, algorithm = PHILOX : (tensor<3xui64>) -> (tensor<3xui64>, tensor<6xui32>)
  return %0, %1 : tensor<3xui64>, tensor<6xui32>
}

// -----

// What DEFAULT does is up to the platform. Every device makes all bits, and keeps its part.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %{{.*}}, %[[BITS:.*]] = stablehlo.rng_bit_generator %arg0, algorithm = DEFAULT
// CHECK-SAME: tensor<8xui32>
// CHECK: stablehlo.dynamic_slice %[[BITS]], {{.*}} -> tensor<2xui32>
func.func public @main(%state: tensor<2xui64>)
    -> (tensor<2xui64>, tensor<8xui32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0, %1 = stablehlo.rng_bit_generator %state, algorithm = DEFAULT
    : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>)
  return %0, %1 : tensor<2xui64>, tensor<8xui32>
}

// -----

// Bits that all devices want whole are made as they were.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: stablehlo.rng_bit_generator %arg0, algorithm = THREE_FRY
// CHECK-NEXT: return
func.func public @main(%state: tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>) {
  %0, %1 = stablehlo.rng_bit_generator %state, algorithm = THREE_FRY
    : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>)
  return %0, %1 : tensor<2xui64>, tensor<8xui32>
}

// -----

// Numbers without a state would differ between the copies of a value. So the first device draws a seed, which all get
// as a sum with zeros, and of that every device makes its part with counters of its own.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[DRAWN:[0-9]+]] = stablehlo.rng {{.*}}, distribution = UNIFORM : {{.*}} -> tensor<4xui32>
// CHECK: %[[FIRST:[0-9]+]] = stablehlo.compare EQ
// CHECK: %[[ZERO:.*]] = stablehlo.constant dense<0> : tensor<4xui32>
// CHECK: %[[SEED:[0-9]+]] = stablehlo.select %[[FIRST]], %[[DRAWN]], %[[ZERO]]
// CHECK: "stablehlo.all_reduce"(%[[SEED]])
// CHECK: gspmd.axes = "\22x\22"
// CHECK: stablehlo.rng_bit_generator {{.*}}, algorithm = THREE_FRY
// CHECK: return %{{.*}} : tensor<2xi32>
func.func public @main(%low: tensor<i32>, %high: tensor<i32>)
    -> (tensor<8xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %shape = stablehlo.constant dense<[8]> : tensor<1xi64>
  %0 = stablehlo.rng %low, %high, %shape, distribution = UNIFORM
    : (tensor<i32>, tensor<i32>, tensor<1xi64>) -> tensor<8xi32>
  return %0 : tensor<8xi32>
}
