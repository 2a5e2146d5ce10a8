// RUN: gspmd-opt --split-input-file --gspmd-propagate %s | FileCheck %s

// CHECK-LABEL: module @a_broadcast_passes_on_the_axes_of_the_dimensions_it_keeps
// CHECK: %arg0: {{[^[]*}}[{"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{}, {"x"}]>
// CHECK: stablehlo.broadcast_in_dim{{.*}}per_value<[<@mesh, [{}, {"x"}]>]>
module @a_broadcast_passes_on_the_axes_of_the_dimensions_it_keeps {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<4x8xf32> {
    %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}

// -----

// CHECK-LABEL: module @axes_of_an_expanded_dimension_do_not_reach_back
// CHECK: %arg0: {{[^[]*}}[{}, {"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {"y"}]>
// CHECK: stablehlo.broadcast_in_dim{{.*}}per_value<[<@mesh, [{"x"}, {"y"}]>]>
module @axes_of_an_expanded_dimension_do_not_reach_back {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<1x8xf32>) -> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
    %0 = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_broadcast_goes_forward_after_everything_else
// CHECK: %arg0: {{[^[]*}}[{"x"}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"x"}, {}]>
// CHECK-SAME: %arg2: {{[^[]*}}[{}, {}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {}]>
// CHECK: stablehlo.dot_general{{.*}}per_value<[<@mesh, [{"x"}, {}]>]>
// CHECK: stablehlo.broadcast_in_dim{{.*}}per_value<[<@mesh, [{"x"}, {}]>]>
// CHECK: stablehlo.add{{.*}}per_value<[<@mesh, [{"x"}, {}]>]>
module @a_broadcast_goes_forward_after_everything_else {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%bias: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
                         %a: tensor<4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %b: tensor<16x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %1 = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
    %2 = stablehlo.add %0, %1 : tensor<4x8xf32>
    return %2 : tensor<4x8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_bias_without_annotation_is_split_as_the_tensor_it_is_added_to
// CHECK: %arg0: {{[^[]*}}[{"y"}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}, {"y"}]>
// CHECK: stablehlo.broadcast_in_dim{{.*}}per_value<[<@mesh, [{"x"}, {"y"}]>]>
// CHECK: stablehlo.add{{.*}}per_value<[<@mesh, [{"x"}, {"y"}]>]>
module @a_bias_without_annotation_is_split_as_the_tensor_it_is_added_to {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%bias: tensor<8xf32>, %a: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<4x8xf32> {
    %0 = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
    %1 = stablehlo.add %0, %a : tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_reduction_passes_on_what_it_keeps
// CHECK: %arg0: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}]>
// CHECK-SAME: {{[^[]*}}[{"y"}]>
// CHECK: stablehlo.reduce{{.*}}per_value<[<@mesh, [{"x"}]>]>
// CHECK: stablehlo.reduce{{.*}}per_value<[<@mesh, [{"y"}]>]>
module @a_reduction_passes_on_what_it_keeps {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> (tensor<4xf32>, tensor<8xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    %1 = stablehlo.reduce(%a init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>
    return %0, %1 : tensor<4xf32>, tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @the_axes_of_a_reduced_tensor_reach_back_to_the_operand
// CHECK: %arg0: {{[^[]*}}[{"x"}, {}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}]>
// CHECK: stablehlo.reduce{{.*}}per_value<[<@mesh, [{"x"}]>]>
module @the_axes_of_a_reduced_tensor_reach_back_to_the_operand {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<4x8xf32>) -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// CHECK-LABEL: module @all_operands_of_one_reduction_are_split_alike
// CHECK: %arg0: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}]>
// CHECK-SAME: {{[^[]*}}[{"x"}]>
// CHECK: stablehlo.reduce{{.*}}per_value<[<@mesh, [{"x"}]>, <@mesh, [{"x"}]>]>
module @all_operands_of_one_reduction_are_split_alike {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %b: tensor<4x8xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.reduce(%a init: %low), (%b init: %zero) across dimensions = [1] : (tensor<4x8xf32>, tensor<4x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
     reducer(%v: tensor<f32>, %w: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
      %g = stablehlo.compare GT, %v, %w : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %m = stablehlo.select %g, %v, %w : tensor<i1>, tensor<f32>
      %k = stablehlo.select %g, %i, %j : tensor<i1>, tensor<i32>
      stablehlo.return %m, %k : tensor<f32>, tensor<i32>
    }
    return %0#0, %0#1 : tensor<4xf32>, tensor<4xi32>
  }
}

// -----

// CHECK-LABEL: module @dimensions_of_size_one_keep_apart_and_do_not_pass_axes_on
// CHECK: %arg0: {{[^[]*}}[{}, {"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{}]>
// CHECK: stablehlo.reduce({{%[^{]*}} :
module @dimensions_of_size_one_keep_apart_and_do_not_pass_axes_on {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<1x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"x"}]>}) -> tensor<1xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<1x8xf32>, tensor<f32>) -> tensor<1xf32>
    return %0 : tensor<1xf32>
  }
}
