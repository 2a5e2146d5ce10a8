// RUN: gspmd-opt --split-input-file --gspmd-propagate %s | FileCheck %s

// Outside, the value is split over the manual axis and the free one; inside, over the free one only.

// CHECK-LABEL: module @free_axes_flow_into_the_body_and_out_of_it
// CHECK: @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>})
// CHECK-SAME: -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>})
// CHECK: sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>] manual_axes={"x"} (%arg1: tensor<4x8xf32>)
// CHECK: stablehlo.sine %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"y"}]>]>} : tensor<4x8xf32>
module @free_axes_flow_into_the_body_and_out_of_it {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"y"}]>}) -> tensor<8x8xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}, {?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%b: tensor<4x8xf32>) {
      %1 = stablehlo.sine %b : tensor<4x8xf32>
      sdy.return %1 : tensor<4x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_free_axis_joins_a_manual_one_in_the_same_dimension
// CHECK: @main(%arg0: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}]>})
// CHECK: in_shardings=[<@mesh, [{"x", "y"}]>] out_shardings=[<@mesh, [{"x", "y"}]>]
// CHECK: stablehlo.sine {{.*}}[{"y"}]>
module @a_free_axis_joins_a_manual_one_in_the_same_dimension {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<16xf32>) -> tensor<16xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}]>] manual_axes={"x"} (%b: tensor<8xf32>) {
      %1 = stablehlo.sine %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}]>]>} : tensor<8xf32>
      sdy.return %1 : tensor<8xf32>
    } : (tensor<16xf32>) -> tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}

// -----

// The parts of 6 elements do not split evenly over "y", so only half of it is used at the boundary.

// CHECK-LABEL: module @free_axes_that_would_pad_parts_stay_inside
// CHECK: in_shardings=[<@mesh, [{"x", "y":(1)2}]>] out_shardings=[<@mesh, [{"x", "y":(1)2}]>]
// CHECK: stablehlo.sine {{.*}}[{"y"}]>
module @free_axes_that_would_pad_parts_stay_inside {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}]>}) -> tensor<12xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}]>] manual_axes={"x"} (%b: tensor<6xf32>) {
      %1 = stablehlo.sine %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}]>]>} : tensor<6xf32>
      sdy.return %1 : tensor<6xf32>
    } : (tensor<12xf32>) -> tensor<12xf32>
    return %0 : tensor<12xf32>
  }
}

// -----

// The operand has the manual axis on a dimension, the computation wants it whole: it stays whole, inside and outside.

// CHECK-LABEL: module @a_manual_axis_that_splits_nothing_is_not_added
// CHECK: in_shardings=[<@mesh, [{}]>] out_shardings=[<@mesh, [{"x"}]>]
// CHECK: stablehlo.slice %arg1 [0:4] : (tensor<8xf32>) -> tensor<4xf32>
module @a_manual_axis_that_splits_nothing_is_not_added {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{?}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%b: tensor<8xf32>) {
      %1 = stablehlo.slice %b [0:4] : (tensor<8xf32>) -> tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @closed_dimensions_of_the_boundary_stay_closed
// CHECK: in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>]
// CHECK: stablehlo.sine %arg1 : tensor<4x8xf32>
module @closed_dimensions_of_the_boundary_stay_closed {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"y"}]>}) -> tensor<8x8xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%b: tensor<4x8xf32>) {
      %1 = stablehlo.sine %b : tensor<4x8xf32>
      sdy.return %1 : tensor<4x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @axes_that_are_free_in_both_reach_a_nested_computation
// CHECK: manual_axes={"x"} (%arg1: tensor<4x8xf32>)
// CHECK: in_shardings=[<@mesh, [{"z"}, {"y"}]>] out_shardings=[<@mesh, [{"z"}, {"y"}]>] manual_axes={"y"} (%arg2: tensor<4x4xf32>)
// CHECK: stablehlo.sine {{.*}}[{"z"}, {}]>
module @axes_that_are_free_in_both_reach_a_nested_computation {
  sdy.mesh @mesh = <["x"=2, "y"=2, "z"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "z"}, {?}]>}) -> tensor<8x8xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}, {?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%b: tensor<4x8xf32>) {
      %1 = sdy.manual_computation(%b) in_shardings=[<@mesh, [{?}, {"y", ?}]>] out_shardings=[<@mesh, [{?}, {"y", ?}]>] manual_axes={"y"} (%c: tensor<4x4xf32>) {
        %2 = stablehlo.sine %c : tensor<4x4xf32>
        sdy.return %2 : tensor<4x4xf32>
      } : (tensor<4x8xf32>) -> tensor<4x8xf32>
      sdy.return %1 : tensor<4x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// A collective of the user's passes free axes through, but not along the dimension it puts together.

// CHECK-LABEL: module @collectives_pass_free_axes_through
// CHECK: "stablehlo.all_gather"
// CHECK-SAME: gspmd.axes = "\22x\22", gspmd.cause = "written by the user", sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"y"}]>]>
// CHECK: stablehlo.partition_id : tensor<ui32>
module @collectives_pass_free_axes_through {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"y"}]>}) -> (tensor<8x8xf32>, tensor<ui32>) {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}, {?}]>] out_shardings=[<@mesh, [{?}, {?}]>] manual_axes={"x"} (%b: tensor<4x8xf32>) {
      %1 = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x8xf32>) -> tensor<8x8xf32>
      sdy.return %1 : tensor<8x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = sdy.manual_computation() in_shardings=[] out_shardings=[<@mesh, []>] manual_axes={"x", "y"} () {
      %3 = stablehlo.partition_id : tensor<ui32>
      sdy.return %3 : tensor<ui32>
    } : () -> tensor<ui32>
    return %0, %2 : tensor<8x8xf32>, tensor<ui32>
  }
}
