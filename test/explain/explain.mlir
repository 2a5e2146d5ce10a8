// RUN: gspmd explain %s | FileCheck %s
// RUN: gspmd explain %s --value=total --value=@gelu:%y | FileCheck %s --check-prefix=VALUE
// RUN: gspmd explain %s --conflicts | FileCheck %s --check-prefix=CONFLICT
// RUN: gspmd explain %s --value=explain.mlir:71 | FileCheck %s --check-prefix=LINE
// RUN: gspmd explain %s --json --value=total | FileCheck %s --check-prefix=JSON
// RUN: gspmd explain %s --print-module | FileCheck %s --check-prefix=MODULE
// RUN: not gspmd explain %s --value=totel 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not gspmd explain %s --value=total --all 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: gspmd explain - --value=total < %s | FileCheck %s --check-prefix=STDIN

// CHECK: mesh: x=4, y=2 (8 devices)
// CHECK-NEXT: 7 values, 7 of them split
// CHECK: values sharded by at
// CHECK-NEXT: 6 argument %a [{"x"}, {}] explain.mlir:{{[0-9]+}}
// CHECK-NEXT: 1 argument %w [{"y"}, {}] explain.mlir:
// CHECK: 1 conflict, 1 with communication: a device sends 128 B in about 1.0 us
// CHECK-NEXT: sent time operation at
// CHECK-NEXT: 128 B 1.0 us dot_general %0 explain.mlir:
// CHECK: this decision is proven optimal under the objective
// CHECK-NEXT: counts term
// CHECK-NEXT: {{[0-9]+}} ns communication

// VALUE: %total = stablehlo.add f32[16,8] at explain.mlir:
// VALUE-NEXT: sharding [{"x"}, {}], 4x8 on each device
// VALUE-NEXT: dimension 0 over "x":
// VALUE-NEXT: from dimension 0 of %0 add %total: operand 0 to result 0 explain.mlir:{{[0-9]+}} level 1
// VALUE-NEXT: from dimension 0 of %a dot_general %0: operand 0 to result 0 explain.mlir:{{[0-9]+}} level 1
// VALUE-NEXT: annotated: argument %a [{"x"}, {}], dimension 0 at explain.mlir:
// VALUE: @gelu:%y = stablehlo.tanh f32[16,8] at explain.mlir:{{[0-9]+}}, in the call %g
// VALUE: from dimension 0 of %total tanh @gelu:%y: operand 0 to result 0
// VALUE: level 1: dimensions that contractions and reductions pass through; broadcasts backward

// CONFLICT: dot_general %0 at explain.mlir:{{[0-9]+}}: 128 B sent per device, about 1.0 us
// CONFLICT-NEXT: dimension 1 of operand 0 is not split but dimension 0 of operand 1 is split over "y"
// CONFLICT-NEXT: a reduction over dimension 0 of operand 1, split over "y", leaves partial results
// CONFLICT-NEXT: operand 0 %a [{"x"}, {}] -> [{"x"}, {"y"}] from argument %a [{"x"}, {}]
// CONFLICT-NEXT: operand 1 %w [{"y"}, {}] from argument %w [{"y"}, {}]
// CONFLICT-NEXT: result 0 %0 [{"x"}, {}] -> [{"x"}, {}], partial over "y" from argument %a [{"x"}, {}]
// CONFLICT-NEXT: all_reduce over y: 128 B; 'stablehlo.dot_general' leaves partial results over "y"
// CONFLICT-NEXT: compared {{[0-9]+}} candidates; chose 128 B and {{[0-9]+}} ns, against
// CONFLICT-NEXT: 512 B {{[0-9]+}} ns [{"x"}, {}], [{}, {}] -> [{"x"}, {}]

// LINE: %total = stablehlo.add
// LINE-NOT: dot_general f32

// JSON: "mesh": {
// JSON: "name": "%total",
// JSON: "derivations": [
// JSON: "from_value": "%0",
// JSON: "from_value": "%a",
// JSON: "kind": "argument",

// The names that MLIR prints, for programs that have no text.
// MODULE: %1 = stablehlo.add %0, %arg2

// UNKNOWN: gspmd: error: the program has no value 'totel'; did you mean '%total'?
// BOTH: gspmd: error: --all and --value are both given; give one of them
// STDIN: %total = stablehlo.add

sdy.mesh @mesh = <["x"=4, "y"=2]>

func.func private @gelu(%x: tensor<16x8xf32>) -> tensor<16x8xf32> {
  %y = stablehlo.tanh %x : tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}

func.func @main(%a: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                %w: tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>},
                %bias: tensor<16x8xf32>) -> tensor<16x8xf32> {
  %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  %total = stablehlo.add %0, %bias : tensor<16x8xf32>
  %g = func.call @gelu(%total) : (tensor<16x8xf32>) -> tensor<16x8xf32>
  return %g : tensor<16x8xf32>
}
