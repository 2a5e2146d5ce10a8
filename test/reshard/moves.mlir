// RUN: gspmd-opt --split-input-file --gspmd-reshard %s | FileCheck %s

// CHECK-LABEL: module @a_replicated_result_gathers_one_dimension
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_gather [{"x"}, {}] %arg0 out_sharding=<@mesh, [{}, {}]>
// CHECK: return [[V0]]
module @a_replicated_result_gathers_one_dimension {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    return %a : tensor<8x6xf32>
  }
}

// -----

// CHECK-LABEL: module @several_dimensions_are_gathered_with_one_operation
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_gather [{"x"}, {"y"}] %arg0 out_sharding=<@mesh, [{}, {}]>
// CHECK: return [[V0]]
module @several_dimensions_are_gathered_with_one_operation {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> (tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    return %a : tensor<8x6xf32>
  }
}

// -----

// CHECK-LABEL: module @only_the_minor_axes_are_gathered_where_the_major_ones_stay
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_gather [{"y"}] %arg0 out_sharding=<@mesh, [{"x"}]>
// CHECK: return [[V0]]
module @only_the_minor_axes_are_gathered_where_the_major_ones_stay {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    return %a : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_major_part_of_an_axis_stays_and_the_rest_is_gathered
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_gather [{"x":(2)4}] %arg0 out_sharding=<@mesh, [{"x":(1)2}]>
// CHECK: return [[V0]]
module @a_major_part_of_an_axis_stays_and_the_rest_is_gathered {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}]>}) {
    return %a : tensor<16xf32>
  }
}

// -----

// CHECK-LABEL: module @a_split_result_is_cut_out_without_communication
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_slice [{"x"}, {"y"}] %arg0 out_sharding=<@mesh, [{"x"}, {"y"}]>
// CHECK: return [[V0]]
module @a_split_result_is_cut_out_without_communication {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> (tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
    return %a : tensor<8x6xf32>
  }
}

// -----

// CHECK-LABEL: module @an_axis_that_moves_to_another_dimension_is_an_all_to_all
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_to_all [{"x"}: 0->1] %arg0 out_sharding=<@mesh, [{}, {"x"}]>
// CHECK: return [[V0]]
module @an_axis_that_moves_to_another_dimension_is_an_all_to_all {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    return %a : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @two_dimensions_that_swap_their_axes_permute_shards
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.collective_permute %arg0 out_sharding=<@mesh, [{"y"}, {"x"}]>
// CHECK: return [[V0]]
module @two_dimensions_that_swap_their_axes_permute_shards {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}) {
    return %a : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @axes_in_another_order_permute_shards
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.collective_permute %arg0 out_sharding=<@mesh, [{"y", "x"}, {}]>
// CHECK: return [[V0]]
module @axes_in_another_order_permute_shards {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y", "x"}, {}]>}) {
    return %a : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @another_axis_of_the_same_size_permutes_shards
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.collective_permute %arg0 out_sharding=<@mesh, [{"y"}, {}]>
// CHECK: return [[V0]]
module @another_axis_of_the_same_size_permutes_shards {
  sdy.mesh @mesh = <["x"=4, "y"=4]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) {
    return %a : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_minor_axis_moves_to_another_dimension_and_the_major_one_stays
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_to_all [{"y"}: 0->1] %arg0 out_sharding=<@mesh, [{"x"}, {"y"}]>
// CHECK: return [[V0]]
module @a_minor_axis_moves_to_another_dimension_and_the_major_one_stays {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
    return %a : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_major_axis_that_leaves_sends_blocks_instead_of_a_gather
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.reshard %arg0 <@mesh, [{"y"}, {"x"}]>
// CHECK-NEXT: return [[V0]]
module @a_major_axis_that_leaves_sends_blocks_instead_of_a_gather {
  sdy.mesh @mesh = <["x"=4, "y"=4]>
  func.func public @main(%a: tensor<512x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>}) -> (tensor<512x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}) {
    return %a : tensor<512x512xf32>
  }
}

// -----

// CHECK-LABEL: module @what_is_cut_out_is_cut_before_the_rest_is_gathered
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_slice [{}, {"y"}] %arg0 out_sharding=<@mesh, [{"x"}, {"y"}]>
// CHECK: [[V1:%[a-z0-9_]+]] = sdy.all_gather [{"x"}, {}] [[V0]] out_sharding=<@mesh, [{}, {"y"}]>
// CHECK: return [[V1]]
module @what_is_cut_out_is_cut_before_the_rest_is_gathered {
  sdy.mesh @mesh = <["x"=4, "y"=4]>
  func.func public @main(%a: tensor<512x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<512x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) {
    return %a : tensor<512x512xf32>
  }
}

// -----

// CHECK-LABEL: module @uneven_dimensions_are_gathered_and_cut_as_well
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_gather [{"x"}] %arg0 out_sharding=<@mesh, [{}]>
// CHECK: [[V1:%[a-z0-9_]+]] = sdy.all_slice [{"x"}] %arg1 out_sharding=<@mesh, [{"x"}]>
// CHECK: return [[V0]], [[V1]]
module @uneven_dimensions_are_gathered_and_cut_as_well {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) -> (tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    return %a, %b : tensor<6xf32>, tensor<6xf32>
  }
}

// -----

// CHECK-LABEL: module @an_all_to_all_between_uneven_dimensions
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_to_all [{"x"}: 0->1] %arg0 out_sharding=<@mesh, [{}, {"x"}]>
// CHECK: return [[V0]]
module @an_all_to_all_between_uneven_dimensions {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<6x7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<6x7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    return %a : tensor<6x7xf32>
  }
}

