// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard --gspmd-localize --cse %s | FileCheck %s

// The split dimension is the major one of those that are merged: every device's rows stay together.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: stablehlo.reshape %arg0 : (tensor<2x6xf32>) -> tensor<12xf32>
// CHECK-NEXT: return
func.func public @main(%a: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<48xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.reshape %a : (tensor<8x6xf32>) -> tensor<48xf32>
  return %0 : tensor<48xf32>
}

// -----

// Dimensions that change places or are repeated take their axes with them.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[TURNED:[0-9]+]] = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
// CHECK-NEXT: stablehlo.broadcast_in_dim %[[TURNED]], dims = [1, 2] : (tensor<2x2xf32>) -> tensor<5x2x2xf32>
// CHECK-NEXT: return
func.func public @main(%a: tensor<6x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>})
    -> (tensor<5x3x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}, {"x"}]>}) {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<6x3xf32>) -> tensor<3x6xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [1, 2] : (tensor<3x6xf32>) -> tensor<5x3x6xf32>
  return %1 : tensor<5x3x6xf32>
}

// -----

// Six rows of ten on four devices are 20, 20, 20 and no elements; merged they are 15 on each. The boundaries between
// shards move, and every device sends what comes to lie in the next.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[FLAT:[0-9]+]] = stablehlo.reshape %arg0 : (tensor<2x10xf32>) -> tensor<20xf32>
// CHECK: %[[END:[0-9]+]] = stablehlo.slice %[[FLAT]] [5:20] : (tensor<20xf32>) -> tensor<15xf32>
// CHECK: %[[COME:[0-9]+]] = "stablehlo.collective_permute"(%[[END]])
// CHECK-SAME: {{\[}}[0, 1], [1, 2], [2, 3]]
// CHECK-SAME: gspmd.axes = "\22x\22"
// CHECK: %[[NEAR:[0-9]+]] = stablehlo.concatenate %[[COME]], %[[FLAT]]
// CHECK: stablehlo.dynamic_slice %[[NEAR]], %{{.*}}, sizes = [15]
// CHECK-NEXT: return
// CHECK-NOT: stablehlo.all_
func.func public @main(%a: tensor<6x10xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<60xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.reshape %a : (tensor<6x10xf32>) -> tensor<60xf32>
  return %0 : tensor<60xf32>
}

// -----

// The minor one of two dimensions cannot stay split while they become one, as its shards are strewn over that. It is
// whole during the reshape, and every device keeps its part of the result.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: "stablehlo.all_gather"(%arg0) <{all_gather_dim = 1
// CHECK-SAME: (tensor<6x2xf32>) -> tensor<6x8xf32>
// CHECK: stablehlo.reshape
// CHECK: stablehlo.dynamic_slice {{.*}} -> tensor<12xf32>
// CHECK-NEXT: return
func.func public @main(%a: tensor<6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>})
    -> (tensor<48xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.reshape %a : (tensor<6x8xf32>) -> tensor<48xf32>
  return %0 : tensor<48xf32>
}
