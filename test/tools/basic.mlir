// RUN: gspmd-opt %s | FileCheck %s --check-prefix=PLAIN
// RUN: gspmd-opt < %s | FileCheck %s --check-prefix=PLAIN
// RUN: gspmd-opt - < %s | FileCheck %s --check-prefix=PLAIN
// RUN: gspmd-opt --cse %s | FileCheck %s --check-prefix=CSE
// RUN: gspmd-opt -cse %s | FileCheck %s --check-prefix=CSE
// RUN: gspmd-opt --pass-pipeline='builtin.module(func.func(cse))' %s | FileCheck %s --check-prefix=CSE
// RUN: gspmd-opt --emit-bytecode %s | gspmd-opt | FileCheck %s --check-prefix=PLAIN
// RUN: gspmd-opt --mlir-print-op-generic %s | FileCheck %s --check-prefix=GENERIC
// RUN: gspmd-opt --mlir-print-debuginfo --mlir-print-local-scope %s | FileCheck %s --check-prefix=LOC

// PLAIN-LABEL: func.func @twice_the_sum
// PLAIN-COUNT-3: stablehlo.add
// CSE-LABEL: func.func @twice_the_sum
// CSE: stablehlo.add
// CSE-NEXT: stablehlo.add
// CSE-NEXT: return
// GENERIC: "stablehlo.add"(%arg0, %arg0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// LOC: stablehlo.add {{.*}} loc("{{.*}}basic.mlir":20:8)
func.func @twice_the_sum(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  %1 = stablehlo.add %a, %a : tensor<4xf32>
  %2 = stablehlo.add %0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
