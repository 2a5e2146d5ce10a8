// RUN: gspmd-opt %s --split-input-file --gspmd-partition --verify-diagnostics

sdy.mesh @mesh = <["x"=4]>
sdy.mesh @one = <[], device_ids=[4]>
func.func public @a_device_that_there_is_not(%x: tensor<8xf32>) {
  // expected-error @+1 {{device 4}}
  stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {
    has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : (tensor<8xf32>) -> ()
  return
}

// -----

sdy.mesh @mesh = <["x"=4]>
sdy.mesh @zero = <[], device_ids=[0]>
sdy.mesh @one = <[], device_ids=[1]>
func.func public @two_devices(%x: tensor<8xf32>) -> (tensor<f32>, tensor<f32>) {
  // expected-error @+1 {{is said to run on devices 0 and 1; give all its values the same one}}
  %0:2 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {
    sdy.sharding = #sdy.sharding_per_value<[<@zero, []>, <@one, []>]>} : (tensor<8xf32>) -> (tensor<f32>, tensor<f32>)
  return %0#0, %0#1 : tensor<f32>, tensor<f32>
}

// -----

sdy.mesh @mesh = <["x"=4, "y"=2]>
sdy.mesh @one = <[], device_ids=[1]>
func.func public @one_device_in_a_manual_computation(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>]
      manual_axes={"x"} (%a: tensor<2xf32>) {
    // expected-error @+1 {{is said to be made by device 1, but is part of a manual computation}}
    stablehlo.custom_call @xla_ffi_python_cpu_callback(%a) {
      has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : (tensor<2xf32>) -> ()
    sdy.return %a : tensor<2xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

sdy.mesh @mesh = <["x"=4]>
func.func public @what_is_sent_to_other_devices(%x: tensor<8xf32>, %t: !stablehlo.token) -> !stablehlo.token {
  // expected-error @+1 {{'stablehlo.send' op communicates between devices; give a program for one device}}
  %0 = "stablehlo.send"(%x, %t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
      is_host_transfer = false} : (tensor<8xf32>, !stablehlo.token) -> !stablehlo.token
  return %0 : !stablehlo.token
}
