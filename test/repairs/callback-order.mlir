// RUN: gspmd-opt --gspmd-legalize-for-xla=platform=cpu %s | FileCheck %s --check-prefixes=ANY,CPU
// RUN: gspmd-opt --gspmd-legalize-for-xla %s | FileCheck %s --check-prefixes=ANY,CPU
// RUN: gspmd-opt --gspmd-legalize-for-xla=platform=tpu %s | FileCheck %s --check-prefixes=ANY,TPU

// XLA's client for CPUs has one thread for each device, which a collective and a callback of Python hold while they
// wait for other devices. There, each depends on the one before it, also on the last one in a function that is called.

module attributes {mhlo.num_partitions = 2 : i32} {
  func.func private @kernel(%token: tensor<i32>, %x: tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>) {
    %0:2 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%token, %x) {api_version = 4 : i32, has_side_effect = true, backend_config = {index = 0 : ui64}} : (tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>)
    %1 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%0#0) {api_version = 4 : i32, has_side_effect = true, backend_config = {index = 1 : ui64}} : (tensor<i32>) -> tensor<i32>
    return %1, %0#1 : tensor<i32>, tensor<4xf32>
  }

  // ANY-LABEL: func.func public @main
  // ANY: %[[SUM:[0-9]+]] = "stablehlo.all_reduce"(%arg0)
  // CPU: %[[FIRST:[0-9]+]] = stablehlo.slice %[[SUM]] [0:1]
  // CPU: stablehlo.compare NE
  // CPU: stablehlo.partition_id
  // CPU: %[[TOKEN:[0-9]+]] = stablehlo.select {{.*}}, %arg1 : tensor<i1>, tensor<i32>
  // CPU: %[[CALL:[0-9]+]]:2 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%[[TOKEN]], %arg0)
  // CPU-NEXT: %[[END:[0-9]+]] = stablehlo.custom_call @xla_ffi_python_cpu_callback(%[[CALL]]#0)
  // CPU: stablehlo.compare NE, %[[END]],
  // CPU: %[[LATER:[0-9]+]] = stablehlo.select {{.*}}, %[[CALL]]#1
  // CPU: "stablehlo.all_gather"(%[[LATER]])
  // TPU-NOT: stablehlo.select
  // TPU: call @kernel(%arg1, %arg0)
  // TPU: "stablehlo.all_gather"
  func.func public @main(%x: tensor<4xf32>, %token: tensor<i32>) -> (tensor<4xf32>, tensor<i32>, tensor<8xf32>) {
    %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %1:2 = call @kernel(%token, %x) : (tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>)
    %2 = "stablehlo.all_gather"(%1#1) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
    return %0, %1#0, %2 : tensor<4xf32>, tensor<i32>, tensor<8xf32>
  }
}
