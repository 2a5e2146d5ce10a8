// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard --gspmd-localize --cse %s | FileCheck %s

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
