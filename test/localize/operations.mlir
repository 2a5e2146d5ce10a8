// RUN: gspmd-opt --split-input-file --gspmd-localize %s | FileCheck %s

// CHECK-LABEL: module @types_shrink_to_what_a_device_holds
// CHECK: %arg0: tensor<2x3xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<3x2xf32>
// CHECK-NEXT: stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
// CHECK-NEXT: return
module @types_shrink_to_what_a_device_holds {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> (tensor<6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}) {
    %0 = stablehlo.transpose %a, dims = [1, 0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}, {"x"}]>]>} : (tensor<8x6xf32>) -> tensor<6x8xf32>
    return %0 : tensor<6x8xf32>
  }
}

// -----

// Padding becomes negative zero, which changes no sum.

// CHECK-LABEL: module @a_sum_over_an_uneven_dimension_ignores_the_padding
// CHECK: %arg0: tensor<2xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<f32>
// CHECK: %[[INSIDE:[0-9]+]] = stablehlo.compare LT
// CHECK: %[[NOTHING:.*]] = stablehlo.constant dense<-0.000000e+00> : tensor<2xf32>
// CHECK: %[[MASKED:[0-9]+]] = stablehlo.select %[[INSIDE]], %arg0, %[[NOTHING]]
// CHECK: stablehlo.reduce(%[[MASKED]] init: %{{.*}}) applies stablehlo.add
// CHECK: "stablehlo.all_reduce"
module @a_sum_over_an_uneven_dimension_ignores_the_padding {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [], unreduced={"x"}>]>} : (tensor<6xf32>, tensor<f32>) -> tensor<f32>
    %1 = sdy.all_reduce {"x"} %0 out_sharding=<@mesh, []> {gspmd.cause = "a test"} : tensor<f32>
    return %1 : tensor<f32>
  }
}

// -----

// CHECK-LABEL: module @a_maximum_over_an_uneven_dimension_fills_the_padding_with_minus_infinity
// CHECK: %[[INSIDE:[0-9]+]] = stablehlo.compare LT
// CHECK: %[[LOW:.*]] = stablehlo.constant dense<0xFF800000> : tensor<2xf32>
// CHECK: %[[MASKED:[0-9]+]] = stablehlo.select %[[INSIDE]], %arg0, %[[LOW]]
// CHECK: stablehlo.reduce(%[[MASKED]] init: %{{.*}}) applies stablehlo.maximum across dimensions = [0]
// CHECK: "stablehlo.all_reduce"
// CHECK: stablehlo.maximum
module @a_maximum_over_an_uneven_dimension_fills_the_padding_with_minus_infinity {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<f32> {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %low) applies stablehlo.maximum across dimensions = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [], unreduced={"x"}>]>} : (tensor<6xf32>, tensor<f32>) -> tensor<f32>
    %1 = sdy.all_reduce {"x"} %0 out_sharding=<@mesh, []> {gspmd.combiner = "max", gspmd.cause = "a test"} : tensor<f32>
    return %1 : tensor<f32>
  }
}

// -----

// CHECK-LABEL: module @an_even_dimension_is_not_masked
// CHECK-NOT: stablehlo.select
// CHECK: %[[PARTIAL:[0-9]+]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add across dimensions = [0]
// CHECK-SAME: (tensor<2xf32>, tensor<f32>) -> tensor<f32>
// CHECK: %[[SUM:[0-9]+]] = "stablehlo.all_reduce"(%[[PARTIAL]])
// CHECK: return %[[SUM]]
module @an_even_dimension_is_not_masked {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [], unreduced={"x"}>]>} : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %1 = sdy.all_reduce {"x"} %0 out_sharding=<@mesh, []> {gspmd.cause = "a test"} : tensor<f32>
    return %1 : tensor<f32>
  }
}

// -----

// CHECK-LABEL: module @only_the_first_shard_starts_from_an_initial_value_that_counts
// CHECK: %[[NOTHING:.*]] = stablehlo.constant dense<-0.000000e+00> : tensor<f32>
// CHECK: %[[FIRST:[0-9]+]] = stablehlo.compare EQ
// CHECK: %[[START:[0-9]+]] = stablehlo.select %[[FIRST]], %arg1, %[[NOTHING]]
// CHECK: %[[OWN:[0-9]+]] = stablehlo.reduce(%arg0 init: %[[NOTHING]]) applies stablehlo.add
// CHECK: %[[PARTIAL:[0-9]+]] = stablehlo.add %[[OWN]], %[[START]]
// CHECK: %[[SUM:[0-9]+]] = "stablehlo.all_reduce"(%[[PARTIAL]])
// CHECK: return %[[SUM]]
module @only_the_first_shard_starts_from_an_initial_value_that_counts {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %init: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.reduce(%a init: %init) applies stablehlo.add across dimensions = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [], unreduced={"x"}>]>} : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %1 = sdy.all_reduce {"x"} %0 out_sharding=<@mesh, []> {gspmd.cause = "a test"} : tensor<f32>
    return %1 : tensor<f32>
  }
}

