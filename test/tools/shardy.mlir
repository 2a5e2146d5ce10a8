// Shardy's own passes do not look whether a program is one that they can read. They take a custom call that they know by
// its name to have the operands and dimensions that they expect; such calls are refused before them. On other programs
// they end the process; this is tried in another one first.
//
// RUN: gspmd-opt --split-input-file --verify-diagnostics --sdy-aggressive-propagate %s
// RUN: not gspmd-opt --sdy-inline-meshes %S/Inputs/declared.mlir 2>&1 | FileCheck %s --check-prefix=ENDS
//
// ENDS: error: jaxlib's passes 'sdy-inline-meshes' end with signal SIGSEGV on this program

func.func @of_other_operands(%a: tensor<8xf32>, %low: tensor<f32>) -> tensor<2xf32> {
  // expected-error @+1 {{take a call of 'ApproxTopK' to have four operands, two results of the rank of the first}}
  %0 = stablehlo.custom_call @ApproxTopK(%a, %low) : (tensor<8xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @of_no_result(%a: tensor<8xf32>) {
  // expected-error @+1 {{take a call of 'InspectSharding' to have operands and results of one rank}}
  stablehlo.custom_call @InspectSharding(%a) {has_side_effect = true} : (tensor<8xf32>) -> ()
  return
}

// -----

func.func @of_a_vector(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<f32>) {
  // expected-error @+1 {{take a call of 'Eigh' to have one operand of matrices and two results}}
  %0:2 = stablehlo.custom_call @Eigh(%a) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<f32>)
  return %0#0, %0#1 : tensor<8xf32>, tensor<f32>
}

// -----

func.func @as_expected(%a: tensor<4x8x8xf32>) -> (tensor<4x8x8xf32>, tensor<4x8xf32>) {
  %0:2 = stablehlo.custom_call @Eigh(%a) : (tensor<4x8x8xf32>) -> (tensor<4x8x8xf32>, tensor<4x8xf32>)
  return %0#0, %0#1 : tensor<4x8x8xf32>, tensor<4x8xf32>
}
