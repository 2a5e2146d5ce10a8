// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard --gspmd-localize --cse %s | FileCheck %s

// Every row is transformed alone, on the device that has it.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NOT: "stablehlo.all_
// CHECK: stablehlo.fft {{.*}}, type = FFT, length = [8] : (tensor<2x8xcomplex<f32>>) -> tensor<2x8xcomplex<f32>>
// CHECK-NOT: "stablehlo.all_
func.func public @main(%a: tensor<6x8xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<6x8xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = stablehlo.fft %a, type = FFT, length = [8] : (tensor<6x8xcomplex<f32>>) -> tensor<6x8xcomplex<f32>>
  return %0 : tensor<6x8xcomplex<f32>>
}

// -----

// Both dimensions are transformed, one after the other. The rows come first, as they are whole; for the columns, both
// change places and back. There are 1025 rows of frequencies, which are padded so that every device gets as many.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.fft {{.*}}, type = RFFT, length = [2048] : {{.*}} -> tensor<256x1025xcomplex<f32>>
// CHECK: %[[PADDED:[0-9]+]] = stablehlo.pad {{.*}} -> tensor<256x1028xcomplex<f32>>
// CHECK: "stablehlo.all_to_all"(%[[PADDED]])
// CHECK-SAME: gspmd.axes = "\22x\22"
// CHECK-SAME: -> tensor<1024x257xcomplex<f32>>
// CHECK: stablehlo.fft {{.*}}, type = FFT, length = [1024] : {{.*}} -> tensor<257x1024xcomplex<f32>>
// CHECK: %[[BACK:[0-9]+]] = "stablehlo.all_to_all"
// CHECK-SAME: -> tensor<256x1028xcomplex<f32>>
// CHECK: stablehlo.slice %[[BACK]] [0:256, 0:1025]
// CHECK-NOT: stablehlo.all_gather
func.func public @main(%a: tensor<1024x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<1024x1025xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = stablehlo.fft %a, type = RFFT, length = [1024, 2048] : (tensor<1024x2048xf32>) -> tensor<1024x1025xcomplex<f32>>
  return %0 : tensor<1024x1025xcomplex<f32>>
}

// -----

// There is no other dimension that could be split meanwhile: the transformed one is gathered.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: "stablehlo.all_gather"(%arg0)
// CHECK: stablehlo.fft {{.*}} -> tensor<1x8xcomplex<f32>>
// CHECK-NOT: "stablehlo.all_to_all"
// CHECK: stablehlo.dynamic_slice {{.*}} -> tensor<1x2xcomplex<f32>>
func.func public @main(%a: tensor<1x8xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>})
    -> (tensor<1x8xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
  %0 = stablehlo.fft %a, type = FFT, length = [8] : (tensor<1x8xcomplex<f32>>) -> tensor<1x8xcomplex<f32>>
  return %0 : tensor<1x8xcomplex<f32>>
}

// -----

// Matrices of a batch, and the right-hand sides of each, are problems of their own.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[FACTOR:[0-9]+]] = stablehlo.cholesky %arg0, lower = true : tensor<2x3x3xf32>
// CHECK-NEXT: "stablehlo.triangular_solve"(%[[FACTOR]], %arg1)
// CHECK-SAME: (tensor<2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
// CHECK-NEXT: return
func.func public @main(
    %a: tensor<6x3x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>},
    %b: tensor<6x3x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {"y"}]>})
    -> (tensor<6x3x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {"y"}]>}) {
  %0 = stablehlo.cholesky %a, lower = true : tensor<6x3x3xf32>
  %1 = "stablehlo.triangular_solve"(%0, %b) <{
    left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false
  }> : (tensor<6x3x3xf32>, tensor<6x3x5xf32>) -> tensor<6x3x5xf32>
  return %1 : tensor<6x3x5xf32>
}

// -----

// A single matrix is factored whole by every device.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: "stablehlo.all_gather"(%arg0)
// CHECK: stablehlo.cholesky {{.*}} : tensor<8x8xf32>
// CHECK: stablehlo.dynamic_slice {{.*}} -> tensor<2x8xf32>
func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = stablehlo.cholesky %a, lower = true : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
