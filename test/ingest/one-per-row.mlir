// RUN: gspmd-opt --split-input-file --gspmd-ingest %s | FileCheck %s

// One element added to every row of zeros is where the row's position is the index; indices beyond the row hit nothing.

// CHECK-LABEL: func.func public @main
// CHECK-NOT: stablehlo.scatter
// CHECK: %[[ZEROS:[0-9]+]] = stablehlo.broadcast_in_dim {{.*}} -> tensor<8x32x64xf32>
// CHECK: %[[PLACES:[0-9]+]] = stablehlo.iota dim = 1 : tensor<8x32x64xi32>
// CHECK: %[[INDEX:[0-9]+]] = stablehlo.broadcast_in_dim {{.*}}, dims = [2, 0] : (tensor<64x8xi32>) -> tensor<8x32x64xi32>
// CHECK: %[[HIT:[0-9]+]] = stablehlo.compare EQ, %[[INDEX]], %[[PLACES]]
// CHECK: %[[UPDATE:[0-9]+]] = stablehlo.broadcast_in_dim {{.*}}, dims = [2, 0] : (tensor<64x8xf32>) -> tensor<8x32x64xf32>
// CHECK: stablehlo.select %[[HIT]], %[[UPDATE]], %[[ZEROS]] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}, {}]>]>}
sdy.mesh @mesh = <["x"=4]>
func.func @main(%i: tensor<64x1x8x1xi32>, %u: tensor<64x1x8xf32>) -> tensor<8x32x64xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<8x32x64xf32>
  %0 = "stablehlo.scatter"(%zeros, %i, %u) <{
    scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [1], input_batching_dims = [0, 2], scatter_indices_batching_dims = [2, 0],
      scatter_dims_to_operand_dims = [1], index_vector_dim = 3>
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %sum = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}, {}]>]>}
    : (tensor<8x32x64xf32>, tensor<64x1x8x1xi32>, tensor<64x1x8xf32>) -> tensor<8x32x64xf32>
  return %0 : tensor<8x32x64xf32>
}

// -----

// Not where a row may get several, what is written to is not zero, or the index cannot count to the end of the row.

// CHECK-LABEL: func.func public @main
// CHECK-COUNT-3: stablehlo.scatter"
// CHECK-NOT: stablehlo.compare
func.func @main(%x: tensor<8x300xf32>, %i: tensor<8x2x1xi32>, %u: tensor<8x2xf32>, %j: tensor<8x1xi32>,
                %v: tensor<8xf32>, %k: tensor<8x1xi8>)
    -> (tensor<8x300xf32>, tensor<8x300xf32>, tensor<8x300xf32>) {
  %zeros = stablehlo.constant dense<0.0> : tensor<8x300xf32>
  %0 = "stablehlo.scatter"(%zeros, %i, %u) <{
    scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0],
      scatter_dims_to_operand_dims = [1], index_vector_dim = 2>
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) : (tensor<8x300xf32>, tensor<8x2x1xi32>, tensor<8x2xf32>) -> tensor<8x300xf32>
  %1 = "stablehlo.scatter"(%x, %j, %v) <{
    scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0],
      scatter_dims_to_operand_dims = [1], index_vector_dim = 1>
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) : (tensor<8x300xf32>, tensor<8x1xi32>, tensor<8xf32>) -> tensor<8x300xf32>
  %2 = "stablehlo.scatter"(%zeros, %k, %v) <{
    scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0],
      scatter_dims_to_operand_dims = [1], index_vector_dim = 1>
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) : (tensor<8x300xf32>, tensor<8x1xi8>, tensor<8xf32>) -> tensor<8x300xf32>
  return %0, %1, %2 : tensor<8x300xf32>, tensor<8x300xf32>, tensor<8x300xf32>
}
