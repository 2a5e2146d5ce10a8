// RUN: gspmd-opt %s --gspmd-ingest --split-input-file | FileCheck %s

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: @main
// CHECK-SAME: %[[A:.*]]: tensor<3x2xf32>, %[[B:.*]]: tensor<5x2xf32>
// CHECK: %[[J:.*]] = stablehlo.concatenate %[[B]], %[[A]], dim = 0
// CHECK: %[[Z:.*]] = stablehlo.broadcast_in_dim
// CHECK: stablehlo.add %[[J]], %[[Z]]
// CHECK-NOT: stablehlo.pad
func.func @main(%a: tensor<3x2xf32>, %b: tensor<5x2xf32>) -> tensor<8x2xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.pad %a, %0, low = [5, 0], high = [0, 0], interior = [0, 0] : (tensor<3x2xf32>, tensor<f32>) -> tensor<8x2xf32>
  %2 = stablehlo.pad %b, %0, low = [0, 0], high = [3, 0], interior = [0, 0] : (tensor<5x2xf32>, tensor<f32>) -> tensor<8x2xf32>
  %3 = stablehlo.add %1, %2 : tensor<8x2xf32>
  return %3 : tensor<8x2xf32>
}

// -----

sdy.mesh @mesh = <["x"=4]>

// Padded values that overlap are added.
// CHECK-LABEL: @main
// CHECK: stablehlo.pad
// CHECK: stablehlo.pad
// CHECK: stablehlo.add
func.func @main(%a: tensor<4xf32>, %b: tensor<5xf32>) -> tensor<8xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.pad %a, %0, low = [4], high = [0], interior = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.pad %b, %0, low = [0], high = [3], interior = [0] : (tensor<5xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = stablehlo.add %1, %2 : tensor<8xf32>
  return %3 : tensor<8xf32>
}

// -----

sdy.mesh @mesh = <["x"=4]>

// What pads leave between them is not zero where they are made of something else.
// CHECK-LABEL: @main
// CHECK: stablehlo.pad
// CHECK: stablehlo.pad
// CHECK: stablehlo.add
func.func @main(%a: tensor<3xi32>, %b: tensor<5xi32>) -> tensor<8xi32> {
  %0 = stablehlo.constant dense<1> : tensor<i32>
  %1 = stablehlo.pad %a, %0, low = [5], high = [0], interior = [0] : (tensor<3xi32>, tensor<i32>) -> tensor<8xi32>
  %2 = stablehlo.pad %b, %0, low = [0], high = [3], interior = [0] : (tensor<5xi32>, tensor<i32>) -> tensor<8xi32>
  %3 = stablehlo.add %1, %2 : tensor<8xi32>
  return %3 : tensor<8xi32>
}

// -----

sdy.mesh @mesh = <["x"=4]>

// Integers have one zero: there is nothing to add.
// CHECK-LABEL: @main
// CHECK: stablehlo.concatenate %{{.*}}, %{{.*}}, dim = 0
// CHECK-NEXT: return
func.func @main(%a: tensor<3xi32>, %b: tensor<5xi32>) -> tensor<8xi32> {
  %0 = stablehlo.constant dense<0> : tensor<i32>
  %1 = stablehlo.pad %a, %0, low = [0], high = [5], interior = [0] : (tensor<3xi32>, tensor<i32>) -> tensor<8xi32>
  %2 = stablehlo.pad %b, %0, low = [3], high = [0], interior = [0] : (tensor<5xi32>, tensor<i32>) -> tensor<8xi32>
  %3 = stablehlo.add %1, %2 : tensor<8xi32>
  return %3 : tensor<8xi32>
}

