// RUN: gspmd-opt --split-input-file --gspmd-propagate %s 2>&1 >/dev/null | FileCheck %s

// What was annotated or found and cannot be had is told.
// CHECK: losses.mlir:7:3: remark: 'func.func' op argument 1: dimension 1, annotated {"x"}p1, is not split: an earlier priority has put these axes on another dimension
module @an_earlier_priority_takes_the_axis {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"x"}p1]>}) -> tensor<8x8xf32> {
    %0 = stablehlo.add %a, %b : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK: losses.mlir:20:10: remark: 'sdy.manual_computation' op operand 0 of shape [12] is split as [{"x", "y":(1)2}], as [{"x", "y"}] would need padding
module @parts_of_a_manual_computation {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}]>}) -> tensor<12xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}]>] manual_axes={"x"} (%b: tensor<6xf32>) {
      %1 = stablehlo.sine %b : tensor<6xf32>
      sdy.return %1 : tensor<6xf32>
    } : (tensor<12xf32>) -> tensor<12xf32>
    return %0 : tensor<12xf32>
  }
}

// -----

// The same at an operand of a manual computation.
// CHECK: losses.mlir:35:10: remark: 'sdy.manual_computation' op operand 0: dimension 0, annotated {"b"}p1, is not split: an earlier priority has put these axes on another dimension
module @an_operand_of_a_manual_computation {
  sdy.mesh @mesh = <["a"=2, "b"=2, "c"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"c"}p2, {?}]>}) -> tensor<8x8xf32> {
    %0 = sdy.manual_computation(%a, %a) in_shardings=[<@mesh, [{"a", "b"}p1, {?}]>, <@mesh, [{"a", ?}p1, {?}]>] out_shardings=[<@mesh, [{"a", ?}, {"b", ?}p0]>] manual_axes={"a"} (%b: tensor<4x8xf32>, %c: tensor<4x8xf32>) {
      %1 = stablehlo.add %b, %c : tensor<4x8xf32>
      sdy.return %1 : tensor<4x8xf32>
    } : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
