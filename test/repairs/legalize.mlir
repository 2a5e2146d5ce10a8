// RUN: gspmd-opt --gspmd-legalize-for-xla=platform=cpu %s | FileCheck %s --check-prefixes=ANY,CPU
// RUN: gspmd-opt --gspmd-legalize-for-xla=platform=tpu %s | FileCheck %s --check-prefixes=ANY,TPU
// RUN: gspmd-opt --gspmd-legalize-for-xla %s | FileCheck %s --check-prefixes=ANY,CPU
// RUN: gspmd-opt --gspmd-partition %s | FileCheck %s --check-prefix=PARTITIONED

sdy.mesh @mesh = <["x"=2]>

// XLA for CPUs runs an fft only with its dimensions in order. It writes a scatter of several operands to one buffer for
// all that are one value.

// A partitioned module is the same for all platforms.
// PARTITIONED-NOT: LayoutConstraint
// PARTITIONED-NOT: optimization_barrier
// PARTITIONED: chlo.mulhi

// ANY-LABEL: func.func public @main
// CPU: %[[IN_ORDER:[0-9]+]] = stablehlo.custom_call @LayoutConstraint(%arg0)
// CPU: stablehlo.fft %[[IN_ORDER]], type = FFT
// CPU: stablehlo.custom_call @LayoutConstraint
// TPU-NOT: LayoutConstraint
// TPU: stablehlo.fft %arg0, type = FFT

// Every XLA refuses `mulhi` beside manual computations: it is made of products of wider integers.
// ANY-NOT: chlo.mulhi
// ANY: stablehlo.convert %arg1 : (tensor<4xi8>) -> tensor<4xi16>
// ANY: stablehlo.multiply {{.*}} : tensor<4xi16>
// ANY: stablehlo.shift_right_arithmetic {{.*}} : tensor<4xi16>

// CPU: stablehlo.optimization_barrier
// TPU-NOT: stablehlo.optimization_barrier
// ANY: "stablehlo.scatter"
func.func public @main(%a: tensor<4x8xcomplex<f32>>, %b: tensor<4xi8>, %i: tensor<2x1xi32>, %u: tensor<2xf32>)
    -> (tensor<4x8xcomplex<f32>>, tensor<4xi8>, tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.fft %a, type = FFT, length = [8] : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xcomplex<f32>>
  %1 = chlo.mulhi %b, %b : tensor<4xi8>, tensor<4xi8> -> tensor<4xi8>
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %2:2 = "stablehlo.scatter"(%zero, %zero, %i, %u, %u) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<f32>, %s: tensor<f32>):
    %3 = stablehlo.add %p, %r : tensor<f32>
    %4 = stablehlo.multiply %q, %s : tensor<f32>
    stablehlo.return %3, %4 : tensor<f32>, tensor<f32>
  }) {
    scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
  } : (tensor<4xf32>, tensor<4xf32>, tensor<2x1xi32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0, %1, %2#0, %2#1 : tensor<4x8xcomplex<f32>>, tensor<4xi8>, tensor<4xf32>, tensor<4xf32>
}