// -----

// CHECK-LABEL: module @joined_shards_that_do_not_nest_get_other_boundaries
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_gather [{"y"}] %arg0 out_sharding=<@mesh, [{"x"}]>
// CHECK-NEXT: return [[V0]]
module @joined_shards_that_do_not_nest_get_other_boundaries {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<5001xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}]>}) -> (tensor<5001xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    return %a : tensor<5001xf32>
  }
}

// -----

// CHECK-LABEL: module @cut_shards_that_do_not_nest_get_other_boundaries
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.reshard %arg0 <@mesh, [{"x", "y"}]>
// CHECK-NEXT: return [[V0]]
module @cut_shards_that_do_not_nest_get_other_boundaries {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<5001xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<5001xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}]>}) {
    return %a : tensor<5001xf32>
  }
}

// -----

// CHECK-LABEL: module @nothing_happens_where_the_sharding_is_right_already
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.sine %arg0 {{.*}}sdy.sharding_per_value<[<@mesh, [{"x"}]>]>}
// CHECK: return [[V0]]
module @nothing_happens_where_the_sharding_is_right_already {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = stablehlo.sine %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @axes_that_meet_on_a_third_dimension_go_there_at_once
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.reshard %arg0 <@mesh, [{}, {"x", "y"}, {}]>
// CHECK-NEXT: return [[V0]]
module @axes_that_meet_on_a_third_dimension_go_there_at_once {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8x64x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}, {"x"}]>}) -> (tensor<8x64x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x", "y"}, {}]>}) {
    return %a : tensor<8x64x8xf32>
  }
}

// -----

// CHECK-LABEL: module @axes_of_two_dimensions_go_to_two_others_with_one_all_to_all
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.all_to_all [{"x"}: 0->2, {"y"}: 1->3] %arg0 out_sharding=<@mesh, [{}, {}, {"x"}, {"y"}]>
// CHECK-NEXT: return [[V0]]
module @axes_of_two_dimensions_go_to_two_others_with_one_all_to_all {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8x8x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}, {}, {}]>}) -> (tensor<8x8x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"x"}, {"y"}]>}) {
    return %a : tensor<8x8x8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @parts_that_do_not_nest_leave_other_axes_alone
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.reshard %arg0 <@mesh, [{"x":(1)3}, {"y"}]>
// CHECK-NEXT: return [[V0]]
module @parts_that_do_not_nest_leave_other_axes_alone {
  sdy.mesh @mesh = <["x"=6, "y"=2]>
  func.func public @main(%a: tensor<12x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {"y"}]>}) -> (tensor<12x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)3}, {"y"}]>}) {
    return %a : tensor<12x8xf32>
  }
}

// -----

// The axes of the target come to the end, in its order, so that one all-to-all moves both. Over four axes, paths are
// searched for.

// CHECK-LABEL: module @axes_are_permuted_before_they_leave_together
// CHECK: [[V0:%[a-z0-9_]+]] = sdy.collective_permute %arg0 out_sharding=<@mesh, [{}, {"y", "z", "x"}]>
// CHECK: [[V1:%[a-z0-9_]+]] = sdy.all_to_all [{"z", "x"}: 1->0] [[V0]] out_sharding=<@mesh, [{"z", "x"}, {"y"}]>
// CHECK: return [[V1]]
module @axes_are_permuted_before_they_leave_together {
  sdy.mesh @mesh = <["x"=4, "y"=2, "z"=2, "w"=2]>
  func.func public @main(%a: tensor<512x500xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x", "y", "z"}]>}) -> (tensor<512x500xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"z", "x"}, {"y"}]>}) {
    return %a : tensor<512x500xf32>
  }
}
