// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard=target=%S/bytes-only.toml --gspmd-localize --cse %s | FileCheck %s

// Images split by rows: one row of each neighbour, and no padding of the rows any more. Devices at the ends receive
// nothing, which is zeros, as padding is.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-COUNT-2: "stablehlo.collective_permute"{{.*}} : (tensor<2x1x8x3xf32>) -> tensor<2x1x8x3xf32>
// CHECK: %[[ROWS:[0-9]+]] = stablehlo.concatenate {{.*}} -> tensor<2x6x8x3xf32>
// CHECK-NOT: stablehlo.select
// CHECK: stablehlo.convolution(%[[ROWS]], %arg1)
// CHECK-SAME: pad = {{\[}}[0, 0], [1, 1]]
// CHECK-SAME: -> tensor<2x4x8x5xf32>
func.func public @main(
    %images: tensor<2x16x8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}, {}]>}, %kernel: tensor<3x3x3x5xf32>)
    -> (tensor<2x16x8x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}, {}]>}) {
  %0 = stablehlo.convolution(%images, %kernel)
    dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]}
    {feature_group_count = 1 : i64, batch_group_count = 1 : i64}
    : (tensor<2x16x8x3xf32>, tensor<3x3x3x5xf32>) -> tensor<2x16x8x5xf32>
  return %0 : tensor<2x16x8x5xf32>
}

// -----

// The last shard has two of its four rows. What neighbours have beyond the last row becomes zero, as padding is, and
// the operation pads nothing itself.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-COUNT-2: "stablehlo.collective_permute"{{.*}} -> tensor<2x1x3xf32>
// CHECK: %[[ROWS:[0-9]+]] = stablehlo.concatenate {{.*}} -> tensor<2x6x3xf32>
// CHECK: %[[INSIDE:[0-9]+]] = stablehlo.and
// CHECK: %[[MASKED:[0-9]+]] = stablehlo.select %[[INSIDE]], %[[ROWS]]
// CHECK: stablehlo.convolution(%[[MASKED]], %arg1)
// CHECK-SAME: pad = {{\[}}[0, 0]]
// CHECK-SAME: -> tensor<2x4x5xf32>
func.func public @main(
    %images: tensor<2x14x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}, %kernel: tensor<3x3x5xf32>)
    -> (tensor<2x14x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) {
  %0 = stablehlo.convolution(%images, %kernel)
    dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]}
    {feature_group_count = 1 : i64, batch_group_count = 1 : i64}
    : (tensor<2x14x3xf32>, tensor<3x3x5xf32>) -> tensor<2x14x5xf32>
  return %0 : tensor<2x14x5xf32>
}

// -----

// Patches that lie side by side, as at the entrance of a vision transformer, tile the shards: nothing is sent.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: stablehlo.convolution(%arg0, %arg1)
// CHECK-SAME: (tensor<2x4x3xf32>, tensor<2x3x5xf32>) -> tensor<2x2x5xf32>
// CHECK-NEXT: return
func.func public @main(
    %images: tensor<2x16x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}, %kernel: tensor<2x3x5xf32>)
    -> (tensor<2x8x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) {
  %0 = stablehlo.convolution(%images, %kernel)
    dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2]}
    {feature_group_count = 1 : i64, batch_group_count = 1 : i64}
    : (tensor<2x16x3xf32>, tensor<2x3x5xf32>) -> tensor<2x8x5xf32>
  return %0 : tensor<2x8x5xf32>
}

// -----

// Input features are contracted: partial results, which are added up. Six features on four devices leave padding, which
// becomes zero on both sides, as zero times NaN is NaN.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[IMAGES:[0-9]+]] = stablehlo.select %{{.*}}, %arg0
// CHECK: %[[KERNEL:[0-9]+]] = stablehlo.select %{{.*}}, %arg1
// CHECK: %[[PARTIAL:[0-9]+]] = stablehlo.convolution(%[[IMAGES]], %[[KERNEL]])
// CHECK: "stablehlo.all_reduce"(%[[PARTIAL]])
// CHECK: gspmd.axes = "\22x\22"
func.func public @main(
    %images: tensor<2x8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"x"}]>},
    %kernel: tensor<3x6x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) -> tensor<2x8x5xf32> {
  %0 = stablehlo.convolution(%images, %kernel)
    dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]}
    {feature_group_count = 1 : i64, batch_group_count = 1 : i64}
    : (tensor<2x8x6xf32>, tensor<3x6x5xf32>) -> tensor<2x8x5xf32>
  return %0 : tensor<2x8x5xf32>
}

// -----

// Features of their own groups: a device has two of six groups, and says so.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: stablehlo.convolution(%arg0, %arg1)
// CHECK-SAME: feature_group_count = 2
// CHECK-SAME: (tensor<2x8x2xf32>, tensor<3x1x2xf32>) -> tensor<2x8x2xf32>
// CHECK-NEXT: return
func.func public @main(
    %images: tensor<2x8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"x"}]>},
    %kernel: tensor<3x1x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"x"}]>})
    -> (tensor<2x8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"x"}]>}) {
  %0 = stablehlo.convolution(%images, %kernel)
    dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]}
    {feature_group_count = 6 : i64, batch_group_count = 1 : i64}
    : (tensor<2x8x6xf32>, tensor<3x1x6xf32>) -> tensor<2x8x6xf32>
  return %0 : tensor<2x8x6xf32>
}

// -----

// Images of a batch are convolved by the devices that have them.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: stablehlo.convolution(%arg0, %arg1)
// CHECK-SAME: (tensor<2x8x3xf32>, tensor<3x3x5xf32>) -> tensor<2x8x5xf32>
// CHECK-NEXT: return
func.func public @main(
    %images: tensor<6x8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}, %kernel: tensor<3x3x5xf32>)
    -> (tensor<6x8x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}) {
  %0 = stablehlo.convolution(%images, %kernel)
    dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]}
    {feature_group_count = 1 : i64, batch_group_count = 1 : i64}
    : (tensor<6x8x3xf32>, tensor<3x3x5xf32>) -> tensor<6x8x5xf32>
  return %0 : tensor<6x8x5xf32>
}
