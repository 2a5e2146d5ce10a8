// RUN: rm -f %t.out
// RUN: not gspmd-opt --split-input-file %s -o %t.out 2>&1 | FileCheck %s
// RUN: not ls %t.out
// RUN: not gspmd-opt --split-input-file %s 2>/dev/null | FileCheck --check-prefix=OTHERS %s

// Every part is read, errors carry the line in the file, and no file is written. What is printed are the other parts.
// OTHERS: @main
// OTHERS: // -----
// OTHERS: @last
// CHECK: {{^.*}}split-input-errors.mlir:14:8: error: custom op 'stablehlo.ad' is unknown
// CHECK-NEXT: {{^.*}}split-input-errors.mlir:28:23: error: expected 'x' in dimension list
// CHECK-NOT: error
func.func @main(%a: tensor<1xi32>) -> tensor<1xi32> {
  %0 = stablehlo.ad %a, %a : tensor<1xi32>
  return %0 : tensor<1xi32>
}

// -----

func.func @main() -> tensor<2xi32> {
  %0 = stablehlo.constant dense<1> : tensor<2xi32>
  return %0 : tensor<2xi32>
}

// -----

func.func @main() -> tensor<2xi32> {
  return %0 : tensor<2
}

// -----

func.func @last() -> tensor<2xi32> {
  %0 = stablehlo.constant dense<1> : tensor<2xi32>
  return %0 : tensor<2xi32>
}
