// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard=target=%S/bytes-only.toml --gspmd-localize --cse %s | FileCheck %s

// Dimensions that are kept whole stay split, through slice, pad, concatenate and reverse.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.slice %{{.*}} [0:3, 1:5] : (tensor<3x9xf32>) -> tensor<3x4xf32>
// CHECK: stablehlo.pad {{.*}} low = [0, 1], high = [0, 0], interior = [0, 1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x8xf32>
// CHECK: stablehlo.concatenate {{.*}}, dim = 1 : (tensor<3x8xf32>, tensor<3x9xf32>) -> tensor<3x17xf32>
// CHECK: stablehlo.reverse {{.*}}, dims = [1] : tensor<3x17xf32>
// CHECK-NEXT: return
func.func public @main(%x: tensor<10x9xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %p: tensor<f32>)
    -> (tensor<10x17xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = stablehlo.slice %x [0:10, 1:5] : (tensor<10x9xf32>) -> tensor<10x4xf32>
  %1 = stablehlo.pad %0, %p, low = [0, 1], high = [0, 0], interior = [0, 1]
    : (tensor<10x4xf32>, tensor<f32>) -> tensor<10x8xf32>
  %2 = stablehlo.concatenate %1, %x, dim = 1 : (tensor<10x8xf32>, tensor<10x9xf32>) -> tensor<10x17xf32>
  %3 = stablehlo.reverse %2, dims = [1] : tensor<10x17xf32>
  return %3 : tensor<10x17xf32>
}

// -----

// A shift along a split dimension: one element goes to the neighbour.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[HEAD:[0-9]+]] = stablehlo.slice %arg0 [0:1] : (tensor<4xf32>) -> tensor<1xf32>
// CHECK: "stablehlo.collective_permute"(%[[HEAD]])
// CHECK-SAME: {{\[}}[1, 0], [2, 1], [3, 2]]
// CHECK: stablehlo.concatenate %arg0, %{{.*}} -> tensor<5xf32>
// CHECK-NOT: stablehlo.all_
func.func public @main(%x: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<15xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.slice %x [1:16] : (tensor<16xf32>) -> tensor<15xf32>
  return %0 : tensor<15xf32>
}

// -----

// The last element: the shard that holds it gives it to all.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[OWN:[0-9]+]] = stablehlo.select
// CHECK-SAME: tensor<1xf32>
// CHECK: "stablehlo.all_reduce"(%[[OWN]])
// CHECK-NOT: stablehlo.all_gather
func.func public @main(%x: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<1xf32> {
  %0 = stablehlo.slice %x [15:16] : (tensor<16xf32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}

// -----

// Half of a dimension: shards are halved, and the halves sent to where they belong.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: "stablehlo.collective_permute"(%{{.*}}) <{{.*}} dense<{{\[\[}}0, 1], [1, 2]]>
// CHECK-SAME: tensor<8xf32>
// CHECK: %[[HIGH:[0-9]+]] = stablehlo.slice %arg0 [8:16] : (tensor<16xf32>) -> tensor<8xf32>
// CHECK: "stablehlo.collective_permute"(%[[HIGH]]) <{{.*}} dense<{{\[\[}}1, 3]]>
// CHECK-NOT: stablehlo.all_
func.func public @main(%x: tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.slice %x [0:32] : (tensor<64xf32>) -> tensor<32xf32>
  return %0 : tensor<32xf32>
}

// -----

// A roll by one: one element to the next, and the last one to the first.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[LAST:[0-9]+]] = stablehlo.slice %arg0 [15:16] : (tensor<16xf32>) -> tensor<1xf32>
// CHECK: "stablehlo.collective_permute"(%[[LAST]]) <{{.*}} dense<{{\[\[}}3, 0], [0, 1], [1, 2], [2, 3]]>
// CHECK-NOT: stablehlo.collective_permute
// CHECK: return
func.func public @main(%x: tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.slice %x [63:64] : (tensor<64xf32>) -> tensor<1xf32>
  %1 = stablehlo.slice %x [0:63] : (tensor<64xf32>) -> tensor<63xf32>
  %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1xf32>, tensor<63xf32>) -> tensor<64xf32>
  return %2 : tensor<64xf32>
}

// -----

// Back to front: shards swap places, and each is reversed.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[OTHER:[0-9]+]] = "stablehlo.collective_permute"(%arg0) <{{.*}} dense<{{\[\[}}3, 0], [2, 1], [1, 2], [0, 3]]>
// CHECK: stablehlo.reverse %[[OTHER]], dims = [0] : tensor<4xf32>
// CHECK-NEXT: return
func.func public @main(%x: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.reverse %x, dims = [0] : tensor<16xf32>
  return %0 : tensor<16xf32>
}

// -----

// The same where shards are not full: the last has two of its four elements, which are the first two afterwards. The
// first device needs two more, of the third one, and padding is not sent.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-COUNT-2: "stablehlo.collective_permute"{{.*}} -> tensor<2xf32>
// CHECK-NOT: stablehlo.all_
// CHECK: stablehlo.reverse {{.*}}, dims = [0] : tensor<4xf32>
// CHECK-NEXT: return
func.func public @main(%x: tensor<14xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<14xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.reverse %x, dims = [0] : tensor<14xf32>
  return %0 : tensor<14xf32>
}

// -----

// Two elements of padding before 14 fill the shards: all elements move on by two, and the first device puts the padding
// where nobody sends it anything.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[LAST:[0-9]+]] = stablehlo.slice %arg0 [2:4]
// CHECK: %[[COME:[0-9]+]] = "stablehlo.collective_permute"(%[[LAST]])
// CHECK-SAME: {{\[}}[0, 1], [1, 2], [2, 3]]
// CHECK-SAME: gspmd.axes = "\22x\22"
// CHECK: stablehlo.concatenate %[[COME]], %arg0
// CHECK: %[[INSIDE:[0-9]+]] = stablehlo.compare GE
// CHECK: %[[PADDING:[0-9]+]] = stablehlo.broadcast_in_dim %arg1
// CHECK: stablehlo.select %[[INSIDE]], %{{.*}}, %[[PADDING]] : tensor<4xi1>, tensor<4xf32>
// CHECK-NEXT: return
func.func public @main(%x: tensor<14xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %p: tensor<f32>)
    -> (tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.pad %x, %p, low = [2], high = [0], interior = [0] : (tensor<14xf32>, tensor<f32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// -----

// Every other element: shards of an even number keep the halves that are theirs.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NOT: stablehlo.collective_permute
// CHECK: stablehlo.slice {{.*}} [0:3:2] : {{.*}} -> tensor<2xf32>
// CHECK-NEXT: return
func.func public @main(%x: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.slice %x [0:16:2] : (tensor<16xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
