// Rows are sorted by a product and put back: ours gathered four times, XLA gathers once and reduces once.
// A loss that `losses.py` found (seed 9001, case 490) and made small.
// gspmd sent 2.6 KiB: 4 all_gather over z.
// XLA GSPMD sent 1.1 KiB: 1 all_reduce over z, 1 all_gather over z.
// XLA Shardy sent 1.1 KiB: 1 all_reduce over z, 1 all_gather over z.
// With arguments and results as XLA GSPMD lays them out, gspmd sent 2.6 KiB.
module @jit_forward attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["z"=2]> {stablehlo.mesh = {axes = [{name = "z", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"z"}, {}]>}, %arg1: tensor<8x4xf32>, %arg2: tensor<4x8x32xf32>) -> (tensor<32x32xf32> {jax.result_info = "result[0]"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x8xf32>, tensor<8x4xf32>) -> tensor<32x4xf32>
    %1 = call @argmax(%0) : (tensor<32x4xf32>) -> tensor<32xi32>
    %2 = call @argsort(%1) : (tensor<32xi32>) -> tensor<32xi32>
    %3 = call @_take(%arg0, %2) : (tensor<32x8xf32>, tensor<32xi32>) -> tensor<32x8xf32>
    %4 = stablehlo.reshape %3 : (tensor<32x8xf32>) -> tensor<4x8x8xf32>
    %5 = stablehlo.dot_general %4, %arg2, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8x8xf32>, tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
    %6 = stablehlo.reshape %5 : (tensor<4x8x32xf32>) -> tensor<32x32xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %8 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<32xi32>
    %9 = stablehlo.compare LT, %2, %8, SIGNED : (tensor<32xi32>, tensor<32xi32>) -> tensor<32xi1>
    %c_0 = stablehlo.constant dense<32> : tensor<i32>
    %10 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<32xi32>
    %11 = stablehlo.add %2, %10 : tensor<32xi32>
    %12 = stablehlo.select %9, %11, %2 : tensor<32xi1>, tensor<32xi32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<32xi32>) -> tensor<32x1xi32>
    %14 = "stablehlo.scatter"(%7, %13, %6) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      stablehlo.return %arg4 : tensor<f32>
    }) : (tensor<32x32xf32>, tensor<32x1xi32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    return %14 : tensor<32x32xf32>
  }
  func.func private @argmax(%arg0: tensor<32x4xf32>) -> tensor<32xi32> {
    %0 = stablehlo.iota dim = 1 : tensor<32x4xi32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [1] : (tensor<32x4xf32>, tensor<32x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<32xf32>, tensor<32xi32>)
     reducer(%arg1: tensor<f32>, %arg3: tensor<f32>) (%arg2: tensor<i32>, %arg4: tensor<i32>)  {
      %2 = stablehlo.compare GT, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
    }
    return %1#1 : tensor<32xi32>
  }
  func.func private @argsort(%arg0: tensor<32xi32>) -> tensor<32xi32> {
    %0 = stablehlo.iota dim = 0 : tensor<32xi32>
    %1:2 = "stablehlo.sort"(%arg0, %0) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<i32>, %arg2: tensor<i32>, %arg3: tensor<i32>, %arg4: tensor<i32>):
      %2 = stablehlo.compare LT, %arg1, %arg2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    }) : (tensor<32xi32>, tensor<32xi32>) -> (tensor<32xi32>, tensor<32xi32>)
    return %1#1 : tensor<32xi32>
  }
  func.func private @_take(%arg0: tensor<32x8xf32>, %arg1: tensor<32xi32>) -> tensor<32x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [0] : (tensor<32xi32>) -> tensor<32x1xi32>
    %1 = "stablehlo.gather"(%arg0, %0) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<32x8xf32>, tensor<32x1xi32>) -> tensor<32x8xf32>
    return %1 : tensor<32x8xf32>
  }
}
