// RUN: gspmd-opt --split-input-file --verify-diagnostics --stablehlo-refine-shapes %s

func.func @main(%a: tensor<4xf32>, %b: tensor<5xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{requires the same shape for all operands and results}}
  %0 = "stablehlo.add"(%a, %b) : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.ad"(%a) : (tensor<4xf32>) -> tensor<4xf32>  // expected-error {{unregistered operation 'stablehlo.ad'}}
  return %0 : tensor<4xf32>
}

// -----

// expected-note @below {{see existing symbol definition here}}
func.func @main() { return }
func.func @main() { return }
// expected-error-re @above {{redefinition of symbol named '{{m.*n}}'}}

// -----

// A pass that fails.
// expected-error @below {{must have exactly one block}}
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^next
^next:
  return %a : tensor<4xf32>
}
