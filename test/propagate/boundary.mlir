// RUN: gspmd-opt --split-input-file --gspmd-propagate %s | FileCheck %s

// CHECK-LABEL: module @what_is_asked_of_an_argument_and_a_result_is_kept_even_if_they_differ
// CHECK: %arg0: {{[^[]*}}[{"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{"y"}]>
module @what_is_asked_of_an_argument_and_a_result_is_kept_even_if_they_differ {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) {
    return %a : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @one_value_returned_twice_may_be_asked_for_in_two_ways
// CHECK: %arg0: {{[^[]*}}[{"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}]>
// CHECK-SAME: {{[^[]*}}[{"y"}]>
// CHECK-SAME: {{[^[]*}}[{"x"}]>
// CHECK: stablehlo.sine{{.*}}per_value<[<@mesh, [{"x"}]>]>
module @one_value_returned_twice_may_be_asked_for_in_two_ways {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8xf32>)
      -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}, tensor<8xf32>) {
    %0 = stablehlo.sine %a : tensor<8xf32>
    return %0, %0, %0 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @an_uneven_sharding_that_was_asked_for_is_kept_at_the_boundary
// CHECK: %arg0: {{[^[]*}}[{"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}]>
// CHECK: stablehlo.sine{{.*}}per_value<[<@mesh, [{"x"}]>]>
module @an_uneven_sharding_that_was_asked_for_is_kept_at_the_boundary {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = stablehlo.sine %a : tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}

// -----

// CHECK-LABEL: module @an_uneven_sharding_that_was_chosen_is_cut_to_what_divides
// CHECK: %arg0: {{[^[]*}}[{"x":(1)2}, {}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"x"}, {"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x":(1)2}, {}]>
// CHECK: stablehlo.add{{.*}}per_value<[<@mesh, [{"x"}, {"y"}]>]>
module @an_uneven_sharding_that_was_chosen_is_cut_to_what_divides {
  sdy.mesh @mesh = <["x"=4, "y"=3]>
  func.func public @main(%a: tensor<6x5xf32>, %b: tensor<6x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<6x5xf32> {
    %0 = stablehlo.add %a, %b : tensor<6x5xf32>
    return %0 : tensor<6x5xf32>
  }
}

// -----

// CHECK-LABEL: module @an_argument_that_is_not_used_is_replicated
// CHECK: %arg0: {{[^[]*}}[{}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}]>
module @an_argument_that_is_not_used_is_replicated {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32>, %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    return %b : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @scalars_get_an_empty_sharding
// CHECK: %arg0: {{[^[]*}}[]>
// CHECK-SAME: -> {{[^[]*}}[]>
module @scalars_get_an_empty_sharding {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.sine %a : tensor<f32>
    return %0 : tensor<f32>
  }
}
