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

// -----

// Indices that do not fill their shards are followed by others that are padding. So nothing promises any more that they
// are sorted; the table is whole, and everybody finds all rows.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: "stablehlo.gather"(%arg0, %arg1)
// CHECK-SAME: indices_are_sorted = false
// CHECK-SAME: (tensor<12x2xf32>, tensor<2x1xi32>) -> tensor<2x2xf32>
// CHECK-NEXT: return
func.func public @main(
    %table: tensor<12x2xf32>, %places: tensor<6x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<6x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = "stablehlo.gather"(%table, %places) <{
    dimension_numbers = #stablehlo.gather<
      offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 2>, indices_are_sorted = true
  }> : (tensor<12x2xf32>, tensor<6x1xi32>) -> tensor<6x2xf32>
  return %0 : tensor<6x2xf32>
}

// -----

// Windows of three elements may lie in two shards. Every shard has three zeros before and behind it, so that a device
// finds of a window what it has of it, and zeros for the rest; the sum is the window.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[WIDE:[0-9]+]] = stablehlo.pad %arg0, %{{.*}}, low = [3], high = [3], interior = [0]
// CHECK: %[[PARTS:[0-9]+]] = "stablehlo.gather"(%[[WIDE]]
// CHECK-SAME: slice_sizes = array<i64: 3>
// CHECK: "stablehlo.all_reduce"(%[[PARTS]])
// CHECK: gspmd.axes = "\22x\22"
func.func public @main(
    %x: tensor<262144xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %starts: tensor<5x1xi32>)
    -> tensor<5x3xf32> {
  %0 = "stablehlo.gather"(%x, %starts) <{
    dimension_numbers = #stablehlo.gather<offset_dims = [1], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 3>
  }> : (tensor<262144xf32>, tensor<5x1xi32>) -> tensor<5x3xf32>
  return %0 : tensor<5x3xf32>
}
