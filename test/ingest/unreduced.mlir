// RUN: gspmd-opt %s --gspmd-ingest --split-input-file --verify-diagnostics | FileCheck %s

// Partial results are summed where their users are no sums; that a value is to be left unreduced says no more.

sdy.mesh @mesh = <["x"=4, "y"=2]>
// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.dot_general {{.*}}sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}, {}]>]>
// CHECK-NEXT: sdy.sharding_constraint %{{.*}} <@mesh, [{"y"}, {?}]>
func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}, %b: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}, {}], unreduced={"x"}>]>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{"y"}, {?}], unreduced={"x"}> : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["x"=4, "y"=2]>
// expected-error @+1 {{'func.func' op has argument 0 unreduced over "x": what the caller gives and gets are whole values; leave 'unreduced' out; the program sums where it has to}}
func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}], unreduced={"x"}>}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}

// -----

// expected-error @+1 {{'func.func' op has result 0 unreduced over "axis_0"}}
func.func public @main(%a: tensor<8xf32> {mhlo.sharding = "{devices=[4]<=[4]}"}) -> (tensor<8xf32> {mhlo.sharding = "{unreduced}"}) {
  return %a : tensor<8xf32>
}
