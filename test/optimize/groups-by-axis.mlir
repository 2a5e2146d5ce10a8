// RUN: gspmd-opt --gspmd-fuse-collectives %s | FileCheck %s

// CHECK-LABEL: module @groups_by_axis_stay_so
// CHECK: "stablehlo.reduce_scatter"(%arg0) {{.*}}replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @grid, axes = [#stablehlo.axis_ref<name = "y">]>
// CHECK: "stablehlo.all_reduce"{{.*}}mesh = @grid, axes = [#stablehlo.axis_ref<name = "x">]>
module @groups_by_axis_stay_so attributes {gspmd.mesh = "<[\22x\22=8, \22y\22=16]>", mhlo.num_partitions = 128 : i32} {
  sdy.mesh @grid = <["x"=8, "y"=16]>
  func.func public @main(%a: tensor<64xf32>) -> tensor<4xf32> {
    %id = stablehlo.partition_id : tensor<ui32>
    %p = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
    %two = stablehlo.constant dense<16> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %y = stablehlo.remainder %p, %two : tensor<i32>
    %start = stablehlo.multiply %y, %four : tensor<i32>
    %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @grid, axes = [#stablehlo.axis_ref<name = "x">, #stablehlo.axis_ref<name = "y">]>, use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {gspmd.axes = "\22x\22, \22y\22", gspmd.cause = "a sum"} : (tensor<64xf32>) -> tensor<64xf32>
    %1 = stablehlo.dynamic_slice %0, %start, sizes = [4] : (tensor<64xf32>, tensor<i32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
