// RUN: gspmd-opt --split-input-file --gspmd-localize %s | FileCheck %s

// CHECK-LABEL: module @types_shrink_to_what_a_device_holds
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<2x3xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<3x2xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
// CHECK: return [[V0]]
module @types_shrink_to_what_a_device_holds {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> (tensor<6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}) {
    %0 = stablehlo.transpose %a, dims = [1, 0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}, {"x"}]>]>} : (tensor<8x6xf32>) -> tensor<6x8xf32>
    return %0 : tensor<6x8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_sum_over_an_uneven_dimension_ignores_the_padding
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<2xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<f32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.partition_id : tensor<ui32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.convert [[V0]] : (tensor<ui32>) -> tensor<i32>
// CHECK: [[V2:%[a-z0-9_]+]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.iota dim = 0 : tensor<2xi32>
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.constant dense<6> : tensor<i32>
// CHECK: [[V5:%[a-z0-9_]+]] = stablehlo.constant dense<2> : tensor<i32>
// CHECK: [[V6:%[a-z0-9_]+]] = stablehlo.multiply [[V1]], [[V5]] : tensor<i32>
// CHECK: [[V7:%[a-z0-9_]+]] = stablehlo.subtract [[V4]], [[V6]] : tensor<i32>
// CHECK: [[V8:%[a-z0-9_]+]] = stablehlo.broadcast_in_dim [[V7]], dims = [] : (tensor<i32>) -> tensor<2xi32>
// CHECK: [[V9:%[a-z0-9_]+]] = stablehlo.compare LT, [[V3]], [[V8]] : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
// CHECK: [[V10:%[a-z0-9_]+]] = stablehlo.constant dense<-0.000000e+00> : tensor<2xf32>
// CHECK: [[V11:%[a-z0-9_]+]] = stablehlo.select [[V9]], %arg0, [[V10]] : tensor<2xi1>, tensor<2xf32>
// CHECK: [[V12:%[a-z0-9_]+]] = stablehlo.reduce([[V11]] init: [[V2]]) applies stablehlo.add across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
// CHECK: [[V13:%[a-z0-9_]+]] = "stablehlo.all_reduce"([[V12]]) <{{{.*}}, replica_groups = dense<{{\[\[}}0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
// CHECK: [[V14:%[a-z0-9_]+]] = stablehlo.add %arg1, %arg2 : tensor<f32>
// CHECK: stablehlo.return [[V14]]
// CHECK: return [[V13]]
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
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<2xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<f32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.partition_id : tensor<ui32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.convert [[V0]] : (tensor<ui32>) -> tensor<i32>
// CHECK: [[V2:%[a-z0-9_]+]] = stablehlo.constant dense<0xFF800000> : tensor<f32>
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.iota dim = 0 : tensor<2xi32>
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.constant dense<6> : tensor<i32>
// CHECK: [[V5:%[a-z0-9_]+]] = stablehlo.constant dense<2> : tensor<i32>
// CHECK: [[V6:%[a-z0-9_]+]] = stablehlo.multiply [[V1]], [[V5]] : tensor<i32>
// CHECK: [[V7:%[a-z0-9_]+]] = stablehlo.subtract [[V4]], [[V6]] : tensor<i32>
// CHECK: [[V8:%[a-z0-9_]+]] = stablehlo.broadcast_in_dim [[V7]], dims = [] : (tensor<i32>) -> tensor<2xi32>
// CHECK: [[V9:%[a-z0-9_]+]] = stablehlo.compare LT, [[V3]], [[V8]] : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
// CHECK: [[V10:%[a-z0-9_]+]] = stablehlo.constant dense<0xFF800000> : tensor<2xf32>
// CHECK: [[V11:%[a-z0-9_]+]] = stablehlo.select [[V9]], %arg0, [[V10]] : tensor<2xi1>, tensor<2xf32>
// CHECK: [[V12:%[a-z0-9_]+]] = stablehlo.reduce([[V11]] init: [[V2]]) applies stablehlo.maximum across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
// CHECK: "stablehlo.all_reduce"(
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
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<2xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<f32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.reduce(%arg0 init: [[V0]]) applies stablehlo.add across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
// CHECK: [[V2:%[a-z0-9_]+]] = "stablehlo.all_reduce"([[V1]]) <{{{.*}}, replica_groups = dense<{{\[\[}}0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.add %arg1, %arg2 : tensor<f32>
// CHECK: stablehlo.return [[V3]]
// CHECK: return [[V2]]
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
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<2xf32>
// CHECK-SAME: %arg1: tensor<f32>
// CHECK-SAME: -> {{[^t]*}}tensor<f32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.partition_id : tensor<ui32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.convert [[V0]] : (tensor<ui32>) -> tensor<i32>
// CHECK: [[V2:%[a-z0-9_]+]] = stablehlo.constant dense<-0.000000e+00> : tensor<f32>
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.constant dense<0> : tensor<i32>
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.compare EQ, [[V1]], [[V3]] : (tensor<i32>, tensor<i32>) -> tensor<i1>
// CHECK: [[V5:%[a-z0-9_]+]] = stablehlo.select [[V4]], %arg1, [[V2]] : tensor<i1>, tensor<f32>
// CHECK: [[V6:%[a-z0-9_]+]] = stablehlo.reduce(%arg0 init: [[V2]]) applies stablehlo.add across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
// CHECK: [[V7:%[a-z0-9_]+]] = stablehlo.add [[V6]], [[V5]] : tensor<f32>
// CHECK: [[V8:%[a-z0-9_]+]] = "stablehlo.all_reduce"([[V7]]) <{{{.*}}, replica_groups = dense<{{\[\[}}0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
// CHECK: [[V9:%[a-z0-9_]+]] = stablehlo.add %arg2, %arg3 : tensor<f32>
// CHECK: stablehlo.return [[V9]]
// CHECK: return [[V8]]
module @only_the_first_shard_starts_from_an_initial_value_that_counts {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %init: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.reduce(%a init: %init) applies stablehlo.add across dimensions = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [], unreduced={"x"}>]>} : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %1 = sdy.all_reduce {"x"} %0 out_sharding=<@mesh, []> {gspmd.cause = "a test"} : tensor<f32>
    return %1 : tensor<f32>
  }
}

