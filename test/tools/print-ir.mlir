// RUN: gspmd-opt --cse --symbol-dce --mlir-print-ir-before=symbol-dce --mlir-print-ir-after=symbol-dce %s 2>&1 >/dev/null | FileCheck %s --check-prefix=ONE
// RUN: gspmd-opt --pass-pipeline='builtin.module(func.func(cse,canonicalize))' --mlir-print-ir-after=cse %s 2>&1 >/dev/null | FileCheck %s --check-prefix=NESTED
// RUN: gspmd-opt --cse --gspmd-optimize --mlir-print-ir-after-all %s 2>&1 >/dev/null | FileCheck %s --check-prefix=ALL
// RUN: gspmd-opt --cse --mlir-print-ir-before-all %s 2>&1 >/dev/null | FileCheck %s --check-prefix=BEFORE
// RUN: gspmd-opt --cse --gspmd-optimize --mlir-timing %s 2>&1 >/dev/null | FileCheck %s --check-prefix=TIMING
// RUN: not gspmd-opt --cse --mlir-print-ir-after=symbol-dce %s 2>&1 | FileCheck %s --check-prefix=MISSING

// ONE-NOT: IR Dump {{.*}} cse
// ONE: // -----// IR Dump Before symbol-dce //----- //
// ONE: func.func private @unused
// ONE: // -----// IR Dump After symbol-dce //----- //
// ONE-NOT: func.func private @unused
// ONE: func.func @main

// NESTED: // -----// IR Dump After cse //----- //
// NESTED: module
// NESTED: func.func @main
// NESTED-NOT: IR Dump

// ALL: // -----// IR Dump After {{.*}}cse
// ALL: // -----// IR Dump After {{.*}}gspmd-optimize

// BEFORE: // -----// IR Dump Before {{.*}}cse
// BEFORE: func.func @main

// TIMING: Execution time report
// TIMING: CSE
// TIMING: Optimize

// MISSING: gspmd-opt: error: cannot print around pass 'symbol-dce', which does not run; name one of: cse
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func private @unused(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
