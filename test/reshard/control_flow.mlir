// RUN: gspmd-opt --split-input-file --gspmd-reshard %s | FileCheck %s

// CHECK-LABEL: module @a_value_from_outside_is_moved_once_before_the_loop
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_gather [{"x"}] %arg1 out_sharding=<@mesh, [{}]>
// CHECK: [[V1:%[a-z0-9_]+]]:2 = stablehlo.while([[V2:%[a-zA-Z0-9_]+]] = {{%[a-z0-9_]+}}, [[V3:%[a-zA-Z0-9_]+]] = %arg0)
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.reverse [[V0]], dims = [0]
// CHECK: [[V5:%[a-z0-9_]+]] = stablehlo.add [[V3]], [[V4]]
// CHECK: stablehlo.return {{%[a-z0-9_]+}}, [[V5]]
// CHECK: return [[V1]]#1
module @a_value_from_outside_is_moved_once_before_the_loop {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %w: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<8xf32>
     cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %r = stablehlo.reverse %w, dims = [0] : tensor<8xf32>
      %2 = stablehlo.add %c, %r : tensor<8xf32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_value_made_in_the_body_is_moved_in_the_body
// CHECK: [[V0:%[a-z0-9_]+]]:2 = stablehlo.while([[V1:%[a-zA-Z0-9_]+]] = {{%[a-z0-9_]+}}, [[V2:%[a-zA-Z0-9_]+]] = %arg0) : tensor<i32>, tensor<8xf32> attributes {{.*}}sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{"x"}]>]>}
// CHECK: [[V3:%[a-z0-9_]+]] = sdy.all_gather [{"x"}] [[V2]] out_sharding=<@mesh, [{}]>
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.reverse [[V3]], dims = [0]
// CHECK: [[V5:%[a-z0-9_]+]] = sdy.all_slice [{"x"}] [[V4]] out_sharding=<@mesh, [{"x"}]>
// CHECK: stablehlo.return {{%[a-z0-9_]+}}, [[V5]]
// CHECK: return [[V0]]#1
module @a_value_made_in_the_body_is_moved_in_the_body {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<8xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{"x"}]>]>}
     cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = stablehlo.reverse %c, dims = [0] : tensor<8xf32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @the_initial_value_and_what_the_body_returns_become_what_the_carry_is
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.collective_permute %arg0 out_sharding=<@mesh, [{"x"}]>
// CHECK: [[V1:%[a-z0-9_]+]]:2 = stablehlo.while([[V2:%[a-zA-Z0-9_]+]] = {{%[a-z0-9_]+}}, [[V3:%[a-zA-Z0-9_]+]] = [[V0]]) : tensor<i32>, tensor<16xf32> attributes {{.*}}sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{"x"}]>]>}
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.sine [[V3]] {{.*}}sdy.sharding_per_value<[<@mesh, [{"x"}]>]>}
// CHECK: [[V5:%[a-z0-9_]+]] = sdy.collective_permute [[V4]] out_sharding=<@mesh, [{"y"}]>
// CHECK: [[V6:%[a-z0-9_]+]] = sdy.collective_permute [[V5]] out_sharding=<@mesh, [{"x"}]>
// CHECK: stablehlo.return {{%[a-z0-9_]+}}, [[V6]]
// CHECK: return [[V1]]#1
module @the_initial_value_and_what_the_body_returns_become_what_the_carry_is {
  sdy.mesh @mesh = <["x"=4, "y"=4]>
  func.func public @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<16xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{"x"}]>]>}
     cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = stablehlo.sine %c {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}]>]>} : tensor<16xf32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<16xf32>
    }
    return %0#1 : tensor<16xf32>
  }
}

// -----

// CHECK-LABEL: module @a_gather_before_the_loop_also_serves_users_behind_it
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_gather [{"x"}] %arg1 out_sharding=<@mesh, [{}]>
// CHECK: [[V1:%[a-z0-9_]+]]:2 = stablehlo.while([[V2:%[a-zA-Z0-9_]+]] = {{%[a-z0-9_]+}}, [[V3:%[a-zA-Z0-9_]+]] = %arg0)
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.reverse [[V0]], dims = [0]
// CHECK: [[V5:%[a-z0-9_]+]] = stablehlo.add [[V3]], [[V4]]
// CHECK: stablehlo.return {{%[a-z0-9_]+}}, [[V5]]
// CHECK: [[V6:%[a-z0-9_]+]] = stablehlo.reverse [[V0]], dims = [0]
// CHECK: [[V7:%[a-z0-9_]+]] = stablehlo.add [[V1]]#1, [[V6]]
// CHECK: return [[V7]]
module @a_gather_before_the_loop_also_serves_users_behind_it {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %w: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<8xf32>
     cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %r = stablehlo.reverse %w, dims = [0] : tensor<8xf32>
      %2 = stablehlo.add %c, %r : tensor<8xf32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<8xf32>
    }
    %r = stablehlo.reverse %w, dims = [0] : tensor<8xf32>
    %3 = stablehlo.add %0#1, %r : tensor<8xf32>
    return %3 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @branches_return_what_the_result_is
// CHECK: [[V0:%[a-z0-9_]+]] = "stablehlo.if"(%arg0) ({
// CHECK: stablehlo.return %arg1
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.cosine %arg2
// CHECK: [[V2:%[a-z0-9_]+]] = sdy.all_slice [{"x"}] [[V1]] out_sharding=<@mesh, [{"x"}]>
// CHECK: stablehlo.return [[V2]]
// CHECK: return [[V0]]
module @branches_return_what_the_result_is {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%p: tensor<i1>, %a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = "stablehlo.if"(%p) ({
      stablehlo.return %a : tensor<8xf32>
    }, {
      %1 = stablehlo.cosine %b : tensor<8xf32>
      stablehlo.return %1 : tensor<8xf32>
    }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : (tensor<i1>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_move_in_one_branch_is_not_used_in_the_other
// CHECK: [[V0:%[a-z0-9_]+]] = "stablehlo.if"(%arg0) ({
// CHECK: [[V1:%[a-z0-9_]+]] = sdy.all_gather [{"x"}] %arg1 out_sharding=<@mesh, [{}]>
// CHECK: [[V2:%[a-z0-9_]+]] = stablehlo.reverse [[V1]], dims = [0]
// CHECK: stablehlo.return [[V2]]
// CHECK: [[V3:%[a-z0-9_]+]] = sdy.all_gather [{"x"}] %arg1 out_sharding=<@mesh, [{}]>
// CHECK: stablehlo.return [[V3]]
// CHECK: return [[V0]]
module @a_move_in_one_branch_is_not_used_in_the_other {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%p: tensor<i1>, %a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %0 = "stablehlo.if"(%p) ({
      %1 = stablehlo.reverse %a, dims = [0] : tensor<8xf32>
      stablehlo.return %1 : tensor<8xf32>
    }, {
      stablehlo.return %a : tensor<8xf32>
    }) : (tensor<i1>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @an_optimization_barrier_gets_its_operands_as_its_results_are
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_gather [{"x"}] %arg0 out_sharding=<@mesh, [{}]>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.optimization_barrier [[V0]]
// CHECK: return [[V1]]
module @an_optimization_barrier_gets_its_operands_as_its_results_are {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %0 = stablehlo.optimization_barrier %a : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
