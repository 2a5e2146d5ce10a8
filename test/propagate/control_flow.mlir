// RUN: gspmd-opt --split-input-file --gspmd-propagate %s | FileCheck %s

// CHECK-LABEL: module @a_carry_has_one_sharding_in_the_condition_the_body_and_the_result
// CHECK: %arg0: {{[^[]*}}[{"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}]>
// CHECK: stablehlo.while{{.*}}per_value<[<@mesh, []>, <@mesh, [{"x"}]>]>
// CHECK: stablehlo.sine{{.*}}per_value<[<@mesh, [{"x"}]>]>
module @a_carry_has_one_sharding_in_the_condition_the_body_and_the_result {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<8xf32>
     cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = stablehlo.sine %c : tensor<8xf32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_weight_of_the_body_splits_the_carry_and_the_initial_value
// CHECK: %arg0: {{[^[]*}}[{}, {"x"}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{}, {"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{}, {"x"}]>
// CHECK: stablehlo.while{{.*}}per_value<[<@mesh, []>, <@mesh, [{}, {"x"}]>]>
// CHECK: stablehlo.dot_general{{.*}}per_value<[<@mesh, [{}, {"x"}]>]>
module @a_weight_of_the_body_splits_the_carry_and_the_initial_value {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<4x8xf32>, %w: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"x"}]>}) -> tensor<4x8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<4x8xf32>
     cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = stablehlo.dot_general %c, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<4x8xf32>
    }
    return %0#1 : tensor<4x8xf32>
  }
}

// -----

// CHECK-LABEL: module @an_initial_value_that_is_a_constant_is_split_as_the_carry
// CHECK: %arg0: {{[^[]*}}[{"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}]>
// CHECK: stablehlo.constant{{.*}}per_value<[<@mesh, [{"x"}]>]>
// CHECK: stablehlo.while{{.*}}per_value<[<@mesh, []>, <@mesh, [{"x"}]>]>
// CHECK: stablehlo.add{{.*}}per_value<[<@mesh, [{"x"}]>]>
module @an_initial_value_that_is_a_constant_is_split_as_the_carry {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %zeros = stablehlo.constant dense<0.0> : tensor<8xf32>
    %0:2 = stablehlo.while(%i = %zero, %c = %zeros) : tensor<i32>, tensor<8xf32>
     cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = stablehlo.add %c, %a : tensor<8xf32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @all_branches_of_a_case_are_split_as_its_result
// CHECK: %arg0: {{[^[]*}}[]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"x"}]>
// CHECK-SAME: %arg2: {{[^[]*}}[{"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}]>
// CHECK: stablehlo.sine{{.*}}per_value<[<@mesh, [{"x"}]>]>
// CHECK: stablehlo.cosine{{.*}}per_value<[<@mesh, [{"x"}]>]>
// CHECK: sdy.sharding{{.*}}per_value<[<@mesh, [{"x"}]>]>
module @all_branches_of_a_case_are_split_as_its_result {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%k: tensor<i32>, %a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = "stablehlo.case"(%k) ({
      %1 = stablehlo.sine %a : tensor<8xf32>
      stablehlo.return %1 : tensor<8xf32>
    }, {
      %1 = stablehlo.cosine %b : tensor<8xf32>
      stablehlo.return %1 : tensor<8xf32>
    }) : (tensor<i32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @one_branch_of_an_if_splits_the_result_and_the_other_branch
// CHECK: %arg0: {{[^[]*}}[]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"x"}]>
// CHECK-SAME: %arg2: {{[^[]*}}[{"x"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}]>
// CHECK: stablehlo.cosine{{.*}}per_value<[<@mesh, [{"x"}]>]>
// CHECK: sdy.sharding{{.*}}per_value<[<@mesh, [{"x"}]>]>
module @one_branch_of_an_if_splits_the_result_and_the_other_branch {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%p: tensor<i1>, %a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8xf32>) -> tensor<8xf32> {
    %0 = "stablehlo.if"(%p) ({
      stablehlo.return %a : tensor<8xf32>
    }, {
      %1 = stablehlo.cosine %b : tensor<8xf32>
      stablehlo.return %1 : tensor<8xf32>
    }) : (tensor<i1>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @an_optimization_barrier_passes_axes_through_value_by_value
// CHECK: %arg0: {{[^[]*}}[{"x"}]>
// CHECK-SAME: %arg1: {{[^[]*}}[{"y"}]>
// CHECK-SAME: -> {{[^[]*}}[{"x"}]>
// CHECK-SAME: {{[^[]*}}[{"y"}]>
// CHECK: stablehlo.optimization_barrier{{.*}}per_value<[<@mesh, [{"x"}]>, <@mesh, [{"y"}]>]>
module @an_optimization_barrier_passes_axes_through_value_by_value {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
    %0:2 = stablehlo.optimization_barrier %a, %b : tensor<8xf32>, tensor<8xf32>
    return %0#0, %0#1 : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_constraint_on_what_a_loop_carries_on_is_one_on_what_it_carries
// CHECK: stablehlo.while{{.*}}per_value<[<@mesh, []>, <@mesh, [{"y"}]>]>
// CHECK: stablehlo.cosine{{.*}}per_value<[<@mesh, [{"y"}]>]>
module @a_constraint_on_what_a_loop_carries_on_is_one_on_what_it_carries {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%n: tensor<i32>, %a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %0:2 = stablehlo.while(%i = %n, %x = %a) : tensor<i32>, tensor<8xf32>
    cond {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %1 = stablehlo.compare NE, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.subtract %i, %one : tensor<i32>
      %2 = stablehlo.cosine %x : tensor<8xf32>
      %3 = sdy.sharding_constraint %2 <@mesh, [{"y"}]> : tensor<8xf32>
      stablehlo.return %1, %3 : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}
