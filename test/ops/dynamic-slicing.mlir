// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard --gspmd-localize --cse %s | FileCheck %s

// One layer of a stack that is split over stages: the stage that holds it gives it to all.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.dynamic_slice
// CHECK-SAME: sizes = [1, 3] : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
// CHECK: stablehlo.select
// CHECK: "stablehlo.all_reduce"
// CHECK-SAME: {{\[}}[0, 2, 4, 6], [1, 3, 5, 7]]
// CHECK-NOT: stablehlo.all_gather
func.func public @main(
    %stack: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %layer: tensor<i32>)
    -> (tensor<1x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dynamic_slice %stack, %layer, %zero, sizes = [1, 6]
    : (tensor<8x6xf32>, tensor<i32>, tensor<i32>) -> tensor<1x6xf32>
  return %0 : tensor<1x6xf32>
}

// -----

// One row of a cache that is split along its positions: written where it belongs, without communication.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[OLD:[0-9]+]] = stablehlo.dynamic_slice
// CHECK: %[[NEW:[0-9]+]] = stablehlo.select {{.*}}, %[[OLD]]
// CHECK: stablehlo.dynamic_update_slice %{{.*}}, %[[NEW]]
// CHECK-SAME: (tensor<2x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
// CHECK-NOT: stablehlo.all_
func.func public @main(
    %cache: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>},
    %row: tensor<1x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}, %position: tensor<i32>)
    -> (tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dynamic_update_slice %cache, %row, %position, %zero
    : (tensor<8x6xf32>, tensor<1x6xf32>, tensor<i32>, tensor<i32>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}
