// RUN: gspmd-opt --split-input-file --gspmd-ingest --gspmd-propagate --gspmd-reshard --gspmd-localize --cse %s \
// RUN:   | FileCheck %s

// A result that is to stay partial over an axis: every device gives its summand, and nobody adds them up.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[PARTIAL:[0-9]+]] = stablehlo.dot_general %arg0, %arg1
// CHECK-SAME: (tensor<6x2xf32>, tensor<2x5xf32>) -> tensor<6x5xf32>
// CHECK-NOT: stablehlo.all_reduce
// CHECK-NOT: stablehlo.select
// CHECK: return %{{.*}} : tensor<6x5xf32>
func.func public @main(
    %a: tensor<6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
    %b: tensor<8x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<6x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>}) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<6x8xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
  return %0 : tensor<6x5xf32>
}

// -----

// What is whole is taken apart into itself, on the first device along the axis, and zeros on the others. So the sum is
// right, without communication.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK-SAME: %arg0: tensor<4xf32>
// CHECK: %[[FIRST:[0-9]+]] = stablehlo.compare EQ
// CHECK: %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<1x4xf32>
// CHECK: %[[SUMMAND:[0-9]+]] = stablehlo.select %[[FIRST]], %{{.*}}, %[[ZERO]]
// CHECK: %[[LEFT:[0-9]+]] = stablehlo.reshape %[[SUMMAND]]
// CHECK: return %[[LEFT]] : tensor<4xf32>
// CHECK-NOT: stablehlo.all_reduce
func.func public @main(%a: tensor<7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>})
    -> (tensor<7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}], unreduced={"x"}>}) {
  return %a : tensor<7xf32>
}

// -----

// What comes in partial is added up before an operation that is not linear.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[SUM:[0-9]+]] = "stablehlo.all_reduce"
// CHECK: stablehlo.add
// CHECK: gspmd.axes = "\22x\22"
// CHECK: stablehlo.tanh %[[SUM]] : tensor<4xf32>
func.func public @main(%a: tensor<7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}], unreduced={"x"}>})
    -> (tensor<7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) {
  %0 = stablehlo.tanh %a : tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

// The same behind an operation, whose result is whole: it has not become partial because somebody wants it taken apart.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.tanh %arg0 : tensor<4xf32>
// CHECK: %[[FIRST:[0-9]+]] = stablehlo.compare EQ
// CHECK: %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<1x4xf32>
// CHECK: stablehlo.select %[[FIRST]], %{{.*}}, %[[ZERO]]
// CHECK-NOT: stablehlo.all_reduce
func.func public @main(%a: tensor<7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>})
    -> (tensor<7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}], unreduced={"x"}>}) {
  %0 = stablehlo.tanh %a : tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

// What is split over the axis already is not brought together: each device's part is its summand, among zeros.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK-SAME: %arg0: tensor<2x3xf32>
// CHECK-NOT: stablehlo.all_gather
// CHECK: %[[PLACED:[0-9]+]] = stablehlo.dynamic_update_slice %{{.*}}, %arg0, %{{.*}}, %{{.*}} : (tensor<8x3xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<8x3xf32>
// CHECK: %[[LEFT:[0-9]+]] = stablehlo.slice %[[PLACED]] [0:7, 0:3]
// CHECK: return %{{.*}} : tensor<7x3xf32>
func.func public @main(%a: tensor<7x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>})
    -> (tensor<7x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}], unreduced={"x"}>}) {
  return %a : tensor<7x6xf32>
}

// -----

// What is split over another axis, too, is gathered along that one only.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK: "stablehlo.all_gather"
// CHECK-SAME: gspmd.axes = "\22y\22"
// CHECK: (tensor<2x4xf32>) -> tensor<2x8xf32>
// CHECK: stablehlo.dynamic_update_slice
// CHECK-NOT: stablehlo.all_gather
func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>}) {
  return %a : tensor<8x8xf32>
}
