// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard --gspmd-localize --cse %s | FileCheck %s

// Split updates: only the first shard starts from the operand, the others from zero, and the results are added up.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK-SAME: (%[[GRADIENT:[^:]+]]: tensor<14x3xf32>
// CHECK: %[[FIRST:[0-9]+]] = stablehlo.compare EQ
// CHECK: %[[START:[0-9]+]] = stablehlo.select %[[FIRST]], %[[GRADIENT]]
// CHECK: %[[PARTIAL:[0-9]+]] = "stablehlo.scatter"(%[[START]]
// CHECK: (tensor<14x3xf32>, tensor<2x1xi32>, tensor<2x3xf32>) -> tensor<14x3xf32>
// CHECK: "stablehlo.all_reduce"(%[[PARTIAL]])
// CHECK-SAME: {{\[}}[0, 2, 4, 6], [1, 3, 5, 7]]
func.func public @main(
    %gradient: tensor<14x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>},
    %tokens: tensor<8x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %updates: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>})
    -> (tensor<14x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) {
  %0 = "stablehlo.scatter"(%gradient, %tokens, %updates) <{
    scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<14x6xf32>, tensor<8x1xi32>, tensor<8x6xf32>) -> tensor<14x6xf32>
  return %0 : tensor<14x6xf32>
}

// -----

// Split rows: every device writes those it holds. No communication, and no promise that indices are sorted.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[CLAMPED:[0-9]+]] = stablehlo.clamp
// CHECK: %[[RELATIVE:[0-9]+]] = stablehlo.subtract %[[CLAMPED]]
// CHECK: "stablehlo.scatter"(%arg0, %[[RELATIVE]], %arg2)
// CHECK-SAME: indices_are_sorted = false
// CHECK: (tensor<4x6xf32>, tensor<8x1xi32>, tensor<8x6xf32>) -> tensor<4x6xf32>
// CHECK-NOT: stablehlo.all_
func.func public @main(
    %cache: tensor<14x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %places: tensor<8x1xi32>, %rows: tensor<8x6xf32>)
    -> (tensor<14x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = "stablehlo.scatter"(%cache, %places, %rows) <{
    scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
    indices_are_sorted = true
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) : (tensor<14x6xf32>, tensor<8x1xi32>, tensor<8x6xf32>) -> tensor<14x6xf32>
  return %0 : tensor<14x6xf32>
}

// -----

// Six updates on four devices: padding becomes minus infinity, which changes no maximum, and its indices may be any, so
// that they are not promised to be unique any more. All devices but the first start from minus infinity, too.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[FIRST:[0-9]+]] = stablehlo.compare EQ
// CHECK: %[[LOW:.*]] = stablehlo.constant dense<0xFF800000> : tensor<2x6xf32>
// CHECK: %[[MASKED:[0-9]+]] = stablehlo.select %{{.*}}, %arg2, %[[LOW]]
// CHECK: %[[START:[0-9]+]] = stablehlo.select %[[FIRST]], %arg0
// CHECK: "stablehlo.scatter"(%[[START]], %arg1, %[[MASKED]])
// CHECK-SAME: unique_indices = false
// CHECK: "stablehlo.all_reduce"
// CHECK: stablehlo.maximum
func.func public @main(
    %best: tensor<14x6xf32>, %places: tensor<6x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %new: tensor<6x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<14x6xf32> {
  %0 = "stablehlo.scatter"(%best, %places, %new) <{
    scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
    unique_indices = true
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<14x6xf32>, tensor<6x1xi32>, tensor<6x6xf32>) -> tensor<14x6xf32>
  return %0 : tensor<14x6xf32>
}

// -----

// Updates that replace what is there depend on their order. They are gathered, and every device does all of them.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[PLACES:[0-9]+]] = "stablehlo.all_gather"(%arg1)
// CHECK: %[[ROWS:[0-9]+]] = "stablehlo.all_gather"(%arg2)
// CHECK: "stablehlo.scatter"(%arg0, %[[PLACES]], %[[ROWS]])
// CHECK-NOT: stablehlo.all_reduce
func.func public @main(
    %table: tensor<14x6xf32>, %places: tensor<8x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %rows: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<14x6xf32> {
  %0 = "stablehlo.scatter"(%table, %places, %rows) <{
    scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) : (tensor<14x6xf32>, tensor<8x1xi32>, tensor<8x6xf32>) -> tensor<14x6xf32>
  return %0 : tensor<14x6xf32>
}
