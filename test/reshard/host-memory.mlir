// RUN: gspmd-opt %s --gspmd-ingest --gspmd-propagate --gspmd-reshard=constraints=bind --split-input-file | FileCheck %s

// What goes to a host's memory is resharded before, on the devices.

sdy.mesh @mesh = <["x"=4]>
// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[MOVED:.*]] = sdy.all_to_all {{.*}}%arg0
// CHECK-NEXT: %[[HOST:.*]] = stablehlo.custom_call @annotate_device_placement(%[[MOVED]]) {{.*}}_xla_buffer_placement = "pinned_host"
// CHECK-NEXT: return %[[HOST]]
func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<8x8xf32> {mhlo.memory_kind = "pinned_host", sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
  %0 = sdy.sharding_constraint %a <@mesh, [{"x"}, {}]> : tensor<8x8xf32>
  %1 = stablehlo.custom_call @annotate_device_placement(%0) {backend_config = "", has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "pinned_host"}, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// -----

// What comes from there is resharded behind; and what stays there goes by the devices, from an argument to a result.

sdy.mesh @mesh = <["x"=4]>
// CHECK-LABEL: func.func public @main
// CHECK-NEXT: %[[A:.*]] = stablehlo.custom_call @annotate_device_placement(%arg0) {{.*}}_xla_buffer_placement = "device"
// CHECK-NEXT: %[[B:.*]] = sdy.all_to_all {{.*}}%[[A]]
// CHECK-NEXT: %[[C:.*]] = stablehlo.custom_call @annotate_device_placement(%[[B]]) {{.*}}_xla_buffer_placement = "device"
// CHECK-NEXT: %[[D:.*]] = stablehlo.tanh %[[C]]
// CHECK-NEXT: %[[E:.*]] = stablehlo.custom_call @annotate_device_placement(%arg1) {{.*}}_xla_buffer_placement = "device"
// CHECK-NEXT: %[[F:.*]] = sdy.all_to_all {{.*}}%[[E]]
// CHECK-NEXT: %[[G:.*]] = stablehlo.custom_call @annotate_device_placement(%[[F]]) {{.*}}_xla_buffer_placement = "pinned_host"
// CHECK-NEXT: return %[[D]], %[[G]]
func.func public @main(%a: tensor<8x8xf32> {mhlo.memory_kind = "pinned_host", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<8x8xf32> {mhlo.memory_kind = "pinned_host", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, tensor<8x8xf32> {mhlo.memory_kind = "pinned_host", sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
  %0 = sdy.sharding_constraint %a <@mesh, [{}, {"x"}]> : tensor<8x8xf32>
  %1 = stablehlo.custom_call @annotate_device_placement(%0) {backend_config = "", has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "device"}} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = stablehlo.tanh %1 : tensor<8x8xf32>
  return %2, %b : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// A loop carries what is in a host's memory.

sdy.mesh @mesh = <["x"=4]>
// CHECK-LABEL: func.func public @main
// CHECK: stablehlo.while(%[[I:.*]] = %{{.*}}, %[[C:.*]] = %arg0)
// CHECK: %[[A:.*]] = stablehlo.custom_call @annotate_device_placement(%[[C]]) {{.*}}_xla_buffer_placement = "device"
// CHECK-NEXT: %[[B:.*]] = sdy.all_to_all {{.*}}%[[A]]
// CHECK: %[[T:.*]] = stablehlo.tanh
// CHECK: %[[U:.*]] = sdy.all_to_all {{.*}}%[[T]]
// CHECK-NEXT: %[[R:.*]] = stablehlo.custom_call @annotate_device_placement(%[[U]]) {{.*}}_xla_buffer_placement = "pinned_host"
// CHECK: stablehlo.return %{{.*}}, %[[R]]
func.func public @main(%a: tensor<8x8xf32> {mhlo.memory_kind = "pinned_host", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x8xf32> {mhlo.memory_kind = "pinned_host", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<8x8xf32> cond {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %1 = stablehlo.add %i, %one : tensor<i32>
    %2 = sdy.sharding_constraint %c <@mesh, [{}, {"x"}]> : tensor<8x8xf32>
    %3 = stablehlo.custom_call @annotate_device_placement(%2) {backend_config = "", has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "device"}} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %4 = stablehlo.tanh %3 : tensor<8x8xf32>
    %5 = stablehlo.custom_call @annotate_device_placement(%4) {backend_config = "", has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "pinned_host"}} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    stablehlo.return %1, %5 : tensor<i32>, tensor<8x8xf32>
  }
  return %0#1 : tensor<8x8xf32>
}
