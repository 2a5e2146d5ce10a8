// RUN: gspmd-opt --split-input-file --gspmd-propagate %s | FileCheck %s

// CHECK-LABEL: module @splitting_a_dimension_gives_the_axes_to_the_major_part
// CHECK: %arg0: {{[^[]*}}[{"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {}]>
// CHECK: stablehlo.reshape{{.*}}per_value<[<@mesh, [{"x"}, {}]>]>
module @splitting_a_dimension_gives_the_axes_to_the_major_part {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8x4xf32> {
    %0 = stablehlo.reshape %a : (tensor<32xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}

// -----

// CHECK-LABEL: module @an_axis_larger_than_the_major_part_is_cut_into_sub_axes
// CHECK: %arg0: {{[^[]*}}[{"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x":(1)2}, {"x":(2)4}]>
// CHECK: stablehlo.reshape{{.*}}per_value<[<@mesh, [{"x":(1)2}, {"x":(2)4}]>]>
module @an_axis_larger_than_the_major_part_is_cut_into_sub_axes {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<2x16xf32> {
    %0 = stablehlo.reshape %a : (tensor<32xf32>) -> tensor<2x16xf32>
    return %0 : tensor<2x16xf32>
  }
}

// -----

// CHECK-LABEL: module @two_axes_of_a_split_dimension_fill_its_parts
// CHECK: %arg0: {{[^[]*}}[{"x", "y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {"y"}]>
// CHECK: stablehlo.reshape{{.*}}per_value<[<@mesh, [{"x"}, {"y"}]>]>
module @two_axes_of_a_split_dimension_fill_its_parts {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}]>}) -> tensor<4x8xf32> {
    %0 = stablehlo.reshape %a : (tensor<32xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}

// -----

// CHECK-LABEL: module @merging_dimensions_joins_their_axes
// CHECK: %arg0: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x", "y"}]>
// CHECK: stablehlo.reshape{{.*}}per_value<[<@mesh, [{"x", "y"}]>]>
module @merging_dimensions_joins_their_axes {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<32xf32> {
    %0 = stablehlo.reshape %a : (tensor<4x8xf32>) -> tensor<32xf32>
    return %0 : tensor<32xf32>
  }
}

// -----

// CHECK-LABEL: module @merging_keeps_only_the_major_axes_when_the_major_part_is_not_split_completely
// CHECK: %arg0: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}]>
// CHECK: stablehlo.reshape{{.*}}per_value<[<@mesh, [{"x"}]>]>
module @merging_keeps_only_the_major_axes_when_the_major_part_is_not_split_completely {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<32xf32> {
    %0 = stablehlo.reshape %a : (tensor<8x4xf32>) -> tensor<32xf32>
    return %0 : tensor<32xf32>
  }
}

// -----

// CHECK-LABEL: module @merging_gives_nothing_when_only_the_minor_part_is_split
// CHECK: %arg0: {{[^[]*}}[{}, {"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{}]>
// CHECK: stablehlo.reshape {{%[^{]*}} :
module @merging_gives_nothing_when_only_the_minor_part_is_split {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<32xf32> {
    %0 = stablehlo.reshape %a : (tensor<8x4xf32>) -> tensor<32xf32>
    return %0 : tensor<32xf32>
  }
}

// -----

// CHECK-LABEL: module @merging_two_parts_of_one_axis_gives_the_whole_axis
// CHECK: %arg0: {{[^[]*}}[{"x":(1)2}, {"x":(2)4}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}]>
// CHECK: stablehlo.reshape{{.*}}per_value<[<@mesh, [{"x"}]>]>
module @merging_two_parts_of_one_axis_gives_the_whole_axis {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<2x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {"x":(2)4}]>}) -> tensor<32xf32> {
    %0 = stablehlo.reshape %a : (tensor<2x16xf32>) -> tensor<32xf32>
    return %0 : tensor<32xf32>
  }
}

// -----

// CHECK-LABEL: module @a_split_result_reaches_back_through_the_reshape
// CHECK: %arg0: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x", "y"}]>
// CHECK: stablehlo.reshape{{.*}}per_value<[<@mesh, [{"x", "y"}]>]>
module @a_split_result_reaches_back_through_the_reshape {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<4x8xf32>) -> (tensor<32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}]>}) {
    %0 = stablehlo.reshape %a : (tensor<4x8xf32>) -> tensor<32xf32>
    return %0 : tensor<32xf32>
  }
}

// -----

// CHECK-LABEL: module @dimensions_that_the_reshape_leaves_alone_keep_their_axes
// CHECK: %arg0: {{[^[]*}}[{"x"}, {"y"}, {"z"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {"y"}, {}, {"z"}]>
// CHECK: stablehlo.reshape{{.*}}per_value<[<@mesh, [{"x"}, {"y"}, {}, {"z"}]>]>
module @dimensions_that_the_reshape_leaves_alone_keep_their_axes {
  sdy.mesh @mesh = <["x"=2, "y"=2, "z"=2]>
  func.func public @main(%a: tensor<6x8x10xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}, {"z"}]>}) -> tensor<6x2x4x10xf32> {
    %0 = stablehlo.reshape %a : (tensor<6x8x10xf32>) -> tensor<6x2x4x10xf32>
    return %0 : tensor<6x2x4x10xf32>
  }
}

// -----

// CHECK-LABEL: module @inserting_and_removing_dimensions_of_size_one_keeps_uneven_axes
// CHECK: %arg0: {{[^[]*}}[{}, {"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x":(1)2}, {}, {}]>
// CHECK: stablehlo.reshape{{.*}}per_value<[<@mesh, [{"x"}, {}, {}]>]>
// CHECK: stablehlo.negate{{.*}}per_value<[<@mesh, [{"x"}, {}, {}]>]>
module @inserting_and_removing_dimensions_of_size_one_keeps_uneven_axes {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<1x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<6x1x1xf32> {
    %0 = stablehlo.reshape %a : (tensor<1x6xf32>) -> tensor<6x1x1xf32>
    %1 = stablehlo.negate %0 : tensor<6x1x1xf32>
    return %1 : tensor<6x1x1xf32>
  }
}

// -----

// CHECK-LABEL: module @an_axis_that_does_not_divide_the_major_part_is_not_passed_on
// CHECK: %arg0: {{[^[]*}}[{"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{}, {}]>
// CHECK: stablehlo.reshape {{%[^{]*}} :
module @an_axis_that_does_not_divide_the_major_part_is_not_passed_on {
  sdy.mesh @mesh = <["x"=3]>
  func.func public @main(%a: tensor<24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<4x6xf32> {
    %0 = stablehlo.reshape %a : (tensor<24xf32>) -> tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
}

// -----

// CHECK-LABEL: module @shapes_of_which_neither_divides_the_other_share_their_common_divisor
// CHECK: %arg0: {{[^[]*}}[{"x"}, {}]>
// CHECK-SAME: -> {{[^[]*}}[{"x":(1)2}, {}]>
// CHECK: stablehlo.reshape{{.*}}per_value<[<@mesh, [{"x":(1)2}, {}]>]>
module @shapes_of_which_neither_divides_the_other_share_their_common_divisor {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<6x4xf32> {
    %0 = stablehlo.reshape %a : (tensor<4x6xf32>) -> tensor<6x4xf32>
    return %0 : tensor<6x4xf32>
  }
}
