// RUN: gspmd-opt --split-input-file --gspmd-propagate %s | FileCheck %s

// CHECK-LABEL: module @batch_dimensions_are_shared_by_all_three_tensors
// CHECK: %arg0: {{[^[]*}}[{"x"}, {}, {}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"x"}, {}, {}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {}, {}]>
// CHECK: stablehlo.dot_general{{.*}}per_value<[<@mesh, [{"x"}, {}, {}]>]>
module @batch_dimensions_are_shared_by_all_three_tensors {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<4x8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}, {?}]>}, %b: tensor<4x16x32xf32>) -> tensor<4x8x32xf32> {
    %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x8x16xf32>, tensor<4x16x32xf32>) -> tensor<4x8x32xf32>
    return %0 : tensor<4x8x32xf32>
  }
}

// -----

// CHECK-LABEL: module @free_dimensions_of_both_sides_meet_in_the_result
// CHECK: %arg0: {{[^[]*}}[{"x"}, {}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{}, {"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {"y"}]>
// CHECK: stablehlo.dot_general{{.*}}per_value<[<@mesh, [{"x"}, {"y"}]>]>
module @free_dimensions_of_both_sides_meet_in_the_result {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>},
                         %b: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"y"}]>}) -> tensor<8x32xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    return %0 : tensor<8x32xf32>
  }
}

// -----

// CHECK-LABEL: module @free_dimensions_of_the_result_reach_back_to_both_sides
// CHECK: %arg0: {{[^[]*}}[{"x"}, {}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{}, {"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {"y"}]>
// CHECK: stablehlo.dot_general{{.*}}per_value<[<@mesh, [{"x"}, {"y"}]>]>
module @free_dimensions_of_the_result_reach_back_to_both_sides {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x16xf32>, %b: tensor<16x32xf32>)
      -> (tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    return %0 : tensor<8x32xf32>
  }
}

// -----

// CHECK-LABEL: module @a_contracted_dimension_passes_its_axes_from_one_side_to_the_other_only
// CHECK: %arg0: {{[^[]*}}[{}, {"y"}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"y"}, {}]>
// CHECK-SAME: -> {{[^[]*}}[{}, {}]>
// CHECK: stablehlo.dot_general {{%[^{]*}} :
module @a_contracted_dimension_passes_its_axes_from_one_side_to_the_other_only {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"y"}]>}, %b: tensor<16x32xf32>) -> tensor<8x32xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    return %0 : tensor<8x32xf32>
  }
}

// -----

// CHECK-LABEL: module @an_axis_that_both_sides_have_on_free_dimensions_goes_to_the_larger_side
// CHECK: %arg0: {{[^[]*}}[{"x"}, {}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{}, {"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{}, {"x"}]>
// CHECK: stablehlo.dot_general{{.*}}per_value<[<@mesh, [{}, {"x"}]>]>
module @an_axis_that_both_sides_have_on_free_dimensions_goes_to_the_larger_side {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %b: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<8x32xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    return %0 : tensor<8x32xf32>
  }
}

// -----

// CHECK-LABEL: module @elementwise_operations_are_served_before_contractions
// CHECK: %arg0: {{[^[]*}}[{"x"}, {}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{}, {"x"}]>
// CHECK-SAME: %arg2: {{[^[]*}}[{}, {"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{}, {"x"}]>
// CHECK: stablehlo.dot_general{{.*}}per_value<[<@mesh, [{}, {"x"}]>]>
// CHECK: stablehlo.add{{.*}}per_value<[<@mesh, [{}, {"x"}]>]>
module @elementwise_operations_are_served_before_contractions {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<32x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %b: tensor<16x8xf32>,
                         %c: tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<32x8xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<32x16xf32>, tensor<16x8xf32>) -> tensor<32x8xf32>
    %1 = stablehlo.add %0, %c : tensor<32x8xf32>
    return %1 : tensor<32x8xf32>
  }
}

// -----

// CHECK-LABEL: module @what_passes_through_a_contraction_is_served_before_what_is_contracted
// CHECK: %arg0: {{[^[]*}}[{}, {"x"}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{}, {"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{}, {"x"}]>
// CHECK: stablehlo.dot_general{{.*}}per_value<[<@mesh, [{}, {"x"}]>]>
module @what_passes_through_a_contraction_is_served_before_what_is_contracted {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %b: tensor<16x32xf32>)
      -> (tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    return %0 : tensor<8x32xf32>
  }
}

// -----

// CHECK-LABEL: module @several_batch_free_and_contracted_dimensions_keep_apart
// CHECK: %arg0: {{[^[]*}}[{"a"}, {"b"}, {"c"}, {"d"}, {"e"}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"d"}, {"a"}, {"e"}, {"b"}, {"f"}]>
// CHECK-SAME: -> {{[^[]*}}[{"a"}, {"b"}, {"c"}, {"f"}]>
// CHECK: stablehlo.dot_general{{.*}}per_value<[<@mesh, [{"a"}, {"b"}, {"c"}, {"f"}]>]>
module @several_batch_free_and_contracted_dimensions_keep_apart {
  sdy.mesh @mesh = <["a"=2, "b"=2, "c"=2, "d"=2, "e"=2, "f"=2]>
  func.func public @main(%l: tensor<2x4x6x8x10xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}, {"c"}, {"d"}, {"e"}]>},
                         %r: tensor<8x2x10x4x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {?}, {?}, {?}, {"f"}]>}) -> tensor<2x4x6x12xf32> {
    %0 = stablehlo.dot_general %l, %r, batching_dims = [0, 1] x [1, 3], contracting_dims = [3, 4] x [0, 2] : (tensor<2x4x6x8x10xf32>, tensor<8x2x10x4x12xf32>) -> tensor<2x4x6x12xf32>
    return %0 : tensor<2x4x6x12xf32>
  }
}
