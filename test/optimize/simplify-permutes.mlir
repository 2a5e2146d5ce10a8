// RUN: gspmd-opt --split-input-file --verify-diagnostics --gspmd-simplify-permutes %s | FileCheck %s

// CHECK-LABEL: module @what_goes_there_and_back_stays
// CHECK-NOT: "stablehlo.collective_permute"
// CHECK: return %arg0
module @what_goes_there_and_back_stays attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = "stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0], [2, 3], [3, 2]]> : tensor<4x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
    %1 = "stablehlo.collective_permute"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0], [2, 3], [3, 2]]> : tensor<4x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @one_permute_after_the_other_is_one
// CHECK: collective_permute{{.*}}dense<{{\[\[}}0, 2], [2, 1]]>
// CHECK-NOT: "stablehlo.collective_permute"
module @one_permute_after_the_other_is_one attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = "stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : tensor<4x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
    %1 = "stablehlo.collective_permute"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[1, 2], [3, 1]]> : tensor<2x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @who_receives_nothing_has_zeros
// CHECK-NOT: "stablehlo.collective_permute"
// CHECK: stablehlo.constant dense<0.0
module @who_receives_nothing_has_zeros attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = "stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<> : tensor<0x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @what_is_the_same_everywhere_is_not_moved
// CHECK-NOT: "stablehlo.collective_permute"
// CHECK: return
module @what_is_the_same_everywhere_is_not_moved attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32> {gspmd.sharding = "<@mesh, [{}]>"}) -> tensor<8xf32> {
    %s = stablehlo.sine %a : tensor<8xf32>
    %0 = "stablehlo.collective_permute"(%s) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0], [2, 3], [3, 2]]> : tensor<4x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_call_of_a_known_target_is_the_same_everywhere
// CHECK: [[S:%[0-9]+]] = stablehlo.custom_call
// CHECK-NEXT: return [[S]]
module @a_call_of_a_known_target_is_the_same_everywhere attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32> {gspmd.sharding = "<@mesh, [{}]>"}) -> tensor<8xf32> {
    %s = stablehlo.custom_call @mhlo.erf(%a) : (tensor<8xf32>) -> tensor<8xf32>
    %0 = "stablehlo.collective_permute"(%s) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0], [2, 3], [3, 2]]> : tensor<4x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_call_of_an_unknown_target_may_differ
// CHECK: collective_permute
// CHECK: return
module @a_call_of_an_unknown_target_may_differ attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32> {gspmd.sharding = "<@mesh, [{}]>"}) -> tensor<8xf32> {
    %s = stablehlo.custom_call @may_ask_for_its_device(%a) : (tensor<8xf32>) -> tensor<8xf32>
    %0 = "stablehlo.collective_permute"(%s) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0], [2, 3], [3, 2]]> : tensor<4x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @what_chlo_computes_is_the_same_everywhere
// CHECK: [[S:%[0-9]+]] = chlo.erf
// CHECK-NEXT: return [[S]]
module @what_chlo_computes_is_the_same_everywhere attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32> {gspmd.sharding = "<@mesh, [{}]>"}) -> tensor<8xf32> {
    %s = chlo.erf %a : tensor<8xf32> -> tensor<8xf32>
    %0 = "stablehlo.collective_permute"(%s) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0], [2, 3], [3, 2]]> : tensor<4x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @what_is_received_may_differ
// CHECK: collective_permute
// CHECK: return
module @what_is_received_may_differ attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32> {gspmd.sharding = "<@mesh, [{}]>"}) -> tensor<8xf32> {
    %t = stablehlo.create_token : !stablehlo.token
    %s, %u = "stablehlo.recv"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<8xf32>, !stablehlo.token)
    %0 = "stablehlo.collective_permute"(%s) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0], [2, 3], [3, 2]]> : tensor<4x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @what_differs_is_moved
// CHECK: collective_permute
// CHECK: return
module @what_differs_is_moved attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32> {gspmd.sharding = "<@mesh, [{\22y\22}]>"}) -> tensor<8xf32> {
    %s = stablehlo.sine %a : tensor<8xf32>
    %0 = "stablehlo.collective_permute"(%s) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0], [2, 3], [3, 2]]> : tensor<4x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @disjoint_permutes_that_are_added_are_one
// CHECK: [[P:%[0-9]+]] = "stablehlo.collective_permute"{{.*}}dense<{{\[\[}}0, 1], [1, 0], [2, 3], [3, 2]]>
// CHECK-NOT: "stablehlo.collective_permute"
// CHECK: return [[P]]
module @disjoint_permutes_that_are_added_are_one attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = "stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
    %1 = "stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[1, 0], [3, 2]]> : tensor<2x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
    %2 = stablehlo.add %0, %1 : tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_permute_that_is_used_again_is_not_composed
// CHECK-COUNT-2: collective_permute
module @a_permute_that_is_used_again_is_not_composed attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %0 = "stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0], [2, 3], [3, 2]]> : tensor<4x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-remark @+1 {{'stablehlo.collective_permute' op is not composed with the permute before because that one's result is used elsewhere too}}
    %1 = "stablehlo.collective_permute"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8xf32>
  }
}
