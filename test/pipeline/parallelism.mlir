// RUN: gspmd-opt --split-input-file --gspmd-partition %s | FileCheck %s

// A two-layer perceptron with its gradients, annotated as four kinds of parallelism ask for.

// CHECK-LABEL: module @data_parallelism_reduces_each_gradient_and_nothing_else
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: [[DW2:%[0-9]+]] = stablehlo.dot_general {{.*}}contracting_dims = [0] x [0] {{.*}} -> tensor<128x32xf32>
// CHECK-NEXT: "stablehlo.all_reduce"([[DW2]]) {{.*}}replica_groups = dense<{{\[\[}}0, 1, 2, 3]]>
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: [[DW1:%[0-9]+]] = stablehlo.dot_general %arg0, {{.*}}contracting_dims = [0] x [0] {{.*}} -> tensor<32x128xf32>
// CHECK-NEXT: "stablehlo.all_reduce"([[DW1]]) {{.*}}replica_groups = dense<{{\[\[}}0, 1, 2, 3]]>
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: {{ }}return %
module @data_parallelism_reduces_each_gradient_and_nothing_else {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<1024x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %w1: tensor<32x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
                         %w2: tensor<128x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
      -> (tensor<32x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<128x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %h = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<1024x32xf32>, tensor<32x128xf32>) -> tensor<1024x128xf32>
    %a = stablehlo.tanh %h : tensor<1024x128xf32>
    %y = stablehlo.dot_general %a, %w2, contracting_dims = [1] x [0] : (tensor<1024x128xf32>, tensor<128x32xf32>) -> tensor<1024x32xf32>
    %dw2 = stablehlo.dot_general %a, %y, contracting_dims = [0] x [0] : (tensor<1024x128xf32>, tensor<1024x32xf32>) -> tensor<128x32xf32>
    %da = stablehlo.dot_general %y, %w2, contracting_dims = [1] x [1] : (tensor<1024x32xf32>, tensor<128x32xf32>) -> tensor<1024x128xf32>
    %dh = stablehlo.multiply %da, %a : tensor<1024x128xf32>
    %dw1 = stablehlo.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<1024x32xf32>, tensor<1024x128xf32>) -> tensor<32x128xf32>
    return %dw1, %dw2 : tensor<32x128xf32>, tensor<128x32xf32>
  }
}

// -----

// CHECK-LABEL: module @tensor_parallelism_reduces_once_forward_and_once_backward
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: [[Y:%[0-9]+]] = stablehlo.dot_general {{.*}}, %arg2, contracting_dims = [1] x [0] {{.*}} -> tensor<64x32xf32>
// CHECK-NEXT: "stablehlo.all_reduce"([[Y]]) {{.*}}replica_groups = dense<{{\[\[}}0, 1, 2, 3]]>
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: [[DX:%[0-9]+]] = stablehlo.dot_general {{.*}}, %arg1, contracting_dims = [1] x [1] {{.*}} -> tensor<64x32xf32>
// CHECK-NEXT: "stablehlo.all_reduce"([[DX]]) {{.*}}replica_groups = dense<{{\[\[}}0, 1, 2, 3]]>
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: {{ }}return %
module @tensor_parallelism_reduces_once_forward_and_once_backward {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
                         %w1: tensor<32x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %w2: tensor<128x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> (tensor<64x32xf32>, tensor<64x32xf32>, tensor<32x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, tensor<128x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %h = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x128xf32>) -> tensor<64x128xf32>
    %a = stablehlo.tanh %h : tensor<64x128xf32>
    %y = stablehlo.dot_general %a, %w2, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x32xf32>) -> tensor<64x32xf32>
    %dw2 = stablehlo.dot_general %a, %y, contracting_dims = [0] x [0] : (tensor<64x128xf32>, tensor<64x32xf32>) -> tensor<128x32xf32>
    %da = stablehlo.dot_general %y, %w2, contracting_dims = [1] x [1] : (tensor<64x32xf32>, tensor<128x32xf32>) -> tensor<64x128xf32>
    %dh = stablehlo.multiply %da, %a : tensor<64x128xf32>
    %dw1 = stablehlo.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<64x32xf32>, tensor<64x128xf32>) -> tensor<32x128xf32>
    %dx = stablehlo.dot_general %dh, %w1, contracting_dims = [1] x [1] : (tensor<64x128xf32>, tensor<32x128xf32>) -> tensor<64x32xf32>
    return %y, %dx, %dw1, %dw2 : tensor<64x32xf32>, tensor<64x32xf32>, tensor<32x128xf32>, tensor<128x32xf32>
  }
}

// -----

