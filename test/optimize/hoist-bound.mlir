// RUN: gspmd-opt --verify-diagnostics --pass-pipeline='builtin.module(gspmd-hoist-collectives{hoist-max-bytes=16})' %s | FileCheck %s

// CHECK-LABEL: module @what_takes_more_memory_than_allowed_stays
// CHECK: stablehlo.while
// CHECK: all_gather
module @what_takes_more_memory_than_allowed_stays attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
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
      // expected-remark @+1 {{'stablehlo.all_gather' op is not moved out of the loop because its result of 32 bytes would be held during the loop, and 16 are allowed}}
      %g = "stablehlo.all_gather"(%d) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<4xf32>) -> tensor<8xf32>
      %y = stablehlo.add %x, %g : tensor<8xf32>
      stablehlo.return %j, %y, %k : tensor<i32>, tensor<8xf32>, tensor<4xf32>
    }
    return %w#1 : tensor<8xf32>
  }
}
