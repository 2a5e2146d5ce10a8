// RUN: gspmd-opt %s --gspmd-ingest | FileCheck %s

// Groups that name axes of a mesh are written out, as the mesh may be replaced.

// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.all_reduce
// CHECK-SAME: replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>

sdy.mesh @mesh_0 = <["x"=2, "y"=2]>

func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh_0, [{"x"}]>] out_shardings=[<@mesh_0, [{}]>]
      manual_axes={"x", "y"} (%a: tensor<2xf32>) {
    %1 = "stablehlo.all_reduce"(%a) <{
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids,
      replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh_0, axes = [#stablehlo.axis_ref<name = "x">]>
    }> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    %2 = stablehlo.concatenate %1, %1, dim = 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
    sdy.return %2 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
