// RUN: gspmd-opt --split-input-file --gspmd-remake-permuted %s | FileCheck %s

// The part of the other device is cut from what both have, and multiplied here.
// CHECK-LABEL: module @a_part_of_what_all_have_is_cut_elsewhere
// CHECK: %[[TABLE:.*]] = stablehlo.constant dense<[1, 0]>
// CHECK: stablehlo.dynamic_slice %[[TABLE]]
// CHECK: stablehlo.dynamic_slice %arg0
// CHECK-NEXT: stablehlo.dot_general
// CHECK-NOT: collective_permute
// CHECK: return
module @a_part_of_what_all_have_is_cut_elsewhere attributes {gspmd.mesh = "<[\22x\22=2]>", mhlo.num_partitions = 2 : i32} {
  func.func public @main(%a: tensor<8x4xf32> {gspmd.global_type = tensor<8x4xf32>, gspmd.sharding = "<@mesh, [{}, {}]>"}) -> tensor<4x4xf32> {
    %0 = stablehlo.partition_id : tensor<ui32>
    %c = stablehlo.constant dense<0> : tensor<ui32>
    %c_0 = stablehlo.constant dense<4> : tensor<ui32>
    %1 = stablehlo.multiply %0, %c_0 : tensor<ui32>
    %2 = stablehlo.dynamic_slice %a, %1, %c, sizes = [4, 4] : (tensor<8x4xf32>, tensor<ui32>, tensor<ui32>) -> tensor<4x4xf32>
    %3 = stablehlo.dot_general %2, %2, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %4 = "stablehlo.collective_permute"(%3) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[1, 0], [0, 1]]> : tensor<2x2xi64>}> {gspmd.axes = "\22x\22", gspmd.cause = "a reversal"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %4 : tensor<4x4xf32>
  }
}

// -----

// Devices differ in y, and the permute is along x.
// CHECK-LABEL: module @what_is_split_over_another_axis_is_there
// CHECK: dense<[2, 3, 0, 1]>
// CHECK-NOT: collective_permute
// CHECK: return
module @what_is_split_over_another_axis_is_there attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8x4xf32> {gspmd.global_type = tensor<8x8xf32>, gspmd.sharding = "<@mesh, [{}, {\22y\22}]>"}) -> tensor<1x4xf32> {
    %0 = stablehlo.partition_id : tensor<ui32>
    %c = stablehlo.constant dense<0> : tensor<ui32>
    %1 = stablehlo.dynamic_slice %a, %0, %c, sizes = [1, 4] : (tensor<8x4xf32>, tensor<ui32>, tensor<ui32>) -> tensor<1x4xf32>
    %2 = "stablehlo.collective_permute"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 2], [2, 0], [1, 3], [3, 1]]> : tensor<4x2xi64>}> {gspmd.axes = "\22x\22", gspmd.cause = "a reversal"} : (tensor<1x4xf32>) -> tensor<1x4xf32>
    return %2 : tensor<1x4xf32>
  }
}

// -----

// CHECK-LABEL: module @what_the_receiver_lacks_is_sent
// CHECK: collective_permute
module @what_the_receiver_lacks_is_sent attributes {gspmd.mesh = "<[\22x\22=2]>", mhlo.num_partitions = 2 : i32} {
  func.func public @main(%a: tensor<4x4xf32> {gspmd.global_type = tensor<8x4xf32>, gspmd.sharding = "<@mesh, [{\22x\22}, {}]>"}) -> tensor<4x4xf32> {
    %0 = stablehlo.negate %a : tensor<4x4xf32>
    %1 = "stablehlo.collective_permute"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[1, 0], [0, 1]]> : tensor<2x2xi64>}> {gspmd.axes = "\22x\22", gspmd.cause = "a reversal"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %1 : tensor<4x4xf32>
  }
}

// -----

