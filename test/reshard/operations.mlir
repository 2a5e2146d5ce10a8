// RUN: gspmd-opt --split-input-file --gspmd-reshard %s | FileCheck %s

// CHECK-LABEL: module @partial_sums_wanted_whole_are_all_reduced
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] {{.*}}sdy.sharding_per_value<[<@mesh, [{}, {}], unreduced={"x"}>]>}
// CHECK: [[V1:%[a-z0-9_]+]] = sdy.all_reduce {"x"} [[V0]] out_sharding=<@mesh, [{}, {}]>
// CHECK: return [[V1]]
module @partial_sums_wanted_whole_are_all_reduced {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %b: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x32xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    return %0 : tensor<8x32xf32>
  }
}

// -----

// CHECK-LABEL: module @partial_sums_wanted_split_are_reduce_scattered
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] {{.*}}sdy.sharding_per_value<[<@mesh, [{}, {}], unreduced={"x"}>]>}
// CHECK: [[V1:%[a-z0-9_]+]] = sdy.reduce_scatter [{"x"}, {}] [[V0]] out_sharding=<@mesh, [{"x"}, {}]>
// CHECK: return [[V1]]
module @partial_sums_wanted_split_are_reduce_scattered {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %b: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> (tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    return %0 : tensor<8x32xf32>
  }
}

// -----

// CHECK-LABEL: module @partial_sums_over_two_axes_of_which_one_is_wanted_are_scattered_over_both_and_gathered
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] {{.*}}sdy.sharding_per_value<[<@mesh, [{}, {}], unreduced={"x", "y"}>]>}
// CHECK: [[V1:%[a-z0-9_]+]] = sdy.reduce_scatter [{"y", "x"}, {}] [[V0]] out_sharding=<@mesh, [{"y", "x"}, {}]>
// CHECK: [[V2:%[a-z0-9_]+]] = sdy.all_gather [{"x"}, {}] [[V1]] out_sharding=<@mesh, [{"y"}, {}]>
// CHECK: return [[V2]]
module @partial_sums_over_two_axes_of_which_one_is_wanted_are_scattered_over_both_and_gathered {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<512x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x", "y"}]>}, %b: tensor<4096x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>})
      -> (tensor<512x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}, {}]>]>} : (tensor<512x4096xf32>, tensor<4096x512xf32>) -> tensor<512x512xf32>
    return %0 : tensor<512x512xf32>
  }
}

// -----

// CHECK-LABEL: module @a_maximum_over_a_split_dimension_is_combined_by_maximum
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.reduce(%arg0 init: {{%[a-z0-9_]+}}) applies stablehlo.maximum across dimensions = [1] {{.*}}sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>}
// CHECK: [[V1:%[a-z0-9_]+]] = sdy.all_reduce {"x"} [[V0]] out_sharding=<@mesh, [{}]> {{.*}}gspmd.combiner = "max"}
// CHECK: return [[V1]]
module @a_maximum_over_a_split_dimension_is_combined_by_maximum {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<8xf32> {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @minimum_product_and_or_are_combined_by_themselves
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.reduce(%arg0 init: {{%[a-z0-9_]+}}) applies stablehlo.minimum across dimensions = [1] {{.*}}sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>}
// CHECK: [[V1:%[a-z0-9_]+]] = sdy.all_reduce {"x"} [[V0]] out_sharding=<@mesh, [{}]> {{.*}}gspmd.combiner = "min"}
// CHECK: [[V2:%[a-z0-9_]+]] = stablehlo.reduce(%arg0 init: {{%[a-z0-9_]+}}) applies stablehlo.multiply across dimensions = [1] {{.*}}sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>}
// CHECK: [[V3:%[a-z0-9_]+]] = sdy.all_reduce {"x"} [[V2]] out_sharding=<@mesh, [{}]> {{.*}}gspmd.combiner = "mul"}
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.reduce(%arg1 init: {{%[a-z0-9_]+}}) applies stablehlo.and across dimensions = [1] {{.*}}sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>}
// CHECK: [[V5:%[a-z0-9_]+]] = sdy.all_reduce {"x"} [[V4]] out_sharding=<@mesh, [{}]> {{.*}}gspmd.combiner = "and"}
// CHECK: [[V6:%[a-z0-9_]+]] = stablehlo.reduce(%arg1 init: {{%[a-z0-9_]+}}) applies stablehlo.or across dimensions = [1] {{.*}}sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>}
// CHECK: [[V7:%[a-z0-9_]+]] = sdy.all_reduce {"x"} [[V6]] out_sharding=<@mesh, [{}]> {{.*}}gspmd.combiner = "or"}
// CHECK: return [[V1]], [[V3]], [[V5]], [[V7]]
module @minimum_product_and_or_are_combined_by_themselves {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x4096xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %p: tensor<8x4096xi1> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> (tensor<8xi32>, tensor<8xi32>, tensor<8xi1>, tensor<8xi1>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %t = stablehlo.constant dense<true> : tensor<i1>
    %0 = stablehlo.reduce(%a init: %c) applies stablehlo.minimum across dimensions = [1] : (tensor<8x4096xi32>, tensor<i32>) -> tensor<8xi32>
    %1 = stablehlo.reduce(%a init: %c) applies stablehlo.multiply across dimensions = [1] : (tensor<8x4096xi32>, tensor<i32>) -> tensor<8xi32>
    %2 = stablehlo.reduce(%p init: %t) applies stablehlo.and across dimensions = [1] : (tensor<8x4096xi1>, tensor<i1>) -> tensor<8xi1>
    %3 = stablehlo.reduce(%p init: %t) applies stablehlo.or across dimensions = [1] : (tensor<8x4096xi1>, tensor<i1>) -> tensor<8xi1>
    return %0, %1, %2, %3 : tensor<8xi32>, tensor<8xi32>, tensor<8xi1>, tensor<8xi1>
  }
}

