// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard %s | FileCheck %s

// A partial product is summed first, so that a row is reduced and not the matrix; dividing it first would save nothing.
// CHECK-LABEL: module @mean
// CHECK: stablehlo.dot_general {{.*}}unreduced={"x"}
// CHECK-NEXT: stablehlo.constant
// CHECK-NEXT: stablehlo.reduce{{.*}}unreduced={"x"}
// CHECK: sdy.all_reduce {"x"} {{.*}} : tensor<32xf32>
// CHECK-NOT: sdy.all_reduce
// CHECK: stablehlo.divide
module @mean {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %b: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<32xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<16x32xf32>, tensor<f32>) -> tensor<32xf32>
    %count = stablehlo.constant dense<16.0> : tensor<32xf32>
    %2 = stablehlo.divide %1, %count : tensor<32xf32>
    return %2 : tensor<32xf32>
  }
}

// -----

// A maximum is not linear, nor is a sum that starts from something, nor is what the constant is divided by.
// CHECK-LABEL: module @maximum
// CHECK: stablehlo.dot_general
// CHECK: sdy.all_reduce {"x"} {{.*}} : tensor<16x32xf32>
module @maximum {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %b: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<32xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %least) applies stablehlo.maximum across dimensions = [0] : (tensor<16x32xf32>, tensor<f32>) -> tensor<32xf32>
    return %1 : tensor<32xf32>
  }
}

// -----

// CHECK-LABEL: module @sum_from_one
// CHECK: stablehlo.dot_general
// CHECK: sdy.all_reduce {"x"} {{.*}} : tensor<16x32xf32>
module @sum_from_one {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %b: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<32xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %one) applies stablehlo.add across dimensions = [0] : (tensor<16x32xf32>, tensor<f32>) -> tensor<32xf32>
    return %1 : tensor<32xf32>
  }
}

// -----

// CHECK-LABEL: module @divided_by_it
// CHECK: stablehlo.dot_general
// CHECK: sdy.all_reduce
// CHECK: stablehlo.divide
module @divided_by_it {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %b: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<16x32xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %one = stablehlo.constant dense<1.0> : tensor<16x32xf32>
    %1 = stablehlo.divide %one, %0 : tensor<16x32xf32>
    return %1 : tensor<16x32xf32>
  }
}

// -----

// Rows that a loop adds to zeros and these to a sum are scattered as they are: the sum is reduced after the loop.
// CHECK-LABEL: module @rows_of_a_loop
// CHECK: stablehlo.dot_general {{.*}}unreduced={"x"}
// CHECK: "stablehlo.scatter"
// CHECK: unreduced={"x"}
// CHECK: sdy.all_reduce {"x"} {{.*}} : tensor<3x8x5xf32>
module @rows_of_a_loop {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %b: tensor<4096x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<3x8x5xf32> {
    %first = stablehlo.constant dense<0> : tensor<i32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<3x8x5xf32>
    %0:2 = stablehlo.while(%i = %first, %sum = %zeros) : tensor<i32>, tensor<3x8x5xf32> cond {
      %last = stablehlo.constant dense<6> : tensor<i32>
      %more = stablehlo.compare LT, %i, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %row = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x4096xf32>, tensor<4096x5xf32>) -> tensor<8x5xf32>
      %at = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
      %rows = "stablehlo.scatter"(%zeros, %at, %row) <{scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = [0, 1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<3x8x5xf32>, tensor<1xi32>, tensor<8x5xf32>) -> tensor<3x8x5xf32>
      %added = stablehlo.add %sum, %rows : tensor<3x8x5xf32>
      stablehlo.return %next, %added : tensor<i32>, tensor<3x8x5xf32>
    }
    return %0#1 : tensor<3x8x5xf32>
  }
}

// -----

// Not where that sum is larger than all that is added.
// CHECK-LABEL: module @rows_of_a_short_loop
// CHECK: sdy.all_reduce {"x"} {{.*}} : tensor<8x5xf32>
// CHECK: "stablehlo.scatter"
module @rows_of_a_short_loop {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %b: tensor<4096x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<3000x8x5xf32> {
    %first = stablehlo.constant dense<0> : tensor<i32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<3000x8x5xf32>
    %0:2 = stablehlo.while(%i = %first, %sum = %zeros) : tensor<i32>, tensor<3000x8x5xf32> cond {
      %last = stablehlo.constant dense<6> : tensor<i32>
      %more = stablehlo.compare LT, %i, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %row = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x4096xf32>, tensor<4096x5xf32>) -> tensor<8x5xf32>
      %at = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
      %rows = "stablehlo.scatter"(%zeros, %at, %row) <{scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = [0, 1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<3000x8x5xf32>, tensor<1xi32>, tensor<8x5xf32>) -> tensor<3000x8x5xf32>
      %added = stablehlo.add %sum, %rows : tensor<3000x8x5xf32>
      stablehlo.return %next, %added : tensor<i32>, tensor<3000x8x5xf32>
    }
    return %0#1 : tensor<3000x8x5xf32>
  }
}

// -----

// What is scaled waits if something linear follows: the sum of two means is reduced once.
// CHECK-LABEL: module @sum_of_scaled
// CHECK: stablehlo.multiply {{.*}}unreduced={"x"}
// CHECK: stablehlo.negate {{.*}}unreduced={"x"}
// CHECK: stablehlo.add {{.*}}unreduced={"x"}
// CHECK-NEXT: sdy.all_reduce {"x"} {{.*}} : tensor<16x32xf32>
// CHECK-NOT: sdy.all_reduce
module @sum_of_scaled {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                         %b: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %c: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<16x32xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %half = stablehlo.constant dense<0.5> : tensor<16x32xf32>
    %1 = stablehlo.multiply %0, %half : tensor<16x32xf32>
    %2 = stablehlo.dot_general %a, %c, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %3 = stablehlo.negate %2 : tensor<16x32xf32>
    %4 = stablehlo.add %1, %3 : tensor<16x32xf32>
    return %4 : tensor<16x32xf32>
  }
}

// -----

// What is taken from a whole value is reduced where it is made, beside the second product, and not behind it. The sum is
// scattered, so that a shard is scaled.
// CHECK-LABEL: module @weight_update
// CHECK: %[[GRADIENT:.*]] = stablehlo.dot_general {{.*}}unreduced={"x"}
// CHECK-NEXT: %[[SHARD:.*]] = sdy.reduce_scatter {{.*}} %[[GRADIENT]]
// CHECK: stablehlo.dot_general
// CHECK: stablehlo.multiply {{.*}} %[[SHARD]]
module @weight_update {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%weight: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %a: tensor<1024x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                         %b: tensor<1024x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> (tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
          tensor<1024x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<1024x64xf32>, tensor<1024x32xf32>) -> tensor<64x32xf32>
    %1 = stablehlo.dot_general %b, %b, contracting_dims = [1] x [1] : (tensor<1024x32xf32>, tensor<1024x32xf32>) -> tensor<1024x1024xf32>
    %rate = stablehlo.constant dense<0.1> : tensor<64x32xf32>
    %2 = stablehlo.multiply %rate, %0 : tensor<64x32xf32>
    %3 = stablehlo.subtract %weight, %2 : tensor<64x32xf32>
    return %3, %1 : tensor<64x32xf32>, tensor<1024x1024xf32>
  }
}
