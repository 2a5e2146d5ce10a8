// A pass of MLIR may report an error and still be content with itself: the command fails, and writes nothing.
//
// RUN: not gspmd-opt --inline %s 2>&1 | FileCheck %s
//
// CHECK-NOT: module
// CHECK: error: 'sdy.manual_computation' op failed to inline redundant ManualComputationOp
// CHECK-NOT: module

sdy.mesh @m = <["a"=1, "b"=2]>
func.func @main(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"a", "b"}]>}, %arg1: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"a"}]>]>} : tensor<4xf32>
  %1 = sdy.manual_computation(%0) in_shardings=[<@m, [{"a", "b"}]>] out_shardings=[<@m, [{"a"}]>] manual_axes={"a"} (%arg2: tensor<4xf32>) {
    %2 = stablehlo.tanh %arg2 : tensor<4xf32>
    sdy.return %2 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
