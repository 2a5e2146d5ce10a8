// RUN: gspmd-opt --split-input-file --gspmd-ingest %s | FileCheck %s

// A case of one branch is that branch, whatever the index: it is clamped. Nested ones as well.
// CHECK-LABEL: module @one_branch
// CHECK: %0 = stablehlo.sine %arg1
// CHECK-NEXT: %1 = stablehlo.cosine %0
// CHECK-NEXT: return %1
module @one_branch {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%i: tensor<i32>, %a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.case"(%i) ({
      %1 = stablehlo.sine %a : tensor<4xf32>
      %2 = "stablehlo.case"(%i) ({
        %3 = stablehlo.cosine %1 : tensor<4xf32>
        stablehlo.return %3 : tensor<4xf32>
      }) : (tensor<i32>) -> tensor<4xf32>
      stablehlo.return %2 : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// CHECK-LABEL: module @two_branches_stay
// CHECK: stablehlo.case
module @two_branches_stay {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%i: tensor<i32>, %a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.case"(%i) ({
      stablehlo.return %a : tensor<4xf32>
    }, {
      %1 = stablehlo.sine %a : tensor<4xf32>
      stablehlo.return %1 : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// What is annotated is kept, with its annotation.
// CHECK-LABEL: module @annotated_ones_stay
// CHECK: stablehlo.case
// CHECK: sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>
module @annotated_ones_stay {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%i: tensor<i32>, %a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.case"(%i) ({
      %1 = stablehlo.sine %a : tensor<4xf32>
      stablehlo.return %1 : tensor<4xf32>
    }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : (tensor<i32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
