// RUN: gspmd-opt --gspmd-optimize %s | FileCheck %s
// RUN: gspmd-opt --gspmd-optimize=combine-bytes=64 %s | FileCheck %s --check-prefix=COMBINED

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
