// RUN: gspmd-opt %s --split-input-file --gspmd-partition | FileCheck %s

// The operand is gathered, partition 0 calls, and what it returned is summed as integers.

// CHECK-LABEL: module
sdy.mesh @mesh = <["x"=4]>
// CHECK: func.func public @main(%[[X:.*]]: tensor<2xf32>
func.func public @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  // CHECK: %[[ZERO:.*]] = stablehlo.constant dense<0> : tensor<i32>
  // CHECK: %[[HERE:.*]] = stablehlo.compare EQ, %{{.*}}, %[[ZERO]]
  // CHECK: %[[WHOLE:.*]] = "stablehlo.all_gather"(%[[X]])
  // CHECK-SAME: gspmd.cause = "operand 0 of a Python callback is needed whole"
  // CHECK: %[[BITS:.*]] = "stablehlo.if"(%[[HERE]]) ({
  // CHECK:   %[[MADE:.*]] = stablehlo.custom_call @xla_ffi_python_cpu_callback(%[[WHOLE]])
  // CHECK-NOT: sdy.sharding
  // CHECK:   %[[CARRIED:.*]] = stablehlo.bitcast_convert %[[MADE]] : (tensor<8xf32>) -> tensor<8xi32>
  // CHECK:   stablehlo.return %[[CARRIED]]
  // CHECK:   %[[NOTHING:.*]] = stablehlo.constant dense<0> : tensor<8xi32>
  // CHECK:   stablehlo.return %[[NOTHING]]
  // CHECK: %[[SUM:.*]] = "stablehlo.all_reduce"(%[[BITS]])
  // CHECK: stablehlo.bitcast_convert %[[SUM]] : (tensor<8xi32>) -> tensor<8xf32>
  %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {
      mhlo.backend_config = {index = 0 : ui64}, sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>}
    : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
sdy.mesh @one = <[], device_ids=[0]>

// -----

// Every target that JAX has used; one device calls without results, so that nothing is sent back.

// CHECK-LABEL: module
// CHECK-COUNT-6: stablehlo.if
// CHECK-NOT: all_reduce
sdy.mesh @mesh = <["x"=2]>
func.func public @main(%x: tensor<8xf32>) {
  stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {has_side_effect = true} : (tensor<8xf32>) -> ()
  stablehlo.custom_call @xla_ffi_python_gpu_callback(%x) {has_side_effect = true} : (tensor<8xf32>) -> ()
  stablehlo.custom_call @xla_python_cpu_callback(%x) {has_side_effect = true} : (tensor<8xf32>) -> ()
  stablehlo.custom_call @xla_python_gpu_callback(%x) {has_side_effect = true} : (tensor<8xf32>) -> ()
  stablehlo.custom_call @xla_buffer_python_cpu_callback(%x) {has_side_effect = true} : (tensor<8xf32>) -> ()
  stablehlo.custom_call @xla_buffer_python_gpu_callback(%x) {has_side_effect = true} : (tensor<8xf32>) -> ()
  return
}

// -----

// The device may be another one, in either notation; a mesh in another order changes nothing.

// CHECK-LABEL: module
// CHECK: %[[THREE:.*]] = stablehlo.constant dense<3> : tensor<i32>
// CHECK: %[[FIRST:.*]] = stablehlo.compare EQ, %{{.*}}, %[[THREE]]
// CHECK: %[[ONE:.*]] = stablehlo.constant dense<1> : tensor<i32>
// CHECK: %[[SECOND:.*]] = stablehlo.compare EQ, %{{.*}}, %[[ONE]]
// CHECK: "stablehlo.if"(%[[FIRST]])
// CHECK: "stablehlo.if"(%[[SECOND]])
sdy.mesh @mesh = <["x"=4], device_ids=[3, 2, 1, 0]>
sdy.mesh @one = <[], device_ids=[3]>
func.func public @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {
    has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : (tensor<8xf32>) -> ()
  stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {
    has_side_effect = true, mhlo.sharding = "{maximal device=1}"} : (tensor<8xf32>) -> ()
  return
}

// -----

// Tokens go through arguments, branches, loops and results; devices that do not call hand the token on.

