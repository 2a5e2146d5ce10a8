// RUN: gspmd-opt --split-input-file --gspmd-optimize %s | FileCheck %s

// CHECK-LABEL: module @equal_operations_are_merged
// CHECK: [[A:%[0-9]+]] = stablehlo.sine %arg0
// CHECK-NOT: stablehlo.sine
// CHECK: stablehlo.add [[A]], [[A]]
module @equal_operations_are_merged {
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.sine %a : tensor<8xf32>
    %1 = stablehlo.sine %a : tensor<8xf32>
    %2 = stablehlo.add %0, %1 : tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @what_nobody_uses_is_dropped
// CHECK-NOT: stablehlo
// CHECK: return %arg0
module @what_nobody_uses_is_dropped {
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.sine %a : tensor<8xf32>
    %1 = stablehlo.constant dense<1.0> : tensor<8xf32>
    return %a : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @a_gather_that_nobody_uses_goes
// CHECK-NOT: "stablehlo.all_gather"
// CHECK: return %arg0
module @a_gather_that_nobody_uses_goes attributes {gspmd.mesh = "<[\22x\22=2, \22y\22=2]>", mhlo.num_partitions = 4 : i32} {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> {gspmd.axes = "\22y\22", gspmd.cause = "a gather"} : (tensor<4xf32>) -> tensor<8xf32>
    return %a : tensor<4xf32>
  }
}
