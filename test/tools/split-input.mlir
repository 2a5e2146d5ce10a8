// RUN: gspmd-opt --split-input-file --cse %s | FileCheck %s
// RUN: gspmd-opt --split-input-file %s | gspmd-opt --split-input-file | FileCheck %s
// RUN: not gspmd-opt --split-input-file --emit-bytecode %s 2>&1 | FileCheck %s --check-prefix=BYTECODE

// CHECK: func.func @main() -> tensor<1xi32>
// CHECK: // -----
// CHECK: func.func @main() -> tensor<2xi32>
// CHECK-NOT: // -----
// BYTECODE: gspmd-opt: error: --emit-bytecode with several parts of a split input; write text, or split the file
func.func @main() -> tensor<1xi32> {
  %0 = stablehlo.constant dense<1> : tensor<1xi32>
  return %0 : tensor<1xi32>
}

// -----

func.func @main() -> tensor<2xi32> {
  %0 = stablehlo.constant dense<1> : tensor<2xi32>
  return %0 : tensor<2xi32>
}
