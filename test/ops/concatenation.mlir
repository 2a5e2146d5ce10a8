// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard --gspmd-localize --cse %s | FileCheck %s

// Side by side along another dimension than the split one: every device does so with its rows.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: stablehlo.concatenate %arg0, %arg1, dim = 1 : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x5xf32>
// CHECK-NEXT: return
func.func public @main(
    %a: tensor<6x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %b: tensor<6x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<6x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = stablehlo.concatenate %a, %b, dim = 1 : (tensor<6x2xf32>, tensor<6x3xf32>) -> tensor<6x5xf32>
  return %0 : tensor<6x5xf32>
}

// -----

// The first two devices have the first operand afterwards, the others the second. What both give to one device goes in
// one message: two permutes of two elements, instead of a gather of all.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[OWN:[0-9]+]] = stablehlo.concatenate %arg0, %arg1, dim = 0
// CHECK-COUNT-2: "stablehlo.collective_permute"{{.*}} : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-NOT: "stablehlo.collective_permute"
// CHECK-NOT: stablehlo.all_gather
// CHECK: return %{{.*}} : tensor<4xf32>
func.func public @main(
    %a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
    %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.concatenate %a, %b, dim = 0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// -----

// A little operand is whole on every device, which takes of it what belongs to its part. The other one moves on by two
// elements.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-SAME: %arg0: tensor<2xf32>
// CHECK-SAME: %arg1: tensor<4xf32>
// CHECK: %[[FIRST:[0-9]+]] = stablehlo.pad %arg0
// CHECK: %[[LAST:[0-9]+]] = stablehlo.slice %arg1 [2:4]
// CHECK: %[[COME:[0-9]+]] = "stablehlo.collective_permute"(%[[LAST]])
// CHECK-SAME: {{\[}}[0, 1], [1, 2], [2, 3]]
// CHECK: stablehlo.concatenate %[[COME]], %arg1
// CHECK: %[[SECOND:[0-9]+]] = stablehlo.slice
// CHECK: %[[BEHIND:[0-9]+]] = stablehlo.compare GE
// CHECK: stablehlo.select %[[BEHIND]], %[[SECOND]], %[[FIRST]]
// CHECK-NOT: "stablehlo.collective_permute"
func.func public @main(%a: tensor<2xf32>, %b: tensor<14xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.concatenate %a, %b, dim = 0 : (tensor<2xf32>, tensor<14xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// -----

// Slices of one value that are put together again, as in a roll, are one exchange. The last shard has 14 of its 16
// elements: what it gives to the first is the one before the padding.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[LAST:.*]] = stablehlo.constant dense<[15, 15, 15, 13]>
// CHECK: %[[AT:[0-9]+]] = stablehlo.dynamic_slice %[[LAST]]
// CHECK: %[[PLACE:[0-9]+]] = stablehlo.reshape %[[AT]]
// CHECK: %[[GIVEN:[0-9]+]] = stablehlo.dynamic_slice %arg0, %[[PLACE]], sizes = [1]
// CHECK: "stablehlo.collective_permute"(%[[GIVEN]])
// CHECK-SAME: {{\[}}[3, 0], [0, 1], [1, 2], [2, 3]]
// CHECK-NOT: "stablehlo.collective_permute"
func.func public @main(%x: tensor<62xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<62xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.slice %x [61:62] : (tensor<62xf32>) -> tensor<1xf32>
  %1 = stablehlo.slice %x [0:61] : (tensor<62xf32>) -> tensor<61xf32>
  %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1xf32>, tensor<61xf32>) -> tensor<62xf32>
  return %2 : tensor<62xf32>
}
