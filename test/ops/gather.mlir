// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard --gspmd-localize --cse %s | FileCheck %s

// A table split by rows: every device looks up the rows it holds, and one all-reduce brings them together.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK-SAME: (%[[TABLE:[^:]+]]: tensor<4x6xf32>
// CHECK: %[[CLAMPED:[0-9]+]] = stablehlo.clamp
// CHECK: %[[RELATIVE:[0-9]+]] = stablehlo.subtract %[[CLAMPED]]
// CHECK: %[[ROWS:[0-9]+]] = "stablehlo.gather"(%[[TABLE]], %[[RELATIVE]])
// CHECK-SAME: slice_sizes = array<i64: 1, 6>
// CHECK: %[[FOUND:[0-9]+]] = stablehlo.select {{.*}}, %[[ROWS]]
// CHECK: "stablehlo.all_reduce"(%[[FOUND]])
// CHECK-SAME: {{\[}}[0, 2, 4, 6], [1, 3, 5, 7]]
// CHECK-NOT: stablehlo.all_gather
func.func public @main(
    %table: tensor<14x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %tokens: tensor<8x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>})
    -> (tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) {
  %0 = "stablehlo.gather"(%table, %tokens) <{
    dimension_numbers = #stablehlo.gather<
      offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 6>
  }> : (tensor<14x6xf32>, tensor<8x1xi32>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}

// -----

// Batching dimensions and whole windows are local, with smaller windows.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK-NOT: stablehlo.partition_id
// CHECK: "stablehlo.gather"(%arg0, %arg1)
// CHECK-SAME: slice_sizes = array<i64: 1, 1, 3>
// CHECK-SAME: (tensor<2x10x3xf32>, tensor<2x5x1xi32>) -> tensor<2x5x3xf32>
// CHECK-NEXT: return
func.func public @main(
    %x: tensor<8x10x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {"y"}]>},
    %i: tensor<8x5x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>})
    -> (tensor<8x5x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {"y"}]>}) {
  %0 = "stablehlo.gather"(%x, %i) <{
    dimension_numbers = #stablehlo.gather<
      offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0],
      start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 1, 6>
  }> : (tensor<8x10x6xf32>, tensor<8x5x1xi32>) -> tensor<8x5x6xf32>
  return %0 : tensor<8x5x6xf32>
}
