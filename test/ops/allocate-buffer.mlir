// RUN: gspmd-opt --gspmd-partition %s | FileCheck %s

// Memory that is not written yet is allocated by shards, and equal allocations stay apart: both are written to.
// CHECK: [[A:%.*]] = stablehlo.custom_call @AllocateBuffer() : () -> tensor<2x4xf32>
// CHECK: [[B:%.*]] = stablehlo.custom_call @AllocateBuffer() : () -> tensor<2x4xf32>
// CHECK: stablehlo.dynamic_update_slice [[A]], %arg0
// CHECK: stablehlo.dynamic_update_slice [[B]], %arg1
sdy.mesh @mesh = <["x"=4]>
func.func public @main(
    %a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %b: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = stablehlo.custom_call @AllocateBuffer() : () -> tensor<8x4xf32>
  %1 = stablehlo.custom_call @AllocateBuffer() : () -> tensor<8x4xf32>
  %c = stablehlo.constant dense<0> : tensor<i32>
  %2 = stablehlo.dynamic_update_slice %0, %a, %c, %c : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
  %3 = stablehlo.dynamic_update_slice %1, %b, %c, %c : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
  return %2, %3 : tensor<8x4xf32>, tensor<8x4xf32>
}
