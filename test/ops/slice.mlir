// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard --gspmd-localize --cse %s | FileCheck %s

// Dimensions that are kept whole stay split, through slice, pad, concatenate and reverse.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.slice %{{.*}} [0:3, 1:5] : (tensor<3x9xf32>) -> tensor<3x4xf32>
// CHECK: stablehlo.pad {{.*}} low = [0, 1], high = [0, 0], interior = [0, 1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x8xf32>
// CHECK: stablehlo.concatenate {{.*}}, dim = 1 : (tensor<3x8xf32>, tensor<3x9xf32>) -> tensor<3x17xf32>
// CHECK: stablehlo.reverse {{.*}}, dims = [1] : tensor<3x17xf32>
// CHECK-NEXT: return
func.func public @main(%x: tensor<10x9xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %p: tensor<f32>)
    -> (tensor<10x17xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = stablehlo.slice %x [0:10, 1:5] : (tensor<10x9xf32>) -> tensor<10x4xf32>
  %1 = stablehlo.pad %0, %p, low = [0, 1], high = [0, 0], interior = [0, 1]
    : (tensor<10x4xf32>, tensor<f32>) -> tensor<10x8xf32>
  %2 = stablehlo.concatenate %1, %x, dim = 1 : (tensor<10x8xf32>, tensor<10x9xf32>) -> tensor<10x17xf32>
  %3 = stablehlo.reverse %2, dims = [1] : tensor<10x17xf32>
  return %3 : tensor<10x17xf32>
}
