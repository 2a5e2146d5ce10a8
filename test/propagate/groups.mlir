// RUN: gspmd-opt --split-input-file --gspmd-propagate %s | FileCheck %s

// CHECK-LABEL: module @members_of_a_group_are_split_alike
// CHECK: stablehlo.sine {{.*}}per_value<[<@mesh, [{"x"}, {}]>]>
// CHECK: stablehlo.cosine {{.*}}per_value<[<@mesh, [{"x"}, {}]>]>
// CHECK-NOT: sdy.sharding_group
module @members_of_a_group_are_split_alike {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<8x4xf32>)
      -> (tensor<8x4xf32>, tensor<8x4xf32>) {
    %0 = stablehlo.sine %a : tensor<8x4xf32>
    %1 = stablehlo.cosine %b : tensor<8x4xf32>
    sdy.sharding_group %0 group_id=0 : tensor<8x4xf32>
    sdy.sharding_group %1 group_id=0 : tensor<8x4xf32>
    return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
  }
}

// -----

// Both members are pulled another way by their operand; one of them gives in.

// CHECK-LABEL: module @members_end_identical_where_their_operands_differ
// CHECK: stablehlo.sine {{.*}}per_value<[<@mesh, [{"y"}, {"x"}]>]>
// CHECK: stablehlo.cosine {{.*}}per_value<[<@mesh, [{"y"}, {"x"}]>]>
module @members_end_identical_where_their_operands_differ {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %b: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>})
      -> (tensor<8x4xf32>, tensor<8x4xf32>) {
    %0 = stablehlo.sine %a : tensor<8x4xf32>
    %1 = stablehlo.cosine %b : tensor<8x4xf32>
    sdy.sharding_group %0 group_id=0 : tensor<8x4xf32>
    sdy.sharding_group %1 group_id=0 : tensor<8x4xf32>
    return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
  }
}

// -----

// A value in two groups makes them one; a constant in a group is split as the group is.

// CHECK-LABEL: module @groups_with_a_common_member_are_one
// CHECK: @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %arg2: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
// CHECK: stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>}
module @groups_with_a_common_member_are_one {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32>, %b: tensor<8xf32>,
                         %c: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    sdy.sharding_group %a group_id=0 : tensor<8xf32>
    sdy.sharding_group %b group_id=0 : tensor<8xf32>
    sdy.sharding_group %b group_id=1 : tensor<8xf32>
    sdy.sharding_group %c group_id=1 : tensor<8xf32>
    %0 = stablehlo.constant dense<1.0> : tensor<8xf32>
    sdy.sharding_group %0 group_id=1 : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @what_is_only_alike_may_stay_different
// CHECK: stablehlo.sine {{.*}}[{"x"}]>
// CHECK: stablehlo.cosine {{.*}}[{"y"}]>
// CHECK: stablehlo.tan {{.*}}[{"x"}]>
// CHECK-NOT: gspmd.like
module @what_is_only_alike_may_stay_different {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
                         %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}, %c: tensor<8xf32>)
      -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
    %0 = stablehlo.sine %a : tensor<8xf32>
    %1 = stablehlo.cosine %b : tensor<8xf32>
    %2 = stablehlo.tan %c : tensor<8xf32>
    sdy.sharding_group %0 group_id=0 {gspmd.like} : tensor<8xf32>
    sdy.sharding_group %1 group_id=0 {gspmd.like} : tensor<8xf32>
    sdy.sharding_group %2 group_id=0 {gspmd.like} : tensor<8xf32>
    return %0, %1, %2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_forward_barrier_lets_operands_split_results_only
// CHECK: @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>})
// CHECK-SAME: -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
// CHECK: sdy.sharding_constraint %arg0 <@mesh, [{"x"}]>
// CHECK: sdy.sharding_constraint %arg1 <@mesh, [{"x"}]>
// CHECK-NOT: sdy.propagation_barrier
module @a_forward_barrier_lets_operands_split_results_only {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8xf32>)
      -> (tensor<8xf32>, tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = sdy.propagation_barrier %a allowed_direction=FORWARD : tensor<8xf32>
    %1 = sdy.propagation_barrier %b allowed_direction=FORWARD : tensor<8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_backward_barrier_lets_results_split_operands_only
// CHECK: @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
// CHECK-SAME: -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
module @a_backward_barrier_lets_results_split_operands_only {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8xf32>)
      -> (tensor<8xf32>, tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = sdy.propagation_barrier %a allowed_direction=BACKWARD : tensor<8xf32>
    %1 = sdy.propagation_barrier %b allowed_direction=BACKWARD : tensor<8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_closed_barrier_lets_nothing_through_but_groups
// CHECK: stablehlo.sine %arg0 {sdy.sharding
// CHECK: sdy.sharding_constraint {{.*}}[{}]>
// CHECK: stablehlo.cosine {{%[0-9]+}} : tensor<8xf32>
// CHECK: stablehlo.tan {{.*}}[{"x"}]>
module @a_closed_barrier_lets_nothing_through_but_groups {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8xf32>)
      -> (tensor<8xf32>, tensor<8xf32>) {
    %0 = stablehlo.sine %a : tensor<8xf32>
    %1 = sdy.propagation_barrier %0 allowed_direction=NONE : tensor<8xf32>
    %2 = stablehlo.cosine %1 : tensor<8xf32>
    %3 = sdy.propagation_barrier %b allowed_direction=NONE : tensor<8xf32>
    %4 = stablehlo.tan %3 : tensor<8xf32>
    sdy.sharding_group %0 group_id=7 : tensor<8xf32>
    sdy.sharding_group %4 group_id=7 : tensor<8xf32>
    return %2, %4 : tensor<8xf32>, tensor<8xf32>
  }
}
