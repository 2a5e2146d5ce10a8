// RUN: gspmd-opt --split-input-file --gspmd-reshard %s | FileCheck %s

// The call sums over its part of the reduction; the sums of all devices are added up. The rule has done its work.

// CHECK-LABEL: module @partial_results_of_a_custom_call_are_summed
// CHECK: stablehlo.custom_call @product(%arg0, %arg1) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}], unreduced={"x"}>]>} :
// CHECK-NEXT: sdy.all_reduce {"x"} %{{.*}} out_sharding=<@mesh, [{}, {}]>
module @partial_results_of_a_custom_call_are_summed {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<8x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %b: tensor<4096x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x16xf32> {
    %0 = stablehlo.custom_call @product(%a, %b) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [j, k])->([i, k]) {i=8, j=4096, k=16} reduction={j}, custom>} : (tensor<8x4096xf32>, tensor<4096x16xf32>) -> tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
}

// -----

// CHECK-LABEL: module @a_known_operation_is_computed_as_known
// CHECK: sdy.all_gather [{"x"}, {}] %arg0
// CHECK: stablehlo.cholesky
module @a_known_operation_is_computed_as_known {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.cholesky %a, lower = true {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=8}>} : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