// -----

// Zero times what is unknown may be NaN: one side alone would not do.

// CHECK-LABEL: module @both_sides_of_a_contraction_are_masked_where_it_is_uneven
// CHECK: %[[REAL_COLUMNS:[0-9]+]] = stablehlo.compare LT
// CHECK: %[[LEFT:[0-9]+]] = stablehlo.select %[[REAL_COLUMNS]], %arg0
// CHECK: %[[REAL_ROWS:[0-9]+]] = stablehlo.compare LT
// CHECK: %[[RIGHT:[0-9]+]] = stablehlo.select %[[REAL_ROWS]], %arg1
// CHECK: %[[PARTIAL:[0-9]+]] = stablehlo.dot_general %[[LEFT]], %[[RIGHT]], contracting_dims = [1] x [0]
// CHECK-SAME: (tensor<3x2xf32>, tensor<2x5xf32>) -> tensor<3x5xf32>
// CHECK: %[[SUM:[0-9]+]] = "stablehlo.all_reduce"(%[[PARTIAL]])
// CHECK-SAME: replica_groups = dense<{{\[\[}}0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids
// CHECK: stablehlo.add
// CHECK: return %[[SUM]]
module @both_sides_of_a_contraction_are_masked_where_it_is_uneven {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<3x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %b: tensor<6x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<3x5xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}], unreduced={"x"}>]>} : (tensor<3x6xf32>, tensor<6x5xf32>) -> tensor<3x5xf32>
    %1 = sdy.all_reduce {"x"} %0 out_sharding=<@mesh, [{}, {}]> {gspmd.cause = "a test"} : tensor<3x5xf32>
    return %1 : tensor<3x5xf32>
  }
}

// -----

// CHECK-LABEL: module @free_dimensions_of_a_contraction_are_not_masked
// CHECK: %arg0: tensor<2x3xf32>
// CHECK-SAME: %arg1: tensor<3x5xf32>
// CHECK-NEXT: stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]
// CHECK-SAME: (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
// CHECK-NEXT: return
module @free_dimensions_of_a_contraction_are_not_masked {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<6x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<3x5xf32>) -> (tensor<6x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : (tensor<6x3xf32>, tensor<3x5xf32>) -> tensor<6x5xf32>
    return %0 : tensor<6x5xf32>
  }
}

// -----

// CHECK-LABEL: module @an_iota_counts_from_the_shard_s_offset
// CHECK: %[[SHARD:[0-9]+]] = stablehlo.convert
// CHECK: %[[STEPS:[0-9]+]] = stablehlo.iota dim = 0 : tensor<2xi32>
// CHECK: stablehlo.multiply %[[SHARD]]
// CHECK: %[[PLACES:[0-9]+]] = stablehlo.add %[[STEPS]]
// CHECK-NEXT: return %[[PLACES]]
module @an_iota_counts_from_the_shard_s_offset {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main() -> (tensor<8xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<8xi32>
    return %0 : tensor<8xi32>
  }
}

// -----

// CHECK-LABEL: module @an_iota_split_along_another_dimension_only_shrinks
// CHECK: func.func
// CHECK-NEXT: stablehlo.iota dim = 1 : tensor<2x3xi32>
// CHECK-NEXT: return
module @an_iota_split_along_another_dimension_only_shrinks {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main() -> (tensor<8x3xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.iota dim = 1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x3xi32>
    return %0 : tensor<8x3xi32>
  }
}

// -----

// CHECK-LABEL: module @a_uniform_constant_shrinks
// CHECK: func.func
// CHECK-NEXT: stablehlo.constant dense<1.000000e+00> : tensor<2xf32>
// CHECK-NEXT: return
module @a_uniform_constant_shrinks {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main() -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} dense<1.0> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @any_other_constant_is_cut
// CHECK: %[[SHARD:[0-9]+]] = stablehlo.convert
// CHECK: %[[WHOLE:.*]] = stablehlo.constant dense<[2, 3, 5, 7]> : tensor<4xi32>
// CHECK: %[[OWN:[0-9]+]] = stablehlo.dynamic_slice %[[WHOLE]], %[[SHARD]], sizes = [1]
// CHECK-NEXT: return %[[OWN]]
module @any_other_constant_is_cut {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main() -> (tensor<4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} dense<[2, 3, 5, 7]> : tensor<4xi32>
    return %0 : tensor<4xi32>
  }
}

