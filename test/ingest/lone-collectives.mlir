// RUN: gspmd-opt %s --gspmd-ingest --split-input-file | FileCheck %s

// Among replicas, of which there is one, nothing is sent: operands take the results' place, and what is said stays.

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[A:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{}]>
// CHECK-NEXT: %[[ZERO:.*]] = stablehlo.constant dense<0> : tensor<ui32>
// CHECK-NEXT: %[[NONE:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<16xf32>
// CHECK-NEXT: return %[[A]], %[[ZERO]], %[[NONE]]
sdy.mesh @mesh = <["x"=8]>
func.func @main(%a: tensor<16xf32>) -> (tensor<16xf32>, tensor<ui32>, tensor<16xf32>) {
  %0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<0> : tensor<1x1xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>]>} : (tensor<16xf32>) -> tensor<16xf32>
  %1 = stablehlo.replica_id : tensor<ui32>
  %2 = "stablehlo.collective_permute"(%0) <{source_target_pairs = dense<> : tensor<0x2xi64>}> : (tensor<16xf32>) -> tensor<16xf32>
  %3 = "stablehlo.collective_permute"(%0) <{source_target_pairs = dense<0> : tensor<1x2xi64>}> : (tensor<16xf32>) -> tensor<16xf32>
  return %3, %1, %2 : tensor<16xf32>, tensor<ui32>, tensor<16xf32>
}

// -----

// So are partitions that are alone in their groups, each of them listed or the only one that the module is for.

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: return %arg0, %arg0
sdy.mesh @mesh = <["x"=8]>
func.func @main(%a: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0],[1],[2],[3],[4],[5],[6],[7]]> : tensor<8x1xi64>, use_global_device_ids}> : (tensor<16xf32>) -> tensor<16xf32>
  %1 = "stablehlo.all_to_all"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>, split_count = 1 : i64, split_dimension = 0 : i64}> : (tensor<16xf32>) -> tensor<16xf32>
  return %0, %1 : tensor<16xf32>, tensor<16xf32>
}

// -----

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[ZERO:.*]] = stablehlo.constant dense<0> : tensor<ui32>
// CHECK-NEXT: return %arg0, %[[ZERO]]
module attributes {mhlo.num_partitions = 1 : i32} {
  sdy.mesh @mesh = <["x"=8]>
  func.func @main(%a: tensor<16xf32>) -> (tensor<16xf32>, tensor<ui32>) {
    %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<0> : tensor<1x1xi64>, use_global_device_ids}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<16xf32>) -> tensor<16xf32>
    %1 = stablehlo.partition_id : tensor<ui32>
    return %0, %1 : tensor<16xf32>, tensor<ui32>
  }
}

// -----

// Others stay, to be refused; and in a manual computation partitions are those of the mesh.

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: "stablehlo.all_reduce"(%arg0) <{replica_groups = dense<{{\[\[}}0, 1]]>
// CHECK: sdy.manual_computation
// CHECK-NEXT: stablehlo.partition_id
module attributes {mhlo.num_partitions = 1 : i32} {
  sdy.mesh @mesh = <["x"=8]>
  func.func @main(%a: tensor<16xf32>) -> (tensor<16xf32>, tensor<8xui32>) {
    %0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<16xf32>) -> tensor<16xf32>
    %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%b: tensor<2xf32>) {
      %2 = stablehlo.partition_id : tensor<ui32>
      %3 = stablehlo.reshape %2 : (tensor<ui32>) -> tensor<1xui32>
      sdy.return %3 : tensor<1xui32>
    } : (tensor<16xf32>) -> tensor<8xui32>
    return %0, %1 : tensor<16xf32>, tensor<8xui32>
  }
}
