// RUN: gspmd-opt --gspmd-decide %s | FileCheck %s

// A product is split along its second weight dimension (as heads are), so that its operand has to be gathered, and two later
// products of it are partial sums, which are added up before they are reduced. It is split along the batch instead, for
// which only the weight is gathered. Then the two gradients of the weight are partial sums. What these have in common with
// others is not known here, but it is better even if the old sums cost nothing.

// CHECK-LABEL: @sums_of_another_split
// CHECK: stablehlo.tanh {{.*}}[<@mesh, [{"x"}, {}, {}, {}]>]
// CHECK: stablehlo.cosine {{.*}}[<@mesh, [{"x"}, {}, {}, {}]>]
module @sums_of_another_split attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%arg0: tensor<256x16x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}, %arg1: tensor<24x16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) -> (tensor<256x16x24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}, tensor<24x16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}, {"x"}, {}]>]>} : (tensor<256x16x24xf32>, tensor<24x16x16xf32>) -> tensor<256x16x16x16xf32>
    %1 = stablehlo.tanh %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}, {"x"}, {}]>]>} : tensor<256x16x16x16xf32>
    %2 = stablehlo.cosine %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}, {"x"}, {}]>]>} : tensor<256x16x16x16xf32>
    %3 = stablehlo.dot_general %1, %arg1, contracting_dims = [2, 3] x [1, 2] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}, {}]>]>} : (tensor<256x16x16x16xf32>, tensor<24x16x16xf32>) -> tensor<256x16x24xf32>
    %4 = stablehlo.dot_general %2, %arg1, contracting_dims = [2, 3] x [1, 2] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}, {}]>]>} : (tensor<256x16x16x16xf32>, tensor<24x16x16xf32>) -> tensor<256x16x24xf32>
    %5 = stablehlo.add %3, %4 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}, {}]>]>} : tensor<256x16x24xf32>
    %6 = stablehlo.dot_general %arg0, %1, contracting_dims = [0, 1] x [0, 1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}, {}]>]>} : (tensor<256x16x24xf32>, tensor<256x16x16x16xf32>) -> tensor<24x16x16xf32>
    %7 = stablehlo.dot_general %arg0, %2, contracting_dims = [0, 1] x [0, 1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}, {}]>]>} : (tensor<256x16x24xf32>, tensor<256x16x16x16xf32>) -> tensor<24x16x16xf32>
    %8 = stablehlo.add %6, %7 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}, {}]>]>} : tensor<24x16x16xf32>
    return %5, %8 : tensor<256x16x24xf32>, tensor<24x16x16xf32>
  }
}