// The product is a result, too.
// CHECK-LABEL: module @no_product_is_computed_twice
// CHECK: collective_permute
module @no_product_is_computed_twice attributes {gspmd.mesh = "<[\22x\22=2]>", mhlo.num_partitions = 2 : i32} {
  func.func public @main(%a: tensor<8x4xf32> {gspmd.global_type = tensor<8x4xf32>, gspmd.sharding = "<@mesh, [{}, {}]>"}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
    %0 = stablehlo.partition_id : tensor<ui32>
    %c = stablehlo.constant dense<0> : tensor<ui32>
    %1 = stablehlo.dynamic_slice %a, %0, %c, sizes = [4, 4] : (tensor<8x4xf32>, tensor<ui32>, tensor<ui32>) -> tensor<4x4xf32>
    %2 = stablehlo.dot_general %1, %1, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = "stablehlo.collective_permute"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[1, 0], [0, 1]]> : tensor<2x2xi64>}> {gspmd.axes = "\22x\22", gspmd.cause = "a reversal"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %2, %3 : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// The rows beyond the end are cut from what both devices have. The last one receives nothing, and has zeros.
// CHECK-LABEL: module @the_halo_of_what_all_have_is_cut
// CHECK: %[[SENDER:.*]] = stablehlo.constant dense<1> : tensor<2xi32>
// CHECK: %[[CUT:.*]] = stablehlo.slice {{.*}} [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
// CHECK: %[[RECEIVES:.*]] = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
// CHECK: %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<1x4xf32>
// CHECK: stablehlo.select %{{.*}}, %[[CUT]], %[[ZERO]] : tensor<i1>, tensor<1x4xf32>
// CHECK-NOT: collective_permute
// CHECK: return
module @the_halo_of_what_all_have_is_cut attributes {gspmd.mesh = "<[\22x\22=2]>", mhlo.num_partitions = 2 : i32} {
  func.func public @main(%a: tensor<8x4xf32> {gspmd.global_type = tensor<8x4xf32>, gspmd.sharding = "<@mesh, [{}, {}]>"}) -> tensor<5x4xf32> {
    %0 = stablehlo.partition_id : tensor<ui32>
    %c = stablehlo.constant dense<0> : tensor<ui32>
    %c_0 = stablehlo.constant dense<4> : tensor<ui32>
    %1 = stablehlo.multiply %0, %c_0 : tensor<ui32>
    %2 = stablehlo.dynamic_slice %a, %1, %c, sizes = [4, 4] : (tensor<8x4xf32>, tensor<ui32>, tensor<ui32>) -> tensor<4x4xf32>
    %3 = stablehlo.slice %2 [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
    %4 = "stablehlo.collective_permute"(%3) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[1, 0]]> : tensor<1x2xi64>}> {gspmd.axes = "\22x\22", gspmd.cause = "a halo"} : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %5 = stablehlo.concatenate %2, %4, dim = 0 : (tensor<4x4xf32>, tensor<1x4xf32>) -> tensor<5x4xf32>
    return %5 : tensor<5x4xf32>
  }
}

// -----

// The reversal between the two is the same for all: each device gets at once what it is to have in the end.
// CHECK-LABEL: module @two_permutes_around_a_reversal_are_one
// CHECK: %[[MOVED:.*]] = "stablehlo.collective_permute"(%arg0) {{.*}}dense<{{\[\[}}3, 0], [1, 1], [2, 2], [0, 3]]>
// CHECK-NEXT: %[[REVERSED:.*]] = stablehlo.reverse %[[MOVED]], dims = [0]
// CHECK-NEXT: return %[[REVERSED]]
module @two_permutes_around_a_reversal_are_one attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<2x4xf32> {gspmd.global_type = tensor<8x4xf32>, gspmd.sharding = "<@mesh, [{\22x\22, \22y\22}, {}]>"}) -> tensor<2x4xf32> {
    %0 = "stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[3, 0], [2, 1], [1, 2], [0, 3]]> : tensor<4x2xi64>}> {gspmd.axes = "\22x\22, \22y\22", gspmd.cause = "a reversal"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %1 = stablehlo.reverse %0, dims = [0] : tensor<2x4xf32>
    %2 = "stablehlo.collective_permute"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 0], [1, 2], [2, 1], [3, 3]]> : tensor<4x2xi64>}> {gspmd.axes = "\22y\22, \22x\22", gspmd.cause = "a move"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    return %2 : tensor<2x4xf32>
  }
}

// -----

// Who gets nothing from the first has zeros, which the second hands on.
// CHECK-LABEL: module @a_shift_and_a_permute_of_all_are_one
// CHECK: "stablehlo.collective_permute"(%arg0) {{.*}}dense<{{\[\[}}2, 0], [1, 1], [0, 2]]>
// CHECK-NEXT: stablehlo.negate
// CHECK-NEXT: return
module @a_shift_and_a_permute_of_all_are_one attributes {gspmd.mesh = "<[\22x\22=4]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<2x4xf32> {gspmd.global_type = tensor<8x4xf32>, gspmd.sharding = "<@mesh, [{\22x\22}, {}]>"}) -> tensor<2x4xf32> {
    %0 = "stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 2], [2, 3]]> : tensor<3x2xi64>}> {gspmd.axes = "\22x\22", gspmd.cause = "a shift"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %1 = stablehlo.negate %0 : tensor<2x4xf32>
    %2 = "stablehlo.collective_permute"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 3], [1, 2], [2, 1], [3, 0]]> : tensor<4x2xi64>}> {gspmd.axes = "\22x\22", gspmd.cause = "a reversal"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    return %2 : tensor<2x4xf32>
  }
}

// -----

// CHECK-LABEL: module @what_is_used_between_is_permuted_twice
// CHECK-COUNT-2: collective_permute
module @what_is_used_between_is_permuted_twice attributes {gspmd.mesh = "<[\22x\22=2]>", mhlo.num_partitions = 2 : i32} {
  func.func public @main(%a: tensor<2x4xf32> {gspmd.global_type = tensor<4x4xf32>, gspmd.sharding = "<@mesh, [{\22x\22}, {}]>"}) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
    %0 = "stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[1, 0]]> : tensor<1x2xi64>}> {gspmd.axes = "\22x\22", gspmd.cause = "a shift"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %1 = stablehlo.negate %0 : tensor<2x4xf32>
    %2 = "stablehlo.collective_permute"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> {gspmd.axes = "\22x\22", gspmd.cause = "a reversal"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    return %1, %2 : tensor<2x4xf32>, tensor<2x4xf32>
  }
}
