// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard --gspmd-localize --cse %s | FileCheck %s

// Every device counts from where its shard begins.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[STEPS:[0-9]+]] = stablehlo.iota dim = 0 : tensor<2xi32>
// CHECK: %[[OFFSET:[0-9]+]] = stablehlo.multiply
// CHECK: %[[BEGIN:[0-9]+]] = stablehlo.broadcast_in_dim %[[OFFSET]]
// CHECK: %[[PLACES:[0-9]+]] = stablehlo.add %[[STEPS]], %[[BEGIN]] : tensor<2xi32>
// CHECK-NEXT: return %[[PLACES]]
func.func public @main() -> (tensor<6xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.iota dim = 0 : tensor<6xi32>
  return %0 : tensor<6xi32>
}

// -----

// Floats are counted as integers and converted once: bf16 has eight digits, and would round both terms of the sum.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[PLACES:[0-9]+]] = stablehlo.add %{{.*}} : tensor<512xi32>
// CHECK-NEXT: stablehlo.convert %[[PLACES]] : (tensor<512xi32>) -> tensor<512xbf16>
// CHECK-NEXT: return
func.func public @main() -> (tensor<2048xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.iota dim = 0 : tensor<2048xbf16>
  return %0 : tensor<2048xbf16>
}

// -----

// An iota split along another dimension is the same on every device.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: stablehlo.iota dim = 1 : tensor<2x3xi32>
// CHECK-NEXT: return
func.func public @main() -> (tensor<8x3xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = stablehlo.iota dim = 1 : tensor<8x3xi32>
  return %0 : tensor<8x3xi32>
}

// -----

// A uniform constant shrinks, also a complex one.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[ONE:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<2xf32>
// CHECK-NEXT: %[[TWO:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<2xf32>
// CHECK-NEXT: stablehlo.complex %[[ONE]], %[[TWO]] : tensor<2xcomplex<f32>>
// CHECK-NEXT: return %[[ONE]]
func.func public @main()
    -> (tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
        tensor<8xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.constant dense<1.0> : tensor<6xf32>
  %1 = stablehlo.constant dense<(1.0, 2.0)> : tensor<8xcomplex<f32>>
  return %0, %1 : tensor<6xf32>, tensor<8xcomplex<f32>>
}

// -----

// Any other constant is the same text on every device, which cuts out its own part. Six elements are padded to eight,
// so that the last part is there to be cut.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[WHOLE:.*]] = stablehlo.constant dense<[2, 3, 5, 7, 11, 13]> : tensor<6xi32>
// CHECK: %[[PADDED:[0-9]+]] = stablehlo.pad %[[WHOLE]], {{.*}} -> tensor<8xi32>
// CHECK: %[[OFFSET:[0-9]+]] = stablehlo.multiply
// CHECK: stablehlo.dynamic_slice %[[PADDED]], %[[OFFSET]], sizes = [2]
// CHECK-NEXT: return
func.func public @main() -> (tensor<6xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.constant dense<[2, 3, 5, 7, 11, 13]> : tensor<6xi32>
  return %0 : tensor<6xi32>
}
