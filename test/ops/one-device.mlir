// RUN: gspmd-opt --split-input-file --gspmd-partition %s | FileCheck %s

// A mesh of one device leaves nothing to decide: what cannot be split stays as it is.

// CHECK-LABEL: module @a_kernel_outside_of_a_manual_computation
// CHECK: stablehlo.custom_call @__gpu$xla.gpu.triton
module @a_kernel_outside_of_a_manual_computation {
  sdy.mesh @mesh = <["x"=1, "y"=1]>
  func.func public @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x4xf32> {
    %0 = stablehlo.custom_call @"__gpu$xla.gpu.triton"(%a) {mhlo.backend_config = {name = "k"}, api_version = 4 : i32} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}

// -----

// CHECK-LABEL: module @a_kernel_in_a_manual_computation
// CHECK: stablehlo.custom_call @my_kernel
module @a_kernel_in_a_manual_computation {
  sdy.mesh @mesh = <["x"=1]>
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%m: tensor<8xf32>) {
      %1 = stablehlo.custom_call @my_kernel(%m) {has_side_effect = true, api_version = 2 : i32} : (tensor<8xf32>) -> tensor<8xf32>
      sdy.return %1 : tensor<8xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
