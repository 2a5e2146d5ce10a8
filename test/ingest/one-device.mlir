// RUN: gspmd-opt %s --gspmd-ingest --split-input-file --verify-diagnostics | FileCheck %s

// What is on one device of the program is the same as a copy on each.

sdy.mesh @one = <[], device_ids=[1]>
sdy.mesh @m = <["x"=4]>
// CHECK-LABEL: func.func public @main
// CHECK-SAME: %arg0: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {}]>}
// CHECK-SAME: %arg1: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {"x"}]>}
// CHECK-SAME: -> (tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {}]>})
// CHECK-NEXT: stablehlo.tanh %arg0 {gspmd.annotated, sdy.sharding = #sdy.sharding_per_value<[<@m, [{}, {}]>]>}
// CHECK: sdy.sharding_constraint %{{.*}} <@m, [{}, {}]>
// expected-remark @+2 {{'func.func' op asks for argument 0 on device 1 alone; every device holds a copy of it}}
// expected-remark @+1 {{'func.func' op asks for result 0 on device 3 alone; every device holds a copy of it}}
func.func public @main(%arg0: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@one, []>},
                       %arg1: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {"x"}]>})
    -> (tensor<4x6xf32> {mhlo.sharding = "{maximal device=3}"}) {
  // expected-remark @+1 {{'stablehlo.tanh' op asks for a value on device 1 alone}}
  %0 = stablehlo.tanh %arg0 {mhlo.sharding = "{maximal device=1}"} : tensor<4x6xf32>
  %1 = stablehlo.add %0, %arg1 : tensor<4x6xf32>
  // expected-remark @+1 {{'sdy.sharding_constraint' op asks for a value on device 1 alone}}
  %2 = sdy.sharding_constraint %1 <@one, []> : tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}

// -----

// expected-remark @+2 {{'func.func' op asks for argument 0 on device 2 alone}}
// expected-error @+1 {{device 2 does not exist in a program of 2}}
func.func @main(%arg0: tensor<4xf32> {mhlo.sharding = "{maximal device=2}"}) -> (tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) {
  return %arg0 : tensor<4xf32>
}
