// RUN: gspmd-opt --split-input-file --gspmd-propagate %s | FileCheck %s

// The mirror image: here the columns are reduced.
// CHECK-LABEL: module @and_the_other_one_where_that_lives_longer
// CHECK: stablehlo.dot_general %arg0, %arg1, {{.*}}per_value<[<@mesh, [{"x"}, {}]>]>
module @and_the_other_one_where_that_lives_longer {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %b: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %c: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> tensor<64x64xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.tanh %0 : tensor<64x64xf32>
    %2 = stablehlo.dot_general %1, %c, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %2 : tensor<64x64xf32>
  }
}

// -----

// The tensor with most bytes wins, whatever follows. Of equally many elements f32 has more than bf16.
// CHECK-LABEL: module @bytes_count_not_elements
// CHECK: stablehlo.compare {{.*}}per_value<[<@mesh, [{}, {"x"}]>]>
module @bytes_count_not_elements {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<64x64xi1> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %b: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %c: tensor<64x64xf32>) -> tensor<64x64xi1> {
    %0 = stablehlo.select %a, %b, %c : tensor<64x64xi1>, tensor<64x64xf32>
    %1 = stablehlo.compare LT, %0, %c : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xi1>
    return %1 : tensor<64x64xi1>
  }
}

// -----

// What a user wrote is never thought over, however much it costs.
// CHECK-LABEL: module @annotations_stay
// CHECK: stablehlo.broadcast_in_dim %arg1, {{.*}}per_value<[<@mesh, [{}, {"x"}]>]>
module @annotations_stay {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
                         %b: tensor<128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<64x128xf32> {
    %0 = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<64xf32>) -> tensor<64x128xf32>
    %1 = stablehlo.broadcast_in_dim %b, dims = [1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}]>]>} : (tensor<128xf32>) -> tensor<64x128xf32>
    %2 = stablehlo.add %0, %1 : tensor<64x128xf32>
    return %2 : tensor<64x128xf32>
  }
}

// -----

// Axes of different tensors that contradict each other nowhere are merged, also parts of one dimension's.
// CHECK-LABEL: module @compatible_axes_are_merged
// CHECK: stablehlo.add {{.*}}per_value<[<@mesh, [{"x"}, {"y"}, {"z"}]>]>
module @compatible_axes_are_merged {
  sdy.mesh @mesh = <["x"=2, "y"=2, "z"=2]>
  func.func public @main(%a: tensor<8x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}, {?}]>},
                         %b: tensor<8x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"y"}, {?}]>})
      -> (tensor<8x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {?}, {"z"}]>}) {
    %0 = stablehlo.add %a, %b : tensor<8x8x8xf32>
    return %0 : tensor<8x8x8xf32>
  }
}

// -----

// Equal operations on other types decide for themselves: f32 outweighs the predicate, i8 does not, though the first has
// been decided when the second is looked at.
// CHECK-LABEL: module @each_type_for_itself
// CHECK: stablehlo.select %arg0, %arg1, {{.*}}per_value<[<@mesh, [{}, {"x"}]>]>
// CHECK: stablehlo.select %arg0, %arg3, {{.*}}per_value<[<@mesh, [{"x"}, {}]>]>
module @each_type_for_itself {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%p: tensor<64x64xi1> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %a: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %b: tensor<64x64xf32>,
                         %c: tensor<64x64xi8> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %d: tensor<64x64xi8>)
      -> (tensor<64x64xf32>, tensor<64x64xi8>) {
    %0 = stablehlo.select %p, %a, %b : tensor<64x64xi1>, tensor<64x64xf32>
    %1 = stablehlo.select %p, %c, %d : tensor<64x64xi1>, tensor<64x64xi8>
    return %0, %1 : tensor<64x64xf32>, tensor<64x64xi8>
  }
}