// -----

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: @main
// CHECK: %[[P:.*]] = stablehlo.pad %{{.*}}, %{{.*}}, low = [1], high = [-1], interior = [0]
// CHECK-NEXT: return %[[P]]
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.constant dense<2.0> : tensor<f32>
  %1 = stablehlo.pad %a, %0, low = [1], high = [0], interior = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<9xf32>
  %2 = stablehlo.slice %1 [0:8] : (tensor<9xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: @main
// CHECK: %[[P:.*]] = stablehlo.pad %{{.*}}, %{{.*}}, low = [-1], high = [1], interior = [0]
// CHECK-NEXT: return %[[P]]
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.pad %a, %0, low = [0], high = [1], interior = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<9xf32>
  %2 = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.pad %1, %2, low = [-1], high = [0], interior = [0] : (tensor<9xf32>, tensor<f32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}

// -----

sdy.mesh @mesh = <["x"=4]>

// Elements that are cut off do not come back by padding.
// CHECK-LABEL: @main
// CHECK: stablehlo.pad %{{.*}}, %{{.*}}, low = [-1], high = [0], interior = [0]
// CHECK: stablehlo.pad %{{.*}}, %{{.*}}, low = [1], high = [0], interior = [0]
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.pad %a, %0, low = [-1], high = [0], interior = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<7xf32>
  %2 = stablehlo.pad %1, %0, low = [1], high = [0], interior = [0] : (tensor<7xf32>, tensor<f32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

sdy.mesh @mesh = <["x"=4]>

// What is said of the padded value is kept, so it stays a value.
// CHECK-LABEL: @main
// CHECK: stablehlo.pad
// CHECK: stablehlo.slice
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.constant dense<2.0> : tensor<f32>
  %1 = stablehlo.pad %a, %0, low = [4], high = [0], interior = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : (tensor<8xf32>, tensor<f32>) -> tensor<12xf32>
  %2 = stablehlo.slice %1 [0:8] : (tensor<12xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

// CHECK-LABEL: module @a_window_pads_what_it_reads
// CHECK-NOT: stablehlo.pad
// CHECK: "stablehlo.reduce_window"(%arg0, %cst) <{base_dilations = array<i64: 2, 1>, padding = dense<{{\[}}[2, 1], [0, 0]]>
module @a_window_pads_what_it_reads {
  func.func @main(%arg0: tensor<16x4xf32>) -> tensor<32x4xf32> {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %p = stablehlo.pad %arg0, %z, low = [2, 0], high = [1, 0], interior = [1, 0] : (tensor<16x4xf32>, tensor<f32>) -> tensor<34x4xf32>
    %r = "stablehlo.reduce_window"(%p, %z) <{window_dimensions = array<i64: 3, 1>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<34x4xf32>, tensor<f32>) -> tensor<32x4xf32>
    return %r : tensor<32x4xf32>
  }
}

// -----

// CHECK-LABEL: module @padding_of_another_value_stays
// CHECK: stablehlo.pad
module @padding_of_another_value_stays {
  func.func @main(%arg0: tensor<16xf32>) -> tensor<16xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %p = stablehlo.pad %arg0, %one, low = [1], high = [1], interior = [0] : (tensor<16xf32>, tensor<f32>) -> tensor<18xf32>
    %r = "stablehlo.reduce_window"(%p, %z) <{window_dimensions = array<i64: 3>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<18xf32>, tensor<f32>) -> tensor<16xf32>
    return %r : tensor<16xf32>
  }
}

// -----

// CHECK-LABEL: module @pads_of_complex_numbers_become_one
// CHECK-COUNT-1: stablehlo.pad
// CHECK-NOT: stablehlo.pad
module @pads_of_complex_numbers_become_one {
  func.func @main(%a: tensor<4xcomplex<f32>>) -> tensor<7xcomplex<f32>> {
    %c = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
    %d = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
    %0 = stablehlo.pad %a, %c, low = [1], high = [0], interior = [0] : (tensor<4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<5xcomplex<f32>>
    %1 = stablehlo.pad %0, %d, low = [2], high = [0], interior = [0] : (tensor<5xcomplex<f32>>, tensor<complex<f32>>) -> tensor<7xcomplex<f32>>
    return %1 : tensor<7xcomplex<f32>>
  }
}

// -----

// CHECK-LABEL: module @a_pad_of_a_constant_and_one_of_an_argument_stay
// CHECK-COUNT-2: stablehlo.pad
module @a_pad_of_a_constant_and_one_of_an_argument_stay {
  func.func @main(%a: tensor<4xi32>, %d: tensor<i32>) -> tensor<7xi32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.pad %a, %c, low = [1], high = [0], interior = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<5xi32>
    %1 = stablehlo.pad %0, %d, low = [2], high = [0], interior = [0] : (tensor<5xi32>, tensor<i32>) -> tensor<7xi32>
    return %1 : tensor<7xi32>
  }
}

// -----

// A dynamic slice that starts where constants say is a slice, which is clamped as that would be.
// CHECK-LABEL: @a_start_that_is_a_constant
// CHECK: stablehlo.slice %{{.*}} [4:8, 1:3]
// CHECK-NOT: dynamic_slice
module @a_start_that_is_a_constant {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<8x4xf32>) -> tensor<4x2xf32> {
    %0 = stablehlo.constant dense<7> : tensor<i32>
    %1 = stablehlo.constant dense<1> : tensor<i32>
    %2 = stablehlo.dynamic_slice %a, %0, %1, sizes = [4, 2] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    return %2 : tensor<4x2xf32>
  }
}

// -----

// What is said of the padded value, which is not made any more, counts for nothing beside what is said of the result.
// CHECK-LABEL: module @a_pad_with_a_constraint_and_its_annotated_slice_are_one_pad
// CHECK: %[[PADDED:.*]] = stablehlo.pad %arg0, %{{.*}}, low = [2], high = [-2], interior = [0]
// CHECK-NEXT: return %[[PADDED]]
module @a_pad_with_a_constraint_and_its_annotated_slice_are_one_pad {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %0 = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.pad %a, %0, low = [2], high = [2], interior = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<12xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{"x"}]> : tensor<12xf32>
    %3 = stablehlo.slice %2 [0:8] : (tensor<12xf32>) -> tensor<8xf32>
    return %3 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_constraint_holds_for_the_slice_if_nothing_else_does
// CHECK: %[[PADDED:.*]] = stablehlo.pad %arg0, %{{.*}}, low = [2], high = [-2], interior = [0]
// CHECK-NEXT: sdy.sharding_constraint %[[PADDED]] <@mesh, [{"x"}]> : tensor<8xf32>
module @a_constraint_holds_for_the_slice_if_nothing_else_does {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.pad %a, %0, low = [2], high = [2], interior = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<12xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{"x"}]> : tensor<12xf32>
    %3 = stablehlo.slice %2 [0:8] : (tensor<12xf32>) -> tensor<8xf32>
    return %3 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_constraint_does_not_hold_for_a_much_smaller_slice
// CHECK: stablehlo.pad
// CHECK-NEXT: sdy.sharding_constraint
// CHECK-NEXT: stablehlo.slice
module @a_constraint_does_not_hold_for_a_much_smaller_slice {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<8xf32>) -> tensor<4xf32> {
    %0 = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.pad %a, %0, low = [2], high = [2], interior = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<12xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{"x"}]> : tensor<12xf32>
    %3 = stablehlo.slice %2 [0:4] : (tensor<12xf32>) -> tensor<4xf32>
    return %3 : tensor<4xf32>
  }
}