// -----

// CHECK-LABEL: module @both_sides_of_a_contraction_are_masked_where_it_is_uneven
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<3x2xf32>
// CHECK-SAME: %arg1: tensor<2x5xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<3x5xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.partition_id : tensor<ui32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.convert [[V0]] : (tensor<ui32>) -> tensor<i32>
// CHECK: [[V2:%[a-z0-9_]+]] = stablehlo.iota dim = 1 : tensor<3x2xi32>
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.constant dense<6> : tensor<i32>
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.constant dense<2> : tensor<i32>
// CHECK: [[V5:%[a-z0-9_]+]] = stablehlo.multiply [[V1]], [[V4]] : tensor<i32>
// CHECK: [[V6:%[a-z0-9_]+]] = stablehlo.subtract [[V3]], [[V5]] : tensor<i32>
// CHECK: [[V7:%[a-z0-9_]+]] = stablehlo.broadcast_in_dim [[V6]], dims = [] : (tensor<i32>) -> tensor<3x2xi32>
// CHECK: [[V8:%[a-z0-9_]+]] = stablehlo.compare LT, [[V2]], [[V7]] : (tensor<3x2xi32>, tensor<3x2xi32>) -> tensor<3x2xi1>
// CHECK: [[V9:%[a-z0-9_]+]] = stablehlo.constant dense<0.000000e+00> : tensor<3x2xf32>
// CHECK: [[V10:%[a-z0-9_]+]] = stablehlo.select [[V8]], %arg0, [[V9]] : tensor<3x2xi1>, tensor<3x2xf32>
// CHECK: [[V11:%[a-z0-9_]+]] = stablehlo.iota dim = 0 : tensor<2x5xi32>
// CHECK: [[V12:%[a-z0-9_]+]] = stablehlo.constant dense<6> : tensor<i32>
// CHECK: [[V13:%[a-z0-9_]+]] = stablehlo.constant dense<2> : tensor<i32>
// CHECK: [[V14:%[a-z0-9_]+]] = stablehlo.multiply [[V1]], [[V13]] : tensor<i32>
// CHECK: [[V15:%[a-z0-9_]+]] = stablehlo.subtract [[V12]], [[V14]] : tensor<i32>
// CHECK: [[V16:%[a-z0-9_]+]] = stablehlo.broadcast_in_dim [[V15]], dims = [] : (tensor<i32>) -> tensor<2x5xi32>
// CHECK: [[V17:%[a-z0-9_]+]] = stablehlo.compare LT, [[V11]], [[V16]] : (tensor<2x5xi32>, tensor<2x5xi32>) -> tensor<2x5xi1>
// CHECK: [[V18:%[a-z0-9_]+]] = stablehlo.constant dense<0.000000e+00> : tensor<2x5xf32>
// CHECK: [[V19:%[a-z0-9_]+]] = stablehlo.select [[V17]], %arg1, [[V18]] : tensor<2x5xi1>, tensor<2x5xf32>
// CHECK: [[V20:%[a-z0-9_]+]] = stablehlo.dot_general [[V10]], [[V19]], contracting_dims = [1] x [0] : (tensor<3x2xf32>, tensor<2x5xf32>) -> tensor<3x5xf32>
// CHECK: [[V21:%[a-z0-9_]+]] = "stablehlo.all_reduce"([[V20]]) <{{{.*}}, replica_groups = dense<{{\[\[}}0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
// CHECK: [[V22:%[a-z0-9_]+]] = stablehlo.add %arg2, %arg3 : tensor<f32>
// CHECK: stablehlo.return [[V22]]
// CHECK: return [[V21]]
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
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<2x3xf32>
// CHECK-SAME: %arg1: tensor<3x5xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<2x5xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
// CHECK: return [[V0]]
module @free_dimensions_of_a_contraction_are_not_masked {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<6x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<3x5xf32>) -> (tensor<6x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : (tensor<6x3xf32>, tensor<3x5xf32>) -> tensor<6x5xf32>
    return %0 : tensor<6x5xf32>
  }
}

