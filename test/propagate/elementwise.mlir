// RUN: gspmd-opt --split-input-file --gspmd-propagate %s | FileCheck %s

// CHECK-LABEL: module @axes_of_an_argument_reach_the_results_of_elementwise_operations
// CHECK: %arg0: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {"y"}]>
// CHECK: stablehlo.exponential{{.*}}per_value<[<@mesh, [{"x"}, {"y"}]>]>
// CHECK: stablehlo.negate{{.*}}per_value<[<@mesh, [{"x"}, {"y"}]>]>
module @axes_of_an_argument_reach_the_results_of_elementwise_operations {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x6xf32> {
    %0 = stablehlo.exponential %a : tensor<8x6xf32>
    %1 = stablehlo.negate %0 : tensor<8x6xf32>
    return %1 : tensor<8x6xf32>
  }
}

// -----

// CHECK-LABEL: module @axes_of_a_result_reach_the_arguments
// CHECK: %arg0: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {"y"}]>
// CHECK: stablehlo.add{{.*}}per_value<[<@mesh, [{"x"}, {"y"}]>]>
// CHECK: stablehlo.exponential{{.*}}per_value<[<@mesh, [{"x"}, {"y"}]>]>
module @axes_of_a_result_reach_the_arguments {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8x6xf32>, %b: tensor<8x6xf32>)
      -> (tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
    %0 = stablehlo.add %a, %b : tensor<8x6xf32>
    %1 = stablehlo.exponential %0 : tensor<8x6xf32>
    return %1 : tensor<8x6xf32>
  }
}

// -----

// CHECK-LABEL: module @axes_of_one_operand_reach_the_other_operand
// CHECK: %arg0: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {"y"}]>
// CHECK: stablehlo.add{{.*}}per_value<[<@mesh, [{"x"}, {"y"}]>]>
module @axes_of_one_operand_reach_the_other_operand {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>},
                         %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"y"}]>}) -> tensor<8x8xf32> {
    %0 = stablehlo.add %a, %b : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_longer_list_of_axes_extends_its_prefix
// CHECK: %arg0: {{[^[]*}}[{"x"}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"x", "y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x", "y"}]>
// CHECK: stablehlo.add{{.*}}per_value<[<@mesh, [{"x", "y"}]>]>
module @a_longer_list_of_axes_extends_its_prefix {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
                         %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}]>}) -> tensor<8xf32> {
    %0 = stablehlo.add %a, %b : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_part_of_an_axis_is_passed_on_as_it_is
// CHECK: %arg0: {{[^[]*}}[{"x":(2)2}]>
// CHECK-SAME: -> {{[^[]*}}[{"x":(2)2}]>
// CHECK: stablehlo.negate{{.*}}per_value<[<@mesh, [{"x":(2)2}]>]>
// CHECK: stablehlo.negate{{.*}}per_value<[<@mesh, [{"x":(2)2}]>]>
module @a_part_of_an_axis_is_passed_on_as_it_is {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(2)2}]>}) -> tensor<8xf32> {
    %0 = stablehlo.negate %a : tensor<8xf32>
    %1 = stablehlo.negate %0 : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @of_two_shardings_the_one_of_the_larger_tensor_wins
// CHECK: %arg0: {{[^[]*}}[{"x"}, {}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"y"}, {}]>
// CHECK-SAME: -> {{[^[]*}}[{"y"}, {}]>
// CHECK: stablehlo.concatenate{{.*}}per_value<[<@mesh, [{"y"}, {}]>]>
module @of_two_shardings_the_one_of_the_larger_tensor_wins {
  sdy.mesh @mesh = <["x"=4, "y"=4]>
  func.func public @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %b: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> tensor<8x20xf32> {
    %0 = stablehlo.concatenate %a, %b, dim = 1 : (tensor<8x4xf32>, tensor<8x16xf32>) -> tensor<8x20xf32>
    return %0 : tensor<8x20xf32>
  }
}

// -----

// CHECK-LABEL: module @where_operands_of_equal_size_disagree_the_first_one_wins
// CHECK: %arg0: {{[^[]*}}[{"x"}, {}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"y"}, {}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {}]>
// CHECK: stablehlo.add{{.*}}per_value<[<@mesh, [{"x"}, {}]>]>
module @where_operands_of_equal_size_disagree_the_first_one_wins {
  sdy.mesh @mesh = <["x"=4, "y"=4]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %b: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> tensor<8x16xf32> {
    %0 = stablehlo.add %a, %b : tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
}

// -----

// CHECK-LABEL: module @one_axis_wanted_by_two_dimensions_goes_to_one_of_them
// CHECK: %arg0: {{[^[]*}}[{"x"}, {}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{}, {"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {}]>
// CHECK: stablehlo.add{{.*}}per_value<[<@mesh, [{"x"}, {}]>]>
module @one_axis_wanted_by_two_dimensions_goes_to_one_of_them {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<8x8xf32> {
    %0 = stablehlo.add %a, %b : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_dimension_that_does_not_divide_is_split_inside_the_program
// CHECK: %arg0: {{[^[]*}}[{"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x":(1)2}]>
// CHECK: stablehlo.negate{{.*}}per_value<[<@mesh, [{"x"}]>]>
module @a_dimension_that_does_not_divide_is_split_inside_the_program {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<6xf32> {
    %0 = stablehlo.negate %a : tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}

// -----

// CHECK-LABEL: module @select_with_a_scalar_predicate_and_clamp_with_scalar_bounds
// CHECK: %arg0: {{[^[]*}}[]>
// CHECK-SAME: %arg1: {{[^[]*}}[]>
// CHECK-SAME: %arg2: {{[^[]*}}[{"x"}]>
// CHECK-SAME: %arg3: {{[^[]*}}[{"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}]>
// CHECK: stablehlo.select{{.*}}per_value<[<@mesh, [{"x"}]>]>
// CHECK: stablehlo.clamp{{.*}}per_value<[<@mesh, [{"x"}]>]>
module @select_with_a_scalar_predicate_and_clamp_with_scalar_bounds {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%p: tensor<i1>, %lo: tensor<f32>, %a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.select %p, %a, %b : tensor<i1>, tensor<8xf32>
    %1 = stablehlo.clamp %lo, %0, %lo : (tensor<f32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @transpose_permutes_the_axes
// CHECK: %arg0: {{[^[]*}}[{"x"}, {"y"}, {"z"}]>
// CHECK-SAME: -> {{[^[]*}}[{"z"}, {"x"}, {"y"}]>
// CHECK: stablehlo.transpose{{.*}}per_value<[<@mesh, [{"z"}, {"x"}, {"y"}]>]>
// CHECK: stablehlo.negate{{.*}}per_value<[<@mesh, [{"z"}, {"x"}, {"y"}]>]>
module @transpose_permutes_the_axes {
  sdy.mesh @mesh = <["x"=2, "y"=2, "z"=2]>
  func.func public @main(%a: tensor<2x4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}, {"z"}]>}) -> tensor<8x2x4xf32> {
    %0 = stablehlo.transpose %a, dims = [2, 0, 1] : (tensor<2x4x8xf32>) -> tensor<8x2x4xf32>
    %1 = stablehlo.negate %0 : tensor<8x2x4xf32>
    return %1 : tensor<8x2x4xf32>
  }
}