// -----

// Of a reversed value only the part that is used is reversed: places 1, 3 and 5 of 8 are 6, 4 and 2 before.
// CHECK-LABEL: module @a_slice_of_a_reversal_is_the_reversal_of_a_slice
// CHECK-NEXT: sdy.mesh
// CHECK: %[[CUT:.*]] = stablehlo.slice %arg0 [2:7:2, 1:3]
// CHECK-NEXT: %[[REVERSED:.*]] = stablehlo.reverse %[[CUT]], dims = [0]
// CHECK-NEXT: return %[[REVERSED]]
module @a_slice_of_a_reversal_is_the_reversal_of_a_slice {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<8x4xf32>) -> tensor<3x2xf32> {
    %0 = stablehlo.reverse %a, dims = [0] : tensor<8x4xf32>
    %1 = stablehlo.slice %0 [1:6:2, 1:3] : (tensor<8x4xf32>) -> tensor<3x2xf32>
    return %1 : tensor<3x2xf32>
  }
}

// -----

// CHECK-LABEL: module @a_reversed_value_with_other_users_is_reversed_whole
// CHECK: stablehlo.reverse %arg0
// CHECK-NEXT: stablehlo.slice
module @a_reversed_value_with_other_users_is_reversed_whole {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
    %0 = stablehlo.reverse %a, dims = [0] : tensor<8xf32>
    %1 = stablehlo.slice %0 [0:4] : (tensor<8xf32>) -> tensor<4xf32>
    return %1, %0 : tensor<4xf32>, tensor<8xf32>
  }
}

