// RUN: gspmd-opt --split-input-file --gspmd-optimize %s | FileCheck %s

// CHECK-LABEL: module @equal_operations_are_merged
// CHECK: [[A:%[0-9]+]] = stablehlo.sine %arg0
// CHECK-NOT: stablehlo.sine
// CHECK: stablehlo.add [[A]], [[A]]
module @equal_operations_are_merged {
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.sine %a : tensor<8xf32>
    %1 = stablehlo.sine %a : tensor<8xf32>
    %2 = stablehlo.add %0, %1 : tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @what_nobody_uses_is_dropped
// CHECK-NOT: stablehlo
// CHECK: return %arg0
module @what_nobody_uses_is_dropped {
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.sine %a : tensor<8xf32>
    %1 = stablehlo.constant dense<1.0> : tensor<8xf32>
    return %a : tensor<8xf32>
  }
}
