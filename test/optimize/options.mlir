// RUN: gspmd-opt --split-input-file --gspmd-optimize %s | FileCheck %s
// RUN: gspmd-opt --split-input-file --gspmd-optimize=combine-bytes=64 %s | FileCheck %s --check-prefix=COMBINED
// RUN: gspmd-opt --split-input-file --verify-diagnostics \
// RUN:   --pass-pipeline='builtin.module(gspmd-optimize{hoist-max-bytes=16 tell-declined})' %s | FileCheck %s --check-prefix=STAYS

// Combining copies the values once more, so that it is done where it is asked for.

// CHECK-LABEL: module @small_sums
// CHECK-COUNT-2: "stablehlo.all_reduce"
// COMBINED-LABEL: module @small_sums
// COMBINED: %[[BOTH:[0-9]+]] = stablehlo.concatenate
// COMBINED: "stablehlo.all_reduce"(%[[BOTH]])
// COMBINED: gspmd.cause = "one; another"
// COMBINED-NOT: "stablehlo.all_reduce"
module @small_sums attributes {gspmd.mesh = "<[\22x\22=2]>", mhlo.num_partitions = 2 : i32} {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22x\22", gspmd.cause = "one"} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22x\22", gspmd.cause = "another"} : (tensor<4xf32>) -> tensor<4xf32>
    return %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// A gather of what a loop does not change is done once, before the loop. Where its result is more than a device may hold
// meanwhile it stays in the loop, and if asked the pass says why.

// CHECK-LABEL: module @a_gather_in_a_loop
// CHECK: "stablehlo.all_gather"
// CHECK: stablehlo.while
// CHECK-NOT: "stablehlo.all_gather"
// STAYS-LABEL: module @a_gather_in_a_loop
// STAYS-NOT: "stablehlo.all_gather"
// STAYS: stablehlo.while
// STAYS: "stablehlo.all_gather"
module @a_gather_in_a_loop attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<8xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:3 = stablehlo.while(%i = %z, %x = %a, %k = %b) : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %d = stablehlo.negate %k : tensor<4xf32>
      // expected-remark @+1 {{is not moved out of the loop because its result of 32 bytes would be held during the loop}}
      %g = "stablehlo.all_gather"(%d) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<4xf32>) -> tensor<8xf32>
      %y = stablehlo.add %x, %g : tensor<8xf32>
      stablehlo.return %j, %y, %k : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    }
    return %w#1 : tensor<8xf32>
  }
}