// -----

// What is cut out of a concatenation is cut out of its parts, so that a value joined to itself is rotated.
// CHECK-LABEL: module @a_concatenation_is_cut_in_its_parts
// CHECK: %[[LAST:.*]] = stablehlo.slice %arg0 [3:8, 0:2]
// CHECK: %[[FIRST:.*]] = stablehlo.slice %arg0 [0:3, 0:2]
// CHECK: %[[ROTATED:.*]] = stablehlo.concatenate %[[LAST]], %[[FIRST]], dim = 0
// CHECK: %[[ONE:.*]] = stablehlo.slice %arg0 [1:6:2, 0:2]
// CHECK: return %[[ROTATED]], %[[ONE]]
module @a_concatenation_is_cut_in_its_parts {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<8x2xf32>) -> (tensor<8x2xf32>, tensor<3x2xf32>) {
    %0 = stablehlo.concatenate %a, %a, dim = 0 : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<16x2xf32>
    %1 = stablehlo.slice %0 [3:11, 0:2] : (tensor<16x2xf32>) -> tensor<8x2xf32>
    %2 = stablehlo.slice %0 [9:14:2, 0:2] : (tensor<16x2xf32>) -> tensor<3x2xf32>
    return %1, %2 : tensor<8x2xf32>, tensor<3x2xf32>
  }
}

// -----

// Every second row of both parts is not what a slice of each has, and what is annotated stays.
// CHECK-LABEL: module @cuts_that_leave_rows_out_and_what_is_annotated_stay
// CHECK-COUNT-2: stablehlo.concatenate
// CHECK-NOT: stablehlo.concatenate
module @cuts_that_leave_rows_out_and_what_is_annotated_stay {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<8x2xf32>, %b: tensor<8x2xf32>) -> (tensor<5x2xf32>, tensor<4x2xf32>) {
    %0 = stablehlo.concatenate %a, %b, dim = 0 : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<16x2xf32>
    %1 = stablehlo.slice %0 [3:12:2, 0:2] : (tensor<16x2xf32>) -> tensor<5x2xf32>
    %2 = stablehlo.concatenate %b, %a, dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<16x2xf32>
    %3 = stablehlo.slice %2 [0:4, 0:2] : (tensor<16x2xf32>) -> tensor<4x2xf32>
    return %1, %3 : tensor<5x2xf32>, tensor<4x2xf32>
  }
}

// -----

// A slice of a slice is one.
// CHECK-LABEL: module @a_slice_of_a_slice_is_one
// CHECK: %[[CUT:.*]] = stablehlo.slice %arg0 [6:13:6, 1:2]
// CHECK: return %[[CUT]]
module @a_slice_of_a_slice_is_one {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%a: tensor<16x2xf32>, %b: tensor<8x2xf32>) -> tensor<2x1xf32> {
    %0 = stablehlo.slice %a [2:16:2, 0:2] : (tensor<16x2xf32>) -> tensor<7x2xf32>
    %1 = stablehlo.slice %0 [2:7:3, 1:2] : (tensor<7x2xf32>) -> tensor<2x1xf32>
    %2 = stablehlo.concatenate %b, %b, dim = 0 : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<16x2xf32>
    return %1 : tensor<2x1xf32>
  }
}
