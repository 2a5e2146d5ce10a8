// RUN: gspmd-opt --split-input-file --gspmd-ingest %s | FileCheck %s

// Indices that count along a batch become a batching dimension, and what made them is gone.

// CHECK-LABEL: func.func public @main
// CHECK-NOT: stablehlo.iota
// CHECK: %[[INDICES:[0-9]+]] = stablehlo.reshape %arg1
// CHECK-NEXT: "stablehlo.gather"(%arg0, %[[INDICES]])
// CHECK-SAME: collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1
// CHECK-SAME: indices_are_sorted = false
func.func public @main(%x: tensor<8x64xf32>, %i: tensor<8xi32>) -> tensor<8xf32> {
  %count = stablehlo.iota dim = 0 : tensor<8xi32>
  %first = stablehlo.broadcast_in_dim %count, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
  %second = stablehlo.reshape %i : (tensor<8xi32>) -> tensor<8x1xi32>
  %both = stablehlo.concatenate %first, %second, dim = 1 : (tensor<8x1xi32>, tensor<8x1xi32>) -> tensor<8x2xi32>
  %0 = "stablehlo.gather"(%x, %both) <{
    dimension_numbers = #stablehlo.gather<
      collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 1>, indices_are_sorted = true
  }> : (tensor<8x64xf32>, tensor<8x2xi32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Of a scatter too, with negative numbers corrected as JAX does; the vector keeps its other components.

// CHECK-LABEL: func.func public @main
// CHECK: %[[REST:[0-9]+]] = stablehlo.concatenate %arg1, %arg1, dim = 0
// CHECK: "stablehlo.scatter"(%arg0, %[[REST]], %arg2)
// CHECK-SAME: inserted_window_dims = [0, 2], input_batching_dims = [1], scatter_indices_batching_dims = [2], scatter_dims_to_operand_dims = [0, 2]>
func.func public @main(%x: tensor<9x8x64xf32>, %i: tensor<1x5x8xi32>, %u: tensor<5x8xf32>) -> tensor<9x8x64xf32> {
  %count = stablehlo.iota dim = 2 : tensor<1x5x8xi16>
  %wide = stablehlo.convert %count : (tensor<1x5x8xi16>) -> tensor<1x5x8xi32>
  %zero = stablehlo.constant dense<0> : tensor<1x5x8xi32>
  %n = stablehlo.constant dense<8> : tensor<1x5x8xi32>
  %less = stablehlo.compare LT, %wide, %zero : (tensor<1x5x8xi32>, tensor<1x5x8xi32>) -> tensor<1x5x8xi1>
  %shifted = stablehlo.add %wide, %n : tensor<1x5x8xi32>
  %right = stablehlo.select %less, %shifted, %wide : tensor<1x5x8xi1>, tensor<1x5x8xi32>
  %all = stablehlo.concatenate %i, %right, %i, dim = 0
    : (tensor<1x5x8xi32>, tensor<1x5x8xi32>, tensor<1x5x8xi32>) -> tensor<3x5x8xi32>
  %0 = "stablehlo.scatter"(%x, %all, %u) <{
    scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [0, 1, 2], scatter_dims_to_operand_dims = [0, 1, 2], index_vector_dim = 0>
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) : (tensor<9x8x64xf32>, tensor<3x5x8xi32>, tensor<5x8xf32>) -> tensor<9x8x64xf32>
  return %0 : tensor<9x8x64xf32>
}

// -----

// Fewer than there are rows are no batch, and neither is what may count in another order.

// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.iota
// CHECK: collapsed_slice_dims = [0, 1], start_index_map = [0, 1]
// CHECK: stablehlo.reverse
// CHECK: collapsed_slice_dims = [0, 1], start_index_map = [0, 1]
func.func public @main(%x: tensor<9x64xf32>, %y: tensor<8x64xf32>, %i: tensor<8x1xi32>)
    -> (tensor<8xf32>, tensor<8xf32>) {
  %count = stablehlo.iota dim = 0 : tensor<8x1xi32>
  %both = stablehlo.concatenate %count, %i, dim = 1 : (tensor<8x1xi32>, tensor<8x1xi32>) -> tensor<8x2xi32>
  %0 = "stablehlo.gather"(%x, %both) <{
    dimension_numbers = #stablehlo.gather<
      collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 1>
  }> : (tensor<9x64xf32>, tensor<8x2xi32>) -> tensor<8xf32>
  %back = stablehlo.reverse %count, dims = [0] : tensor<8x1xi32>
  %other = stablehlo.concatenate %back, %i, dim = 1 : (tensor<8x1xi32>, tensor<8x1xi32>) -> tensor<8x2xi32>
  %1 = "stablehlo.gather"(%y, %other) <{
    dimension_numbers = #stablehlo.gather<
      collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 1>
  }> : (tensor<8x64xf32>, tensor<8x2xi32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
