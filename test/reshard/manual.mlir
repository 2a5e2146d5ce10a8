// RUN: gspmd-opt --split-input-file --gspmd-reshard %s | FileCheck %s

// Operands are brought to where the computation takes them, values inside to where it returns them.

// CHECK-LABEL: module @operands_move_outside_and_returned_values_inside
// CHECK: %[[A:.*]] = sdy.all_gather [{"y"}, {}] %arg0
// CHECK: %[[B:.*]] = sdy.all_slice [{"x"}, {}] %[[A]] out_sharding=<@mesh, [{"x"}, {}]> {gspmd.cause = "'sdy.manual_computation' takes operand 0 as [{\22x\22}, {}]"}
// CHECK: sdy.manual_computation(%[[B]])
// CHECK: %[[C:.*]] = stablehlo.sine %arg1 : tensor<4x8xf32>
// CHECK: %[[D:.*]] = sdy.all_slice [{}, {"y"}] %[[C]] out_sharding=<@mesh, [{}, {"y"}]> {gspmd.cause = "'sdy.manual_computation' returns value 0 as [{}, {\22y\22}]"} : tensor<4x8xf32>
// CHECK: sdy.return %[[D]] : tensor<4x8xf32>
// CHECK: return %{{.*}} : tensor<8x8xf32>
module @operands_move_outside_and_returned_values_inside {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>})
      -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>] manual_axes={"x"} (%b: tensor<4x8xf32>) {
      %1 = stablehlo.sine %b : tensor<4x8xf32>
      sdy.return %1 : tensor<4x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: module @inside_only_free_axes_move
// CHECK: stablehlo.dot_general {{.*}}[{}, {}], unreduced={"y"}>
// CHECK-NEXT: sdy.all_reduce {"y"} {{.*}} out_sharding=<@mesh, [{}, {}]>
// CHECK-NEXT: sdy.return
module @inside_only_free_axes_move {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>},
                         %w: tensor<64x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>})
      -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = sdy.manual_computation(%a, %w) in_shardings=[<@mesh, [{"x"}, {"y"}]>, <@mesh, [{"y"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%b: tensor<4x64xf32>, %v: tensor<64x8xf32>) {
      %1 = stablehlo.dot_general %b, %v, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
      sdy.return %1 : tensor<4x8xf32>
    } : (tensor<8x64xf32>, tensor<64x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// The groups name all devices: what moves for the collective is only the dimension it puts together.

// CHECK-LABEL: module @the_dimension_of_a_collective_is_made_whole
// CHECK: %[[A:.*]] = sdy.all_gather [{"y"}, {}] %arg1 out_sharding=<@mesh, [{}, {}]> {gspmd.cause = "operand 0 of 'stablehlo.all_gather' is needed as [{}, {}]"} : tensor<4x8xf32>
// CHECK: "stablehlo.all_gather"(%[[A]])
module @the_dimension_of_a_collective_is_made_whole {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>}) -> tensor<8x8xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", "y"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"x"} (%b: tensor<4x8xf32>) {
      %1 = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x8xf32>) -> tensor<8x8xf32>
      sdy.return %1 : tensor<8x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
