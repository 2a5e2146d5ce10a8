// RUN: gspmd-opt --split-input-file --gspmd-propagate %s | FileCheck %s

// CHECK-LABEL: module @a_closed_dimension_stays_as_it_is
// CHECK: %arg0: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{}, {"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {"y"}]>
// CHECK: stablehlo.add{{.*}}per_value<[<@mesh, [{"x"}, {"y"}]>]>
module @a_closed_dimension_stays_as_it_is {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>},
                         %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {?}]>}) -> tensor<8x8xf32> {
    %0 = stablehlo.add %a, %b : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @an_open_dimension_with_axes_takes_more_behind_them
// CHECK: %arg0: {{[^[]*}}[{"x", "y"}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"x", "y"}]>
// CHECK-SAME: %arg2: {{[^[]*}}[{"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x", "y"}]>
// CHECK: stablehlo.add{{.*}}per_value<[<@mesh, [{"x", "y"}]>]>
// CHECK: stablehlo.add{{.*}}per_value<[<@mesh, [{"x", "y"}]>]>
module @an_open_dimension_with_axes_takes_more_behind_them {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}]>},
                         %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}]>},
                         %c: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y", ?}]>}) -> tensor<8xf32> {
    %0 = stablehlo.add %a, %b : tensor<8xf32>
    %1 = stablehlo.add %0, %c : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_replicated_axis_splits_no_dimension_of_the_tensor
// CHECK: %arg0: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{}, {"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {"y"}]>
// CHECK: stablehlo.add{{.*}}per_value<[<@mesh, [{"x"}, {"y"}]>]>
module @a_replicated_axis_splits_no_dimension_of_the_tensor {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>},
                         %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {?}], replicated={"x"}>}) -> tensor<8x8xf32> {
    %0 = stablehlo.add %a, %b : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_dimension_of_priority_zero_is_served_before_one_of_priority_one
// CHECK: %arg0: {{[^[]*}}[{"x"}, {}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"y"}, {}]>
// CHECK-SAME: -> {{[^[]*}}[{"y"}, {}]>
// CHECK: stablehlo.add{{.*}}per_value<[<@mesh, [{"y"}, {}]>]>
module @a_dimension_of_priority_zero_is_served_before_one_of_priority_one {
  sdy.mesh @mesh = <["x"=4, "y"=4]>
  func.func public @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}p1, {}]>},
                         %b: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}p0, {}]>}) -> tensor<8x4xf32> {
    %0 = stablehlo.add %a, %b : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}

// -----

// CHECK-LABEL: module @a_later_priority_still_spreads_where_nothing_was_said_before
// CHECK: %arg0: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {"y"}]>
// CHECK: stablehlo.add{{.*}}per_value<[<@mesh, [{"x"}, {"y"}]>]>
module @a_later_priority_still_spreads_where_nothing_was_said_before {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}p0, {?}]>},
                         %b: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"y"}p1]>}) -> tensor<8x4xf32> {
    %0 = stablehlo.add %a, %b : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}

// -----

// CHECK-LABEL: module @a_sharding_constraint_spreads_to_both_sides
// CHECK: %arg0: {{[^[]*}}[{"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}]>
// CHECK: stablehlo.sine{{.*}}per_value<[<@mesh, [{"x"}]>]>
// CHECK: sdy.sharding_constraint {{.*}}<@mesh, [{"x"}]>
// CHECK: stablehlo.cosine{{.*}}per_value<[<@mesh, [{"x"}]>]>
module @a_sharding_constraint_spreads_to_both_sides {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.sine %a : tensor<8xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}]> : tensor<8xf32>
    %2 = stablehlo.cosine %1 : tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_constraint_to_replicate_stands_against_its_operand
// CHECK: %arg0: {{[^[]*}}[{"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{}]>
// CHECK: stablehlo.sine{{.*}}per_value<[<@mesh, [{"x"}]>]>
// CHECK: sdy.sharding_constraint {{.*}}<@mesh, [{}]>
// CHECK: stablehlo.cosine {{%[^{]*}} :
module @a_constraint_to_replicate_stands_against_its_operand {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %0 = stablehlo.sine %a : tensor<8xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}]> : tensor<8xf32>
    %2 = stablehlo.cosine %1 : tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @an_open_constraint_lets_propagation_add_the_rest
// CHECK: %arg0: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {"y"}]>
// CHECK: sdy.sharding_constraint {{.*}}<@mesh, [{"x"}, {"y"}]>
module @an_open_constraint_lets_propagation_add_the_rest {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>}) -> tensor<8x8xf32> {
    %0 = sdy.sharding_constraint %a <@mesh, [{?}, {"y"}]> : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @an_annotated_operation_keeps_its_sharding
// CHECK: %arg0: {{[^[]*}}[{"y"}, {"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{"y"}, {"x"}]>
// CHECK: stablehlo.sine{{.*}}per_value<[<@mesh, [{"y"}, {"x"}]>]>
// CHECK: stablehlo.cosine{{.*}}per_value<[<@mesh, [{"y"}, {"x"}]>]>
module @an_annotated_operation_keeps_its_sharding {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.sine %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}, {"x"}]>]>} : tensor<8x8xf32>
    %1 = stablehlo.cosine %0 : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @what_nobody_annotates_is_replicated
// CHECK: %arg0: {{[^[]*}}[{}, {}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{}, {}]>
// CHECK-SAME: {{[^[]*}}[{"x"}]>
// CHECK: stablehlo.sine {{%[^{]*}} :
module @what_nobody_annotates_is_replicated {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x8xf32>, %b: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8x8xf32>, tensor<4xf32>) {
    %0 = stablehlo.sine %a : tensor<8x8xf32>
    return %0, %b : tensor<8x8xf32>, tensor<4xf32>
  }
}

// -----

// CHECK-LABEL: module @a_dimension_of_size_one_takes_no_axes_from_its_neighbours
// CHECK: %arg0: {{[^[]*}}[{}, {"x"}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"x"}, {}]>
// CHECK-SAME: -> {{[^[]*}}[{}, {}]>
// CHECK: stablehlo.dot_general {{%[^{]*}} :
module @a_dimension_of_size_one_takes_no_axes_from_its_neighbours {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<1x8xf32>, %b: tensor<8x1xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>}) -> tensor<1x1xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<1x8xf32>, tensor<8x1xf32>) -> tensor<1x1xf32>
    return %0 : tensor<1x1xf32>
  }
}
