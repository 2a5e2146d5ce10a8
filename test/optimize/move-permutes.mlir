// RUN: gspmd-opt --split-input-file --verify-diagnostics --gspmd-move-permutes %s | FileCheck %s

// CHECK-LABEL: module @what_is_permuted_last_is_permuted_first
// CHECK: [[B:%[0-9]+]] = "stablehlo.collective_permute"(%arg0){{.*}}dense<{{\[\[}}0, 3], [1, 0], [2, 1], [3, 2]]>
// CHECK: stablehlo.while({{.*}} = [[B]],
// CHECK: } do {
// CHECK: [[M:%[0-9]+]] = "stablehlo.collective_permute"
// CHECK: stablehlo.sine [[M]]
// CHECK-NOT: "stablehlo.collective_permute"
module @what_is_permuted_last_is_permuted_first attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:3 = stablehlo.while(%i = %z, %x = %a, %t = %a) : tensor<i32>, tensor<8xf32>, tensor<8xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %s = stablehlo.sine %x : tensor<8xf32>
      %y = stablehlo.add %t, %x : tensor<8xf32>
      %m = "stablehlo.collective_permute"(%s) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : tensor<4x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
      stablehlo.return %j, %m, %y : tensor<i32>, tensor<8xf32>, tensor<8xf32>
    }
    return %w#2 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @what_is_used_after_the_loop_stays
// CHECK: sine
// CHECK: "stablehlo.collective_permute"
module @what_is_used_after_the_loop_stays attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:3 = stablehlo.while(%i = %z, %x = %a, %t = %a) : tensor<i32>, tensor<8xf32>, tensor<8xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %s = stablehlo.sine %x : tensor<8xf32>
      %y = stablehlo.add %t, %x : tensor<8xf32>
      // expected-remark @+1 {{'stablehlo.collective_permute' op is not moved to the start of the loop because the permuted value is used after the loop}}
      %m = "stablehlo.collective_permute"(%s) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : tensor<4x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
      stablehlo.return %j, %m, %y : tensor<i32>, tensor<8xf32>, tensor<8xf32>
    }
    return %w#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @what_not_all_receive_stays
// CHECK: sine
// CHECK: "stablehlo.collective_permute"
module @what_not_all_receive_stays attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:3 = stablehlo.while(%i = %z, %x = %a, %t = %a) : tensor<i32>, tensor<8xf32>, tensor<8xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %s = stablehlo.sine %x : tensor<8xf32>
      %y = stablehlo.add %t, %x : tensor<8xf32>
      // expected-remark @+1 {{'stablehlo.collective_permute' op is not moved to the start of the loop because some devices receive nothing, so that it has no inverse before the loop}}
      %m = "stablehlo.collective_permute"(%s) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 2], [2, 3]]> : tensor<3x2xi64>}> {gspmd.axes = "\22y\22", gspmd.cause = "a move"} : (tensor<8xf32>) -> tensor<8xf32>
      stablehlo.return %j, %m, %y : tensor<i32>, tensor<8xf32>, tensor<8xf32>
    }
    return %w#2 : tensor<8xf32>
  }
}
