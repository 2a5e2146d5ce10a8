// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard --gspmd-localize --cse %s | FileCheck %s

// Split free dimensions are a smaller product on every device. The rows of padding make rows of padding, and nothing is
// masked or sent.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: stablehlo.dot_general %arg0, %arg1
// CHECK-SAME: (tensor<2x5xf32>, tensor<5x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT: return
func.func public @main(
    %a: tensor<6x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %b: tensor<5x7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>})
    -> (tensor<6x7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<6x5xf32>, tensor<5x7xf32>) -> tensor<6x7xf32>
  return %0 : tensor<6x7xf32>
}

// -----

// A split contraction leaves partial sums, which the devices along that axis add up.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[PARTIAL:[0-9]+]] = stablehlo.dot_general %arg0, %arg1
// CHECK-SAME: (tensor<3x2xf32>, tensor<2x5xf32>) -> tensor<3x5xf32>
// CHECK: "stablehlo.all_reduce"(%[[PARTIAL]])
// CHECK-SAME: {{\[}}[0, 2, 4, 6], [1, 3, 5, 7]]
// CHECK: stablehlo.add
// CHECK: gspmd.axes = "\22x\22"
func.func public @main(
    %a: tensor<3x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
    %b: tensor<8x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<3x5xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<3x8xf32>, tensor<8x5xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}

// -----

// Where the contraction is uneven, the padding of both sides becomes zero: one side would not do, as padding may be
// NaN, and zero times NaN is NaN.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[LEFT:[0-9]+]] = stablehlo.select %{{.*}}, %arg0, %{{.*}} : tensor<3x2xi1>, tensor<3x2xf32>
// CHECK: %[[RIGHT:[0-9]+]] = stablehlo.select %{{.*}}, %arg1, %{{.*}} : tensor<2x5xi1>, tensor<2x5xf32>
// CHECK: %[[PARTIAL:[0-9]+]] = stablehlo.dot_general %[[LEFT]], %[[RIGHT]]
// CHECK: "stablehlo.all_reduce"(%[[PARTIAL]])
func.func public @main(
    %a: tensor<3x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
    %b: tensor<6x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<3x5xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<3x6xf32>, tensor<6x5xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}

// -----

// Rows that are grouped by expert, split over devices: of every group a device has the part that its rows have in
// common with it. The sizes become those of the parts: where a group begins and ends, limited to the device's rows.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[ENDS:[0-9]+]] = stablehlo.reduce({{.*}}) applies stablehlo.add across dimensions = [1]
// CHECK: stablehlo.subtract %[[ENDS]], %arg2
// CHECK: %[[ROWS:.*]] = stablehlo.constant dense<3> : tensor<i32>
// CHECK: %[[BEGIN:[0-9]+]] = stablehlo.clamp %{{.*}}, %{{.*}}, %[[ROWS]] :
// CHECK: %[[END:[0-9]+]] = stablehlo.clamp %{{.*}}, %{{.*}}, %[[ROWS]] :
// CHECK: %[[SIZES:[0-9]+]] = stablehlo.subtract %[[END]], %[[BEGIN]] : tensor<3xi32>
// CHECK: "chlo.ragged_dot"(%arg0, %arg1, %[[SIZES]])
// CHECK-SAME: (tensor<3x5xf32>, tensor<3x5x3xf32>, tensor<3xi32>) -> tensor<3x3xf32>
// CHECK-NEXT: return
func.func public @main(
    %tokens: tensor<12x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %experts: tensor<3x5x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"y"}]>}, %sizes: tensor<3xi32>)
    -> (tensor<12x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
  %0 = "chlo.ragged_dot"(%tokens, %experts, %sizes) <{
    ragged_dot_dimension_numbers = #chlo.ragged_dot<
      lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1],
      lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>
  }> : (tensor<12x5xf32>, tensor<3x5x6xf32>, tensor<3xi32>) -> tensor<12x6xf32>
  return %0 : tensor<12x6xf32>
}

// -----

// Groups of whole rows keep their sizes.

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: "chlo.ragged_dot"(%arg0, %arg1, %arg2)
// CHECK-SAME: (tensor<8x5xf32>, tensor<3x5x3xf32>, tensor<3xi32>) -> tensor<8x3xf32>
// CHECK-NEXT: return
func.func public @main(
    %tokens: tensor<8x5xf32>, %experts: tensor<3x5x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"y"}]>},
    %sizes: tensor<3xi32>) -> (tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) {
  %0 = "chlo.ragged_dot"(%tokens, %experts, %sizes) <{
    ragged_dot_dimension_numbers = #chlo.ragged_dot<
      lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1],
      lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>
  }> : (tensor<8x5xf32>, tensor<3x5x6xf32>, tensor<3xi32>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}
