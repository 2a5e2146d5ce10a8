// RUN: gspmd-opt --split-input-file --gspmd-propagate %s | FileCheck %s

// CHECK-LABEL: module @a_constant_used_by_two_operations_split_differently_is_cloned
// CHECK: [[Y:%[a-z0-9_]+]] = stablehlo.constant {{.*}}[{"y"}]
// CHECK: [[X:%[a-z0-9_]+]] = stablehlo.constant {{.*}}[{"x"}]
// CHECK: stablehlo.add %arg0, [[X]] {{.*}}[{"x"}]
// CHECK: stablehlo.add %arg1, [[Y]] {{.*}}[{"y"}]
module @a_constant_used_by_two_operations_split_differently_is_cloned {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
    %one = stablehlo.constant dense<1.0> : tensor<8xf32>
    %0 = stablehlo.add %a, %one : tensor<8xf32>
    %1 = stablehlo.add %b, %one : tensor<8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_constant_used_twice_alike_is_not_cloned
// CHECK: [[X:%[a-z0-9_]+]] = stablehlo.constant {{.*}}[{"x"}]
// CHECK-NOT: stablehlo.constant
// CHECK: stablehlo.add %arg0, [[X]] {{.*}}[{"x"}]
// CHECK: stablehlo.multiply %arg0, [[X]] {{.*}}[{"x"}]
module @a_constant_used_twice_alike_is_not_cloned {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
    %one = stablehlo.constant dense<1.0> : tensor<8xf32>
    %0 = stablehlo.add %a, %one : tensor<8xf32>
    %1 = stablehlo.multiply %a, %one : tensor<8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @an_iota_and_a_broadcast_scalar_are_cloned_too
// CHECK: [[IOTA_Y:%[0-9]+]] = stablehlo.iota {{.*}}[{"y"}]
// CHECK: [[IOTA_X:%[0-9]+]] = stablehlo.iota {{.*}}[{"x"}]
// CHECK: [[SPLAT_Y:%[0-9]+]] = stablehlo.broadcast_in_dim {{.*}}[{"y"}]
// CHECK: [[SPLAT_X:%[0-9]+]] = stablehlo.broadcast_in_dim {{.*}}[{"x"}]
// CHECK: [[A:%[0-9]+]] = stablehlo.add %arg0, [[IOTA_X]]
// CHECK: [[B:%[0-9]+]] = stablehlo.add %arg1, [[IOTA_Y]]
// CHECK: stablehlo.add [[A]], [[SPLAT_X]]
// CHECK: stablehlo.add [[B]], [[SPLAT_Y]]
module @an_iota_and_a_broadcast_scalar_are_cloned_too {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) -> (tensor<8xi32>, tensor<8xi32>) {
    %i = stablehlo.iota dim = 0 : tensor<8xi32>
    %c = stablehlo.constant dense<7> : tensor<i32>
    %s = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %0 = stablehlo.add %a, %i : tensor<8xi32>
    %1 = stablehlo.add %b, %i : tensor<8xi32>
    %2 = stablehlo.add %0, %s : tensor<8xi32>
    %3 = stablehlo.add %1, %s : tensor<8xi32>
    return %2, %3 : tensor<8xi32>, tensor<8xi32>
  }
}

// -----

// CHECK-LABEL: module @a_shared_constant_carries_no_axes_from_one_use_to_the_other
// CHECK: %arg1: {{[^[]*}}[{}]>
// CHECK: [[WHOLE:%[a-z0-9_]+]] = stablehlo.constant dense<
// CHECK: [[X:%[a-z0-9_]+]] = stablehlo.constant {{.*}}[{"x"}]
// CHECK: stablehlo.add %arg0, [[X]] {{.*}}[{"x"}]
// CHECK: stablehlo.add %arg1, [[WHOLE]] :
module @a_shared_constant_carries_no_axes_from_one_use_to_the_other {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %one = stablehlo.constant dense<1.0> : tensor<8xf32>
    %0 = stablehlo.add %a, %one : tensor<8xf32>
    %1 = stablehlo.add %b, %one : tensor<8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_constant_that_is_a_result_is_split_as_the_result
// CHECK: -> {{[^[]*}}[{"x"}]>
// CHECK-SAME: {{[^[]*}}[{}]>
// CHECK: [[WHOLE:%[a-z0-9_]+]] = stablehlo.constant dense<
// CHECK: [[X:%[a-z0-9_]+]] = stablehlo.constant {{.*}}[{"x"}]
// CHECK: return [[X]], [[WHOLE]]
module @a_constant_that_is_a_result_is_split_as_the_result {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main() -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, tensor<8xf32>) {
    %one = stablehlo.constant dense<1.0> : tensor<8xf32>
    return %one, %one : tensor<8xf32>, tensor<8xf32>
  }
}