// -----

// CHECK-LABEL: module @a_reduction_of_several_operands_reduces_the_results_of_all_shards_once_more
// CHECK: stablehlo.reduce(%arg0 init: %[[LOW:.*]]), (%arg1 init: %[[ZERO:.*]]) across dimensions = [0]
// CHECK: %[[VALUES:[0-9]+]] = "stablehlo.all_gather"{{.*}}(tensor<1xf32>) -> tensor<4xf32>
// CHECK: %[[PLACES:[0-9]+]] = "stablehlo.all_gather"{{.*}}(tensor<1xi32>) -> tensor<4xi32>
// CHECK: %[[BEST:[0-9]+]]:2 = stablehlo.reduce(%[[VALUES]] init: %[[LOW]]), (%[[PLACES]] init: %[[ZERO]])
// CHECK: stablehlo.compare GT
// CHECK: return %[[BEST]]#0, %[[BEST]]#1
module @a_reduction_of_several_operands_reduces_the_results_of_all_shards_once_more {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<f32>, tensor<i32>) {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.reduce(%a init: %low), (%b init: %zero) across dimensions = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, []>]>} : (tensor<8xf32>, tensor<8xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
     reducer(%v: tensor<f32>, %w: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
      %g = stablehlo.compare GT, %v, %w : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %m = stablehlo.select %g, %v, %w : tensor<i1>, tensor<f32>
      %k = stablehlo.select %g, %i, %j : tensor<i1>, tensor<i32>
      stablehlo.return %m, %k : tensor<f32>, tensor<i32>
    }
    return %0#0, %0#1 : tensor<f32>, tensor<i32>
  }
}

// -----

// CHECK-LABEL: module @a_loop_carries_what_a_device_holds
// CHECK: %arg0: tensor<2xf32>
// CHECK: %[[LOOP:[0-9]+]]:2 = stablehlo.while(%[[COUNT:.*]] = %{{.*}}, %[[CARRIED:.*]] = %arg0) : tensor<i32>, tensor<2xf32>
// CHECK: stablehlo.compare LT, %[[COUNT]]
// CHECK: stablehlo.sine %[[CARRIED]] : tensor<2xf32>
// CHECK: stablehlo.return {{.*}} : tensor<i32>, tensor<2xf32>
// CHECK: return %[[LOOP]]#1
module @a_loop_carries_what_a_device_holds {
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
      %2 = stablehlo.sine %c {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<8xf32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @an_index_needed_in_a_loop_is_computed_before_it
// CHECK: %[[ID:[0-9]+]] = stablehlo.partition_id
// CHECK: %[[SHARD:[0-9]+]] = stablehlo.convert %[[ID]]
// CHECK: stablehlo.while(%[[CARRIED:.*]] = %arg0) : tensor<2xi32>
// CHECK-NOT: stablehlo.partition_id
// CHECK: %[[STEPS:[0-9]+]] = stablehlo.iota dim = 0 : tensor<2xi32>
// CHECK: stablehlo.multiply %[[SHARD]]
// CHECK: %[[PLACES:[0-9]+]] = stablehlo.add %[[STEPS]]
// CHECK: stablehlo.add %[[CARRIED]], %[[PLACES]]
module @an_index_needed_in_a_loop_is_computed_before_it {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<8xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = stablehlo.while(%c = %a) : tensor<8xi32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>}
     cond {
      %t = stablehlo.constant dense<false> : tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %1 = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<8xi32>
      %2 = stablehlo.add %c, %1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<8xi32>
      stablehlo.return %2 : tensor<8xi32>
    }
    return %0 : tensor<8xi32>
  }
}

// -----

// Every device gets its part from the other end in one permute, along the dimension that is reversed and the other.

// CHECK-LABEL: module @a_reversal_into_other_shards_is_one_permute
// CHECK: stablehlo.collective_permute
// CHECK-NOT: collective_permute
// CHECK: stablehlo.reverse %{{.*}}, dims = [0] : tensor<2x2xf32>
module @a_reversal_into_other_shards_is_one_permute {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>})
      -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}) {
    %0 = stablehlo.reverse %a, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}, {"x"}]>]>} : tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
}