// -----

// CHECK-LABEL: module @an_iota_counts_from_the_shard_s_offset
// CHECK: func.func public @main(
// CHECK-SAME: -> {{[^t]*}}tensor<2xi32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.partition_id : tensor<ui32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.convert [[V0]] : (tensor<ui32>) -> tensor<i32>
// CHECK: [[V2:%[a-z0-9_]+]] = stablehlo.iota dim = 0 : tensor<2xi32>
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.constant dense<2> : tensor<i32>
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.multiply [[V1]], [[V3]] : tensor<i32>
// CHECK: [[V5:%[a-z0-9_]+]] = stablehlo.broadcast_in_dim [[V4]], dims = [] : (tensor<i32>) -> tensor<2xi32>
// CHECK: [[V6:%[a-z0-9_]+]] = stablehlo.add [[V2]], [[V5]] : tensor<2xi32>
// CHECK: return [[V6]]
module @an_iota_counts_from_the_shard_s_offset {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main() -> (tensor<8xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<8xi32>
    return %0 : tensor<8xi32>
  }
}

// -----

// CHECK-LABEL: module @an_iota_split_along_another_dimension_only_shrinks
// CHECK: func.func public @main(
// CHECK-SAME: -> {{[^t]*}}tensor<2x3xi32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.iota dim = 1 : tensor<2x3xi32>
// CHECK: return [[V0]]
module @an_iota_split_along_another_dimension_only_shrinks {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main() -> (tensor<8x3xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.iota dim = 1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x3xi32>
    return %0 : tensor<8x3xi32>
  }
}

// -----

// CHECK-LABEL: module @a_uniform_constant_shrinks
// CHECK: func.func public @main(
// CHECK-SAME: -> {{[^t]*}}tensor<2xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.constant dense<1.000000e+00> : tensor<2xf32>
// CHECK: return [[V0]]
module @a_uniform_constant_shrinks {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main() -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} dense<1.0> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @any_other_constant_is_cut
// CHECK: func.func public @main(
// CHECK-SAME: -> {{[^t]*}}tensor<1xi32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.partition_id : tensor<ui32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.convert [[V0]] : (tensor<ui32>) -> tensor<i32>
// CHECK: [[V2:%[a-z0-9_]+]] = stablehlo.constant dense<[2, 3, 5, 7]> : tensor<4xi32>
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.constant dense<0> : tensor<i32>
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.dynamic_slice [[V2]], [[V1]], sizes = [1] : (tensor<4xi32>, tensor<i32>) -> tensor<1xi32>
// CHECK: return [[V4]]
module @any_other_constant_is_cut {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main() -> (tensor<4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} dense<[2, 3, 5, 7]> : tensor<4xi32>
    return %0 : tensor<4xi32>
  }
}

// -----

