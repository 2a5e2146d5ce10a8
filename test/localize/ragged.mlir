// RUN: gspmd-opt --split-input-file --gspmd-partition %s | FileCheck %s

// A ragged all-to-all is a collective of the user: its axes are known, its groups stay, and dimensions behind the first
// are split along axes that the manual computation leaves free.

// CHECK-LABEL: module @rows_are_split_along_free_axes
// CHECK: stablehlo.custom_call @ragged_all_to_all
// CHECK-SAME: backend_config = {channel_id = 1 : i64, replica_groups = dense<{{\[}}[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>}
// CHECK-SAME: gspmd.axes = "\22x\22", gspmd.cause = "written by the user"
// CHECK-SAME: (tensor<8x3xf32>, tensor<8x3xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8x3xf32>
// CHECK-NEXT: return
module @rows_are_split_along_free_axes {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<32x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %b: tensor<32x6xf32>, %c: tensor<16xi32>) -> tensor<32x6xf32> {
    %0 = sdy.manual_computation(%a, %b, %c) in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%d: tensor<8x6xf32>, %e: tensor<8x6xf32>, %f: tensor<4xi32>) {
      %1 = stablehlo.custom_call @ragged_all_to_all(%d, %e, %f, %f, %f, %f) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>}} : (tensor<8x6xf32>, tensor<8x6xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8x6xf32>
      sdy.return %1 : tensor<8x6xf32>
    } : (tensor<32x6xf32>, tensor<32x6xf32>, tensor<16xi32>) -> tensor<32x6xf32>
    return %0 : tensor<32x6xf32>
  }
}

// -----

// Rows themselves are not split along a free axis, and neither are offsets: they are gathered in front.

// CHECK-LABEL: module @rows_stay_together
// CHECK: "stablehlo.all_gather"
// CHECK: stablehlo.custom_call @ragged_all_to_all
// CHECK-SAME: (tensor<8xf32>, tensor<8xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8xf32>
module @rows_stay_together {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(%a: tensor<32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}]>}, %b: tensor<32xf32>, %c: tensor<16xi32>) -> tensor<32xf32> {
    %0 = sdy.manual_computation(%a, %b, %c) in_shardings=[<@mesh, [{"x", ?}]>, <@mesh, [{"x", ?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}]>] manual_axes={"x"} (%d: tensor<8xf32>, %e: tensor<8xf32>, %f: tensor<4xi32>) {
      %1 = stablehlo.custom_call @ragged_all_to_all(%d, %e, %f, %f, %f, %f) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>}} : (tensor<8xf32>, tensor<8xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8xf32>
      sdy.return %1 : tensor<8xf32>
    } : (tensor<32xf32>, tensor<32xf32>, tensor<16xi32>) -> tensor<32xf32>
    return %0 : tensor<32xf32>
  }
}

// -----

// Along an axis of size 1 nothing is sent, but slices are copied.

// CHECK-LABEL: module @of_single_devices
// CHECK-NOT: ragged_all_to_all
// CHECK: "stablehlo.gather"(%arg0
// CHECK: stablehlo.select {{.*}}, %arg1
// CHECK-NOT: all_to_all
// CHECK: return
module @of_single_devices {
  sdy.mesh @mesh = <["x"=1, "y"=2]>
  func.func public @main(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<2xi32>) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%a, %b, %c) in_shardings=[<@mesh, [{"x", ?}]>, <@mesh, [{"x", ?}]>, <@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}]>] manual_axes={"x"} (%d: tensor<8xf32>, %e: tensor<8xf32>, %f: tensor<2xi32>) {
      %1 = stablehlo.custom_call @ragged_all_to_all(%d, %e, %f, %f, %f, %f) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0], [1]]> : tensor<2x1xi64>}} : (tensor<8xf32>, tensor<8xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<8xf32>
      sdy.return %1 : tensor<8xf32>
    } : (tensor<8xf32>, tensor<8xf32>, tensor<2xi32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
