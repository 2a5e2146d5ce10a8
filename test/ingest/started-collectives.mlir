// RUN: gspmd-opt --gspmd-ingest %s | FileCheck %s

// What JAX starts and waits for in a manual computation becomes what it is, before anything looks at it.

sdy.mesh @mesh = <["x"=2, "y"=2]>

// CHECK-LABEL: func.func public @main
// CHECK: sdy.manual_computation
// CHECK-SAME: (%[[B:[a-z0-9]+]]: tensor<4x4xf32>)
// CHECK-NEXT: %[[GATHERED:[a-z0-9]+]] = "stablehlo.all_gather"(%[[B]]) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<{{\[}}[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}>
// CHECK-NEXT: %[[REDUCED:[a-z0-9]+]] = "stablehlo.all_reduce"(%[[B]])
// CHECK-NEXT: ^bb0(%[[L:[a-z0-9]+]]: tensor<f32>, %[[R:[a-z0-9]+]]: tensor<f32>):
// CHECK-NEXT: %[[SUM:[a-z0-9]+]] = stablehlo.add %[[L]], %[[R]]
// CHECK-NEXT: stablehlo.return %[[SUM]]
// CHECK: %[[SCATTERED:[a-z0-9]+]] = "stablehlo.reduce_scatter"(%[[B]]) <{{.*}}scatter_dimension = 0
// CHECK: %[[EXCHANGED:[a-z0-9]+]] = "stablehlo.all_to_all"(%[[B]]) <{{.*}}concat_dimension = 0{{.*}}split_count = 2 : i64, split_dimension = 1
// CHECK-NEXT: %[[SENT:[a-z0-9]+]] = "stablehlo.collective_permute"(%[[B]]) <{{.*}}source_target_pairs = dense<{{\[}}[0, 2], [1, 3]]>
// CHECK-NEXT: sdy.return %[[GATHERED]], %[[REDUCED]], %[[SCATTERED]], %[[EXCHANGED]], %[[SENT]]
// CHECK-NOT: func.func private
func.func public @main(%a: tensor<8x4xf32>) -> (tensor<8x8xf32>, tensor<8x4xf32>, tensor<4x4xf32>, tensor<16x2xf32>, tensor<8x4xf32>) {
  %0:5 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}, {?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}, {?}]>, <@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%b: tensor<4x4xf32>) {
    %s0 = stablehlo.custom_call @"all-gather-start"(%b) {mhlo.frontend_attributes = {async_collective_config = "{\22all_gather_dimension\22: 1, \22replica_groups\22: [[0, 2], [1, 3]], \22channel_id\22: 1, \22use_global_device_ids\22: true}"}} : (tensor<4x4xf32>) -> tensor<4x8xf32>
    %s1 = stablehlo.custom_call @"all-reduce-start"(%b) {called_computations = [@add], mhlo.frontend_attributes = {async_collective_config = "{\22replica_groups\22: [[0, 2], [1, 3]], \22channel_id\22: 1, \22use_global_device_ids\22: true}"}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %s2 = stablehlo.custom_call @"reduce-scatter-start"(%b) {called_computations = [@add], mhlo.frontend_attributes = {async_collective_config = "{\22scatter_dimension\22: 0, \22tiled\22: true, \22replica_groups\22: [[0, 2], [1, 3]], \22channel_id\22: 1, \22use_global_device_ids\22: true}"}} : (tensor<4x4xf32>) -> tensor<2x4xf32>
    %s3 = stablehlo.custom_call @"all-to-all-start"(%b) {mhlo.frontend_attributes = {async_collective_config = "{\22split_dimension\22: 1, \22concat_dimension\22: 0, \22split_count\22: 2, \22replica_groups\22: [[0, 2], [1, 3]], \22channel_id\22: 1}"}} : (tensor<4x4xf32>) -> tensor<8x2xf32>
    %s4 = stablehlo.custom_call @"collective-permute-start"(%b) {mhlo.frontend_attributes = {async_collective_config = "{\22permutation\22: [[0, 2], [1, 3]], \22channel_id\22: 1}"}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %d0 = stablehlo.custom_call @"all-gather-done"(%s0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %d1 = stablehlo.custom_call @"all-reduce-done"(%s1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %d2 = stablehlo.custom_call @"reduce-scatter-done"(%s2) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %d3 = stablehlo.custom_call @"all-to-all-done"(%s3) : (tensor<8x2xf32>) -> tensor<8x2xf32>
    %d4 = stablehlo.custom_call @"collective-permute-done"(%s4) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %d0, %d1, %d2, %d3, %d4 : tensor<4x8xf32>, tensor<4x4xf32>, tensor<2x4xf32>, tensor<8x2xf32>, tensor<4x4xf32>
  } : (tensor<8x4xf32>) -> (tensor<8x8xf32>, tensor<8x4xf32>, tensor<4x4xf32>, tensor<16x2xf32>, tensor<8x4xf32>)
  return %0#0, %0#1, %0#2, %0#3, %0#4 : tensor<8x8xf32>, tensor<8x4xf32>, tensor<4x4xf32>, tensor<16x2xf32>, tensor<8x4xf32>
}
func.func private @add(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %a, %b : tensor<f32>
  return %0 : tensor<f32>
}
