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

// -----

// A window of almost all rows stays split, as it cannot start far apart: wherever it starts, every device finds its part
// of the window in its own rows and two of the next shard.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[HEAD:[0-9]+]] = stablehlo.slice %arg0 [0:2, 0:6]
// CHECK: %[[COME:[0-9]+]] = "stablehlo.collective_permute"(%[[HEAD]])
// CHECK-SAME: {{\[}}[1, 0], [2, 1], [3, 2]]
// CHECK-SAME: gspmd.axes = "\22x\22"
// CHECK: %[[ROWS:[0-9]+]] = stablehlo.concatenate %arg0, %[[COME]]
// CHECK: stablehlo.dynamic_slice %[[ROWS]], {{.*}} sizes = [4, 6]
// CHECK-NOT: "stablehlo.all_
func.func public @main(%a: tensor<16x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %start: tensor<i32>)
    -> (tensor<14x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dynamic_slice %a, %start, %zero, sizes = [14, 6]
    : (tensor<16x6xf32>, tensor<i32>, tensor<i32>) -> tensor<14x6xf32>
  return %0 : tensor<14x6xf32>
}

// -----

// Three elements written into shards of four may begin in one and end in the next. Each device takes as many of its own
// elements as may be written, replaces those that are, and puts them back. The start is limited as one device would do
// it, by 14 elements and not by the 16 that the shards have room for.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[LIMIT:.*]] = stablehlo.constant dense<11> : tensor<i32>
// CHECK: stablehlo.clamp %{{.*}}, %arg2, %[[LIMIT]]
// CHECK: %[[OLD:[0-9]+]] = stablehlo.dynamic_slice %arg0, %[[PLACE:[0-9]+]], sizes = [3]
// CHECK: %[[WRITTEN:[0-9]+]] = stablehlo.and
// CHECK: %[[PIECE:[0-9]+]] = stablehlo.select %[[WRITTEN]], %{{.*}}, %[[OLD]]
// CHECK: stablehlo.dynamic_update_slice %arg0, %[[PIECE]], %[[PLACE]]
// CHECK-NOT: stablehlo.collective_permute
// CHECK-NOT: stablehlo.all_
func.func public @main(
    %cache: tensor<14xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %new: tensor<3xf32>, %start: tensor<i32>)
    -> (tensor<14xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.dynamic_update_slice %cache, %new, %start
    : (tensor<14xf32>, tensor<3xf32>, tensor<i32>) -> tensor<14xf32>
  return %0 : tensor<14xf32>
}

// -----

// Dimensions that windows span stay split, and the operation is as it was.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NOT: stablehlo.partition_id
// CHECK: stablehlo.dynamic_slice %arg0, %arg1, %{{.*}}, sizes = [3, 2]
// CHECK-NEXT: return
func.func public @main(%a: tensor<7x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %start: tensor<i32>)
    -> (tensor<3x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dynamic_slice %a, %start, %zero, sizes = [3, 6]
    : (tensor<7x6xf32>, tensor<i32>, tensor<i32>) -> tensor<3x6xf32>
  return %0 : tensor<3x6xf32>
}
