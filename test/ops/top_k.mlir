// RUN: gspmd-opt --gspmd-propagate --gspmd-reshard --gspmd-localize --cse %s | FileCheck %s

// The best of every shard are gathered, not the logits.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: chlo.top_k({{.*}}, k = 2) : tensor<3x64xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
// CHECK: "stablehlo.all_gather"{{.*}} : (tensor<3x2xf32>) -> tensor<3x8xf32>
// CHECK: "stablehlo.all_gather"{{.*}} : (tensor<3x2xi32>) -> tensor<3x8xi32>
// CHECK: chlo.top_k({{.*}}, k = 2) : tensor<3x8xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
func.func public @main(%logits: tensor<3x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>})
    -> (tensor<3x2xf32>, tensor<3x2xi32>) {
  %0:2 = chlo.top_k(%logits, k = 2) : tensor<3x256xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %0#0, %0#1 : tensor<3x2xf32>, tensor<3x2xi32>
}