// CHECK-LABEL: module @a_reduction_of_several_operands_reduces_the_results_of_all_shards_once_more
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<2xf32>
// CHECK-SAME: %arg1: tensor<2xi32>
// CHECK-SAME: -> {{[^t]*}}tensor<f32>
// CHECK-SAME: tensor<i32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.constant dense<0xFF800000> : tensor<f32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.constant dense<0> : tensor<i32>
// CHECK: [[V2:%[a-z0-9_]+]]:2 = stablehlo.reduce(%arg0 init: [[V0]]), (%arg1 init: [[V1]]) across dimensions = [0] : (tensor<2xf32>, tensor<2xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
// CHECK: [[V3:%[a-z0-9_]+]] = stablehlo.compare GT, %arg2, %arg4 : (tensor<f32>, tensor<f32>) -> tensor<i1>
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.select [[V3]], %arg2, %arg4 : tensor<i1>, tensor<f32>
// CHECK: [[V5:%[a-z0-9_]+]] = stablehlo.select [[V3]], %arg3, %arg5 : tensor<i1>, tensor<i32>
// CHECK: stablehlo.return [[V4]], [[V5]]
// CHECK: [[V6:%[a-z0-9_]+]] = stablehlo.reshape [[V2]]#0 : (tensor<f32>) -> tensor<1xf32>
// CHECK: [[V7:%[a-z0-9_]+]] = "stablehlo.all_gather"([[V6]]) <{all_gather_dim = 0 : i64, {{.*}}, replica_groups = dense<{{\[\[}}0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> {gspmd.axes = "\22x\22", {{.*}} : (tensor<1xf32>) -> tensor<4xf32>
// CHECK: [[V8:%[a-z0-9_]+]] = stablehlo.reshape [[V2]]#1 : (tensor<i32>) -> tensor<1xi32>
// CHECK: [[V9:%[a-z0-9_]+]] = "stablehlo.all_gather"([[V8]]) <{all_gather_dim = 0 : i64, {{.*}}, replica_groups = dense<{{\[\[}}0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> {gspmd.axes = "\22x\22", {{.*}} : (tensor<1xi32>) -> tensor<4xi32>
// CHECK: [[V10:%[a-z0-9_]+]]:2 = stablehlo.reduce([[V7]] init: [[V0]]), ([[V9]] init: [[V1]]) across dimensions = [0] : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
// CHECK: [[V11:%[a-z0-9_]+]] = stablehlo.compare GT, %arg2, %arg4 : (tensor<f32>, tensor<f32>) -> tensor<i1>
// CHECK: [[V12:%[a-z0-9_]+]] = stablehlo.select [[V11]], %arg2, %arg4 : tensor<i1>, tensor<f32>
// CHECK: [[V13:%[a-z0-9_]+]] = stablehlo.select [[V11]], %arg3, %arg5 : tensor<i1>, tensor<i32>
// CHECK: stablehlo.return [[V12]], [[V13]]
// CHECK: return [[V10]]#0, [[V10]]#1
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
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<2xf32>
// CHECK-SAME: -> {{[^t]*}}tensor<2xf32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.constant dense<0> : tensor<i32>
// CHECK: [[V1:%[a-z0-9_]+]]:2 = stablehlo.while([[V2:%[a-zA-Z0-9_]+]] = [[V0]], [[V3:%[a-zA-Z0-9_]+]] = %arg0) : tensor<i32>, tensor<2xf32>
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.constant dense<3> : tensor<i32>
// CHECK: [[V5:%[a-z0-9_]+]] = stablehlo.compare LT, [[V2]], [[V4]] : (tensor<i32>, tensor<i32>) -> tensor<i1>
// CHECK: stablehlo.return [[V5]]
// CHECK: [[V6:%[a-z0-9_]+]] = stablehlo.constant dense<1> : tensor<i32>
// CHECK: [[V7:%[a-z0-9_]+]] = stablehlo.add [[V2]], [[V6]] : tensor<i32>
// CHECK: [[V8:%[a-z0-9_]+]] = stablehlo.sine [[V3]] : tensor<2xf32>
// CHECK: stablehlo.return [[V7]], [[V8]]
// CHECK: return [[V1]]#1
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
// CHECK: func.func public @main(
// CHECK-SAME: %arg0: tensor<2xi32>
// CHECK-SAME: -> {{[^t]*}}tensor<2xi32>
// CHECK: [[V0:%[a-z0-9_]+]] = stablehlo.partition_id : tensor<ui32>
// CHECK: [[V1:%[a-z0-9_]+]] = stablehlo.convert [[V0]] : (tensor<ui32>) -> tensor<i32>
// CHECK: [[V2:%[a-z0-9_]+]] = stablehlo.while([[V3:%[a-zA-Z0-9_]+]] = %arg0) : tensor<2xi32>
// CHECK: [[V4:%[a-z0-9_]+]] = stablehlo.constant dense<false> : tensor<i1>
// CHECK: stablehlo.return [[V4]]
// CHECK: [[V5:%[a-z0-9_]+]] = stablehlo.iota dim = 0 : tensor<2xi32>
// CHECK: [[V6:%[a-z0-9_]+]] = stablehlo.constant dense<2> : tensor<i32>
// CHECK: [[V7:%[a-z0-9_]+]] = stablehlo.multiply [[V1]], [[V6]] : tensor<i32>
// CHECK: [[V8:%[a-z0-9_]+]] = stablehlo.broadcast_in_dim [[V7]], dims = [] : (tensor<i32>) -> tensor<2xi32>
// CHECK: [[V9:%[a-z0-9_]+]] = stablehlo.add [[V5]], [[V8]] : tensor<2xi32>
// CHECK: [[V10:%[a-z0-9_]+]] = stablehlo.add [[V3]], [[V9]] : tensor<2xi32>
// CHECK: stablehlo.return [[V10]]
// CHECK: return [[V2]]
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