// CHECK-LABEL: module
// CHECK: func.func public @main(%[[T:[a-z0-9]*]]: !stablehlo.token
// CHECK-SAME: gspmd.global_type = !stablehlo.token, gspmd.sharding = "<@mesh, []>"
// CHECK-SAME: jax.token = true
sdy.mesh @mesh = <["x"=2]>
func.func public @main(%t: !stablehlo.token {jax.token = true},
                       %x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %i: tensor<i32>)
    -> (!stablehlo.token {jax.token = true}, tensor<i32>) {
  // CHECK: %[[LOOP:.*]]:2 = stablehlo.while(%[[IN:.*]] = %[[T]], %{{.*}} = %{{.*}}) : !stablehlo.token, tensor<i32>
  %loop:2 = stablehlo.while(%a = %t, %n = %i) : !stablehlo.token, tensor<i32>
  cond {
    %ten = stablehlo.constant dense<10> : tensor<i32>
    %p = stablehlo.compare LT, %n, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    // CHECK: %[[OUT:.*]]:2 = "stablehlo.if"(%{{.*}}) ({
    // CHECK:   %[[CALL:.*]]:2 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%[[IN]], %{{.*}})
    // CHECK:   stablehlo.return %[[CALL]]#0, %[[CALL]]#1 : !stablehlo.token, tensor<i32>
    // CHECK: }, {
    // CHECK:   stablehlo.return %[[IN]], %{{.*}} : !stablehlo.token, tensor<i32>
    // CHECK: "stablehlo.all_reduce"(%[[OUT]]#1)
    %b:2 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%a, %x) {has_side_effect = true}
      : (!stablehlo.token, tensor<8xf32>) -> (!stablehlo.token, tensor<i32>)
    // CHECK: "stablehlo.case"
    // CHECK:   stablehlo.return %[[OUT]]#0 : !stablehlo.token
    // CHECK:   "stablehlo.if"
    // CHECK:     stablehlo.custom_call @xla_ffi_python_cpu_callback(%[[OUT]]#0)
    %c = "stablehlo.case"(%n) ({
      stablehlo.return %b#0 : !stablehlo.token
    }, {
      %d = stablehlo.custom_call @xla_ffi_python_cpu_callback(%b#0) {has_side_effect = true}
        : (!stablehlo.token) -> !stablehlo.token
      stablehlo.return %d : !stablehlo.token
    }) : (tensor<i32>) -> !stablehlo.token
    %m = stablehlo.add %n, %b#1 : tensor<i32>
    stablehlo.return %c, %m : !stablehlo.token, tensor<i32>
  }
  %one = stablehlo.create_token : !stablehlo.token
  // CHECK: %[[NEW:.*]] = stablehlo.after_all : !stablehlo.token
  // CHECK: %[[ALL:.*]] = stablehlo.after_all %[[LOOP]]#0, %[[NEW]]
  // CHECK: return %[[ALL]], %[[LOOP]]#1
  %all = stablehlo.after_all %loop#0, %one : !stablehlo.token
  return %all, %loop#1 : !stablehlo.token, tensor<i32>
}

// -----

// What JAX writes for TPUs: operands are sent by one device, results received by it and brought to all. The host knows
// their channels, which collectives therefore do not take.

// CHECK-LABEL: module
sdy.mesh @mesh = <["x"=4]>
sdy.mesh @one = <[], device_ids=[0]>
func.func public @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %t = stablehlo.create_token : !stablehlo.token
  // CHECK: %[[FIRST:.*]] = stablehlo.after_all
  // CHECK: %[[WHOLE:.*]] = "stablehlo.all_gather"{{.*}}channel_handle<handle = {{[3-9]}}, type = 1>
  // CHECK: %[[SENT:.*]] = "stablehlo.if"
  // CHECK:   %[[TOKEN:.*]] = "stablehlo.send"(%[[WHOLE]], %[[FIRST]]) <{channel_handle = #stablehlo.channel_handle<handle = 1,
  // CHECK:   stablehlo.return %[[TOKEN]] : !stablehlo.token
  // CHECK: }, {
  // CHECK:   stablehlo.return %[[FIRST]] : !stablehlo.token
  // CHECK: %[[BITS:.*]] = "stablehlo.if"
  // CHECK:   %[[MADE:.*]]:2 = "stablehlo.recv"(%[[SENT]])
  // CHECK:   %[[CARRIED:.*]] = stablehlo.bitcast_convert %[[MADE]]#0 : (tensor<8xf32>) -> tensor<8xi32>
  // CHECK:   stablehlo.return %[[CARRIED]] : tensor<8xi32>
  // CHECK: "stablehlo.all_reduce"(%[[BITS]])
  // CHECK: gspmd.cause = "results of a Python callback, which one device calls, are needed on all"
  %s = "stablehlo.send"(%x, %t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>,
      is_host_transfer = true, sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>}
    : (tensor<8xf32>, !stablehlo.token) -> !stablehlo.token
  %r:2 = "stablehlo.recv"(%s) {channel_handle = #stablehlo.channel_handle<handle = 2, type = 3>,
      is_host_transfer = true, sdy.sharding = #sdy.sharding_per_value<[<@one, []>, <@one, []>]>}
    : (!stablehlo.token) -> (tensor<8xf32>, !stablehlo.token)
  return %r#0 : tensor<8xf32>
}

// -----

// A rule that somebody writes for the target only guides propagation: the values are whole all the same.

// CHECK-LABEL: module
// CHECK: stablehlo.custom_call @xla_ffi_python_cpu_callback(%{{.*}}) {{.*}} : (tensor<8xf32>) -> tensor<8xf32>
sdy.mesh @mesh = <["x"=4]>
func.func public @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x)
    {has_side_effect = true, sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i]) {i=8}, custom>}
    : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// On one device nothing is to be divided or sent.

// CHECK-LABEL: module
// CHECK-NOT: stablehlo.if
// CHECK: stablehlo.custom_call @xla_ffi_python_cpu_callback
// CHECK-NOT: all_reduce
func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Calls with effects are neither merged nor moved out of loops nor dropped; equal pure ones may be merged.

// CHECK-LABEL: module
// CHECK-COUNT-2: custom_call @xla_ffi_python_cpu_callback
// CHECK: stablehlo.while
// CHECK: custom_call @xla_ffi_python_cpu_callback
sdy.mesh @mesh = <["x"=2]>
func.func public @main(%x: tensor<8xf32>, %i: tensor<i32>) -> tensor<i32> {
  %a = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {has_side_effect = true} : (tensor<8xf32>) -> tensor<f32>
  %b = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {has_side_effect = true} : (tensor<8xf32>) -> tensor<f32>
  %loop = stablehlo.while(%n = %i) : tensor<i32>
  cond {
    %ten = stablehlo.constant dense<10> : tensor<i32>
    %p = stablehlo.compare LT, %n, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %c = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {has_side_effect = true} : (tensor<8xf32>) -> tensor<i32>
    %m = stablehlo.add %n, %c : tensor<i32>
    stablehlo.return %m : tensor<i32>
  }
  return %loop : tensor<i32>
}