// -----

// CHECK-LABEL: module @a_scatter_of_a_maximum_keeps_its_combiner
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.reduce(%arg0 init: {{%[a-z0-9_]+}}) applies stablehlo.maximum across dimensions = [1] {{.*}}sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>}
// CHECK: [[V1:%[a-z0-9_]+]] = sdy.reduce_scatter [{"x"}] [[V0]] out_sharding=<@mesh, [{"x"}]> {{.*}}gspmd.combiner = "max"}
// CHECK: return [[V1]]
module @a_scatter_of_a_maximum_keeps_its_combiner {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %low) applies stablehlo.maximum across dimensions = [1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @the_smaller_operand_of_a_contraction_is_moved
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_gather [{"x"}, {}] %arg1 out_sharding=<@mesh, [{}, {}]>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.dot_general %arg0, [[V0]], contracting_dims = [1] x [0] {{.*}}sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>}
// CHECK: return [[V1]]
module @the_smaller_operand_of_a_contraction_is_moved {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<1024x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<256x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> (tensor<1024x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : (tensor<1024x256xf32>, tensor<256x256xf32>) -> tensor<1024x256xf32>
    return %0 : tensor<1024x256xf32>
  }
}

// -----

// CHECK-LABEL: module @one_gather_serves_all_its_users
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_gather [{"x"}] %arg0 out_sharding=<@mesh, [{}]>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.reverse [[V0]], dims = [0]
// CHECK: [[V2:%[a-z0-9_]+]] = stablehlo.slice [[V0]] [1:5]
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.concatenate [[V2]], [[V2]], dim = 0
// CHECK: return [[V1]], [[V3]]
module @one_gather_serves_all_its_users {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
    %0 = stablehlo.reverse %a, dims = [0] : tensor<8xf32>
    %1 = stablehlo.slice %a [1:5] : (tensor<8xf32>) -> tensor<4xf32>
    %2 = stablehlo.concatenate %1, %1, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
    return %0, %2 : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_sharding_constraint_becomes_a_move_and_goes
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_gather [{"x"}] %arg0 out_sharding=<@mesh, [{}]>
// CHECK: return [[V0]]
module @a_sharding_constraint_becomes_a_move_and_goes {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %0 = sdy.sharding_constraint %a <@mesh, [{}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @an_elementwise_operation_is_computed_where_its_larger_part_is
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_slice [{"x"}, {}] %arg1 out_sharding=<@mesh, [{"x"}, {}]>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.add %arg0, [[V0]] {{.*}}sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>}
// CHECK: return [[V1]]
module @an_elementwise_operation_is_computed_where_its_larger_part_is {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<1024x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<1024x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
      -> (tensor<1024x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.add %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<1024x8xf32>
    return %0 : tensor<1024x8xf32>
  }
}

// -----

// CHECK-LABEL: module @partial_sums_of_an_uneven_dimension_are_scattered
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.reduce(%arg0 init: {{%[a-z0-9_]+}}) applies stablehlo.add across dimensions = [1] {{.*}}sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>}
// CHECK: [[V1:%[a-z0-9_]+]] = sdy.reduce_scatter [{"x"}] [[V0]] out_sharding=<@mesh, [{"x"}]>
// CHECK: return [[V1]]
module @partial_sums_of_an_uneven_dimension_are_scattered {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<6x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> (tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : (tensor<6x16xf32>, tensor<f32>) -> tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}

// -----

// CHECK-LABEL: module @a_part_of_an_axis_is_reduced_and_the_rest_stays
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.reduce(%arg0 init: {{%[a-z0-9_]+}}) applies stablehlo.add across dimensions = [1] {{.*}}sdy.sharding_per_value<[<@mesh, [{"x":(1)2}], unreduced={"x":(2)4}>]>}
// CHECK: [[V1:%[a-z0-9_]+]] = sdy.all_reduce {"x":(2)4} [[V0]] out_sharding=<@mesh, [{"x":(1)2}]>
// CHECK: return [[V1]]
module @a_part_of_an_axis_is_reduced_and_the_rest_stays {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {"x":(2)4}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}]>}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x":(1)2}]>]>} : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_constant_wanted_in_another_way_is_made_again
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.constant {{.*}}sdy.sharding_per_value<[<@mesh, [{}]>]>} dense<1.000000e+00> : tensor<8xf32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.constant {{.*}}sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} dense<1.000000e+00> : tensor<8xf32>
// CHECK: return [[V0]]
module @a_constant_wanted_in_another_way_is_made_again {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main() -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %0 = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} dense<1.0> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
