// RUN: gspmd-opt --gspmd-partition='custom-rules="each=([i, j])->([i, j]) need_replication={j},product=([i, j], [j, k])->([i, k]) reduction={j}"' %s | FileCheck %s
// RUN: gspmd partition --custom-rule 'each=([i, j])->([i, j]), need_replication={j}' --custom-rule 'product=([i, j], [j, k])->([i, k]), reduction={j}' %s | FileCheck %s
// RUN: not gspmd partition --custom-rule 'each' %s 2>&1 | FileCheck --check-prefix=NAMELESS %s

// NAMELESS: gspmd: error: custom rule 'each' names no target; write it as my_target=([i, j])->([i, j])

// Rules given by target: the same calls, on the parts that a device holds.

// CHECK: @main(%arg0: tensor<4x16xf32>
// CHECK: %[[A:.*]] = stablehlo.custom_call @each(%arg0) : (tensor<4x16xf32>) -> tensor<4x16xf32>
// CHECK: stablehlo.custom_call @product(%[[A]], %arg1) : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
// CHECK-NOT: sharding_rule
sdy.mesh @mesh = <["x"=2]>
func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.custom_call @each(%a) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = stablehlo.custom_call @product(%0, %w) : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