// CHECK-LABEL: module @fully_sharded_weights_are_gathered_and_their_gradients_scattered
// CHECK: func.func public @main
// CHECK-NEXT: [[W1:%[0-9]+]] = "stablehlo.all_gather"(%arg1) {{.*}} : (tensor<16x256xf32>) -> tensor<64x256xf32>
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: stablehlo.dot_general %arg0, [[W1]],
// CHECK: stablehlo.tanh
// CHECK-NEXT: [[W2:%[0-9]+]] = "stablehlo.all_gather"(%arg2) {{.*}} : (tensor<64x64xf32>) -> tensor<256x64xf32>
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: stablehlo.dot_general {{.*}}, [[W2]], contracting_dims = [1] x [0]
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: [[DW2:%[0-9]+]] = stablehlo.dot_general {{.*}}contracting_dims = [0] x [0] {{.*}} -> tensor<256x64xf32>
// CHECK-NEXT: "stablehlo.reduce_scatter"([[DW2]])
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: stablehlo.dot_general {{.*}}, [[W2]], contracting_dims = [1] x [1]
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: [[DW1:%[0-9]+]] = stablehlo.dot_general {{.*}}contracting_dims = [0] x [0] {{.*}} -> tensor<64x256xf32>
// CHECK-NEXT: "stablehlo.reduce_scatter"([[DW1]])
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: {{ }}return %
module @fully_sharded_weights_are_gathered_and_their_gradients_scattered {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<4096x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %w1: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %w2: tensor<256x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> (tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, tensor<256x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %h = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<4096x64xf32>, tensor<64x256xf32>) -> tensor<4096x256xf32>
    %a = stablehlo.tanh %h : tensor<4096x256xf32>
    %y = stablehlo.dot_general %a, %w2, contracting_dims = [1] x [0] : (tensor<4096x256xf32>, tensor<256x64xf32>) -> tensor<4096x64xf32>
    %dw2 = stablehlo.dot_general %a, %y, contracting_dims = [0] x [0] : (tensor<4096x256xf32>, tensor<4096x64xf32>) -> tensor<256x64xf32>
    %da = stablehlo.dot_general %y, %w2, contracting_dims = [1] x [1] : (tensor<4096x64xf32>, tensor<256x64xf32>) -> tensor<4096x256xf32>
    %dh = stablehlo.multiply %da, %a : tensor<4096x256xf32>
    %dw1 = stablehlo.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<4096x64xf32>, tensor<4096x256xf32>) -> tensor<64x256xf32>
    return %dw1, %dw2 : tensor<64x256xf32>, tensor<256x64xf32>
  }
}

// -----

// CHECK-LABEL: module @data_and_tensor_parallelism_use_an_axis_each
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: [[Y:%[0-9]+]] = stablehlo.dot_general {{.*}}, %arg2,
// CHECK-NEXT: "stablehlo.all_reduce"([[Y]]) {{.*}}replica_groups = dense<{{\[\[}}0, 1], [2, 3]]>
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: [[DW2:%[0-9]+]] = stablehlo.dot_general {{.*}}contracting_dims = [0] x [0]
// CHECK-NEXT: "stablehlo.all_reduce"([[DW2]]) {{.*}}replica_groups = dense<{{\[\[}}0, 2], [1, 3]]>
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: {{ }}return %
module @data_and_tensor_parallelism_use_an_axis_each {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%x: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %w1: tensor<32x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>},
                         %w2: tensor<128x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>})
      -> (tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, tensor<128x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) {
    %h = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x128xf32>) -> tensor<64x128xf32>
    %a = stablehlo.tanh %h : tensor<64x128xf32>
    %y = stablehlo.dot_general %a, %w2, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x32xf32>) -> tensor<64x32xf32>
    %dw2 = stablehlo.dot_general %a, %y, contracting_dims = [0] x [0] : (tensor<64x128xf32>, tensor<64x32xf32>) -> tensor<128x32xf32>
    return %y, %dw2 : tensor<64x32xf32>, tensor<128x32xf32>
  }
}

// -----

// CHECK-LABEL: module @a_softmax_over_a_split_dimension_reduces_its_maximum_and_its_sum
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: stablehlo.reduce(%arg0 {{.*}}stablehlo.maximum
// CHECK: [[M:%[0-9]+]] = stablehlo.select
// CHECK-NEXT: "stablehlo.all_reduce"([[M]])
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: stablehlo.maximum
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: [[S:%[0-9]+]] = stablehlo.reduce({{.*}}stablehlo.add
// CHECK-NEXT: "stablehlo.all_reduce"([[S]])
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: stablehlo.add
// CHECK-NOT: "stablehlo.{{(all_|collective|reduce_scatter)}}
// CHECK: {{ }}return %
module @a_softmax_over_a_split_dimension_reduces_its_maximum_and_its_sum {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<8x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> (tensor<8x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<8x4096xf32>, tensor<f32>) -> tensor<8xf32>
    %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<8xf32>) -> tensor<8x4096xf32>
    %d = stablehlo.subtract %x, %mb : tensor<8x4096xf32>
    %e = stablehlo.exponential %d : tensor<8x4096xf32>
    %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x4096xf32>, tensor<f32>) -> tensor<8xf32>
    %sb = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<8xf32>) -> tensor<8x4096xf32>
    %p = stablehlo.divide %e, %sb : tensor<8x4096xf32>
    return %p : tensor<8x4096xf32>
  }
}

// -----

// CHECK-LABEL: module @a_program_that_is_not_annotated_stays_as_it_is
// CHECK: func.func public @main(%arg0: tensor<8xf32>
// CHECK-NEXT: [[A:%[0-9]+]] = stablehlo.sine %arg0 : tensor<8xf32>
// CHECK-NEXT: return [[A]]
module @a_program_that_is_not_annotated_stays_as_it_is {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.sine %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
