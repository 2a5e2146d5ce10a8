// RUN: gspmd-opt --split-input-file --gspmd-legalize-for-xla=platform=cpu %s | FileCheck %s --check-prefixes=ANY,CPU
// RUN: gspmd-opt --split-input-file --gspmd-legalize-for-xla=platform=tpu %s | FileCheck %s --check-prefixes=ANY,TPU
// RUN: gspmd-opt --split-input-file --gspmd-legalize-for-xla %s | FileCheck %s --check-prefixes=ANY,CPU

// Where rows are sent from fewer than are written to, those of all devices are gathered. Offsets are exchanged, in one
// collective; axes and cause stay known.

// ANY-LABEL: module @gathered
// TPU: %[[R:.*]] = stablehlo.custom_call @ragged_all_to_all(%arg0, %arg1, %arg2, %arg2, %arg2, %arg2)
// TPU-SAME: replica_groups = dense<{{\[}}[0, 2], [1, 3]]>
// TPU-NEXT: return %[[R]]
// CPU-NOT: ragged_all_to_all
// CPU: "stablehlo.all_to_all"({{.*}}) <{{.*}}replica_groups = dense<{{\[}}[0, 2], [1, 3]]> : tensor<2x2xi64>
// CPU-SAME: gspmd.axes = "\22x\22", gspmd.cause = "written by the user"
// CPU-SAME: (tensor<2x4xi32>) -> tensor<2x4xi32>
// CPU: "stablehlo.all_gather"(%arg0) {{.*}} (tensor<3x5xbf16>) -> tensor<6x5xbf16>
// CPU: "stablehlo.gather"({{.*}} -> tensor<8x5xbf16>
// CPU: stablehlo.select {{.*}}, %arg1 : tensor<8x5xi1>, tensor<8x5xbf16>
module @gathered {
  func.func public @main(%a: tensor<3x5xbf16>, %b: tensor<8x5xbf16>, %c: tensor<4xi32>) -> tensor<8x5xbf16> {
    %0 = stablehlo.custom_call @ragged_all_to_all(%a, %b, %c, %c, %c, %c) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}, gspmd.axes = "\22x\22", gspmd.cause = "written by the user"} : (tensor<3x5xbf16>, tensor<8x5xbf16>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8x5xbf16>
    return %0 : tensor<8x5xbf16>
  }
}

// -----

// Where there are more of them, each device lays out what becomes of every output. Offsets of more bits stay such.

// ANY-LABEL: module @laid_out
// CPU: "stablehlo.all_to_all"({{.*}} (tensor<2x2xi64>) -> tensor<2x2xi64>
// CPU: "stablehlo.gather"(%arg0, {{.*}} -> tensor<6xf32>
// CPU: "stablehlo.all_to_all"({{.*}} (tensor<6xf32>) -> tensor<6xf32>
// CPU-NOT: all_gather
// CPU: return
module @laid_out {
  func.func public @main(%a: tensor<8xf32>, %b: tensor<3xf32>, %c: tensor<2xi64>, %d: tensor<2xui8>) -> tensor<3xf32> {
    %0 = stablehlo.custom_call @ragged_all_to_all(%a, %b, %c, %d, %c, %d) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}} : (tensor<8xf32>, tensor<3xf32>, tensor<2xi64>, tensor<2xui8>, tensor<2xi64>, tensor<2xui8>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}

// -----

// A broadcast takes what the first device of a group has.

// ANY-LABEL: module @broadcast
// TPU: "stablehlo.collective_broadcast"
// CPU: %[[G:.*]] = "stablehlo.all_gather"({{.*}} (tensor<1x4xf32>) -> tensor<2x4xf32>
// CPU: %[[S:.*]] = stablehlo.slice %[[G]] [0:1, 0:4]
// CPU: stablehlo.reshape %[[S]] : (tensor<1x4xf32>) -> tensor<4xf32>
module @broadcast {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.collective_broadcast"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[2, 0], [1, 3]]> : tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// Integers of two bits travel as bytes.

// ANY-LABEL: module @tiny_integers
// ANY: %[[A:.*]] = stablehlo.convert %arg0 : (tensor<4xi2>) -> tensor<4xi8>
// ANY: %[[R:.*]] = "stablehlo.all_reduce"(%[[A]])
// ANY: stablehlo.add {{.*}} : tensor<i8>
// ANY: (tensor<4xi8>) -> tensor<4xi8>
// ANY: stablehlo.convert %[[R]] : (tensor<4xi8>) -> tensor<4xi2>
// ANY: "stablehlo.all_gather"({{.*}} (tensor<4xui8>) -> tensor<8xui8>
module @tiny_integers {
  func.func public @main(%a: tensor<4xi2>, %b: tensor<4xui2>) -> (tensor<4xi2>, tensor<8xui2>) {
    %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%l: tensor<i2>, %r: tensor<i2>):
      %s = stablehlo.add %l, %r : tensor<i2>
      stablehlo.return %s : tensor<i2>
    }) : (tensor<4xi2>) -> tensor<4xi2>
    %1 = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xui2>) -> tensor<8xui2>
    return %0, %1 : tensor<4xi2>, tensor<8xui2>
  }
}
