// RUN: gspmd-opt --split-input-file --allow-unregistered-dialect --verify-diagnostics --gspmd-partition %s | FileCheck %s

// What is written for one device stays as it is: names, layouts, aliases, effects, configurations, tuples and tokens.

// CHECK-LABEL: @main(%arg0: tensor<4x4xf32>
// CHECK-SAME: tf.aliasing_output = 0
// CHECK: %[[A:.*]] = stablehlo.custom_call @legacy(%arg0) {backend_config = "opaque", has_side_effect = true, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[B:.*]] = stablehlo.custom_call @status(%[[A]]) {api_version = 2 : i32, backend_config = "opaque"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[C:.*]] = stablehlo.custom_call @unified(%[[B]]) {api_version = 3 : i32} : (tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[D:.*]]:2 = stablehlo.custom_call @typed(%arg1, %[[C]]) {api_version = 4 : i32, backend_config = {rate = 1.000000e+00 : f32}, output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [1], operand_index = 1, operand_tuple_indices = []>]} : (!stablehlo.token, tensor<4x4xf32>) -> (!stablehlo.token, tensor<4x4xf32>)
// CHECK: %[[E:.*]] = stablehlo.tuple %[[D]]#1, %[[C]] : tuple<tensor<4x4xf32>, tensor<4x4xf32>>
// CHECK: %[[F:.*]] = stablehlo.custom_call @of_tuple(%[[E]]) {called_computations = [@outer]} : (tuple<tensor<4x4xf32>, tensor<4x4xf32>>) -> tensor<4x4xf32>
// CHECK: return %[[F]], %[[D]]#0
// CHECK: func.func private @outer
// CHECK: called_computations = [@inner]
// CHECK: func.func private @inner
// CHECK-NOT: @unused
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {tf.aliasing_output = 0 : i32}, %t: !stablehlo.token) -> (tensor<8x8xf32>, !stablehlo.token) {
  %0:2 = sdy.manual_computation(%a, %t) in_shardings=[<@mesh, [{"x"}, {"y"}]>, <@mesh, []>] out_shardings=[<@mesh, [{"x"}, {"y"}]>, <@mesh, []>] manual_axes={"x", "y"} (%b: tensor<4x4xf32>, %u: !stablehlo.token) {
    %1 = stablehlo.custom_call @legacy(%b) {has_side_effect = true, backend_config = "opaque", operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = stablehlo.custom_call @status(%1) {api_version = 2 : i32, backend_config = "opaque"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = stablehlo.custom_call @unified(%2) {api_version = 3 : i32} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %4:2 = stablehlo.custom_call @typed(%u, %3) {api_version = 4 : i32, backend_config = {rate = 1.0 : f32}, output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [1], operand_index = 1, operand_tuple_indices = []>]} : (!stablehlo.token, tensor<4x4xf32>) -> (!stablehlo.token, tensor<4x4xf32>)
    %5 = stablehlo.tuple %4#1, %3 : tuple<tensor<4x4xf32>, tensor<4x4xf32>>
    %6 = stablehlo.custom_call @of_tuple(%5) {called_computations = [@outer]} : (tuple<tensor<4x4xf32>, tensor<4x4xf32>>) -> tensor<4x4xf32>
    sdy.return %6, %4#0 : tensor<4x4xf32>, !stablehlo.token
  } : (tensor<8x8xf32>, !stablehlo.token) -> (tensor<8x8xf32>, !stablehlo.token)
  return %0#0, %0#1 : tensor<8x8xf32>, !stablehlo.token
}
func.func private @outer(%a: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.custom_call @more(%a) {called_computations = [@inner]} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @inner(%a: tensor<f32>) -> tensor<f32> {
  return %a : tensor<f32>
}
func.func private @unused(%a: tensor<f32>) -> tensor<f32> {
  return %a : tensor<f32>
}

// -----

// So do operations of dialects that nobody knows, with their regions, and what is refused elsewhere.

// CHECK-LABEL: @main(%arg0: tensor<4x4xf32>
// CHECK: %[[A:.*]] = "some.kernel"(%arg0) ({
// CHECK: stablehlo.add %{{.*}}, %arg0 : tensor<4x4xf32>
// CHECK: "some.yield"
// CHECK: %[[B:.*]]:2 = "stablehlo.infeed"(%arg1)
// CHECK: return %[[A]], %[[B]]#1
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32>, %t: !stablehlo.token) -> (tensor<8x8xf32>, !stablehlo.token) {
  %0:2 = sdy.manual_computation(%a, %t) in_shardings=[<@mesh, [{"x"}, {"y"}]>, <@mesh, []>] out_shardings=[<@mesh, [{"x"}, {"y"}]>, <@mesh, []>] manual_axes={"x", "y"} (%b: tensor<4x4xf32>, %u: !stablehlo.token) {
    %1 = "some.kernel"(%b) ({
    ^bb0(%c: tensor<4x4xf32>):
      %2 = stablehlo.add %c, %b : tensor<4x4xf32>
      "some.yield"(%2) : (tensor<4x4xf32>) -> ()
    }) {depth = 3 : i32} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %3:2 = "stablehlo.infeed"(%u) {infeed_config = ""} : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
    sdy.return %1, %3#1 : tensor<4x4xf32>, !stablehlo.token
  } : (tensor<8x8xf32>, !stablehlo.token) -> (tensor<8x8xf32>, !stablehlo.token)
  return %0#0, %0#1 : tensor<8x8xf32>, !stablehlo.token
}

// -----

// Along free axes, a call is computed alike.

// CHECK-LABEL: @main(%arg0: tensor<4x4xf32>
// CHECK: %[[A:.*]] = "stablehlo.all_gather"(%arg0)
// CHECK-SAME: gspmd.axes = "\22y\22"
// CHECK: %[[B:.*]] = stablehlo.custom_call @kernel(%[[A]]) {has_side_effect = true} : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: stablehlo.custom_call @kernel(%[[B]]) {has_side_effect = true} : (tensor<4x8xf32>) -> tensor<4x8xf32>
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x8xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {?}]>] out_shardings=[<@mesh, [{"x"}, {?}]>] manual_axes={"x"} (%b: tensor<4x8xf32>) {
    // expected-remark @+1 {{calls 'kernel', which has no sharding rule, so 2 devices along the free axes "y" repeat it, and each sends 64 bytes for its operands (and 1 more equal calls)}}
    %1 = stablehlo.custom_call @kernel(%b) {has_side_effect = true} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = stablehlo.custom_call @kernel(%1) {has_side_effect = true} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    sdy.return %2 : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// A rule splits it along these, and nothing is sent.

// CHECK-LABEL: @main(%arg0: tensor<4x4xf32>
// CHECK-NEXT: %[[A:.*]] = stablehlo.custom_call @kernel(%arg0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK-NEXT: return %[[A]]
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x8xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {?}]>] out_shardings=[<@mesh, [{"x"}, {?}]>] manual_axes={"x"} (%b: tensor<4x8xf32>) {
    %1 = stablehlo.custom_call @kernel(%b) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=4, j=8}, custom>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    sdy.return %1 : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// A kernel that is compiled for its shapes takes no smaller ones, whatever its rule says.

// CHECK-LABEL: @main(%arg0: tensor<4x4xf32>
// CHECK: "stablehlo.all_gather"(%arg0)
// CHECK: stablehlo.custom_call @tpu_custom_call(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x8xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {?}]>] out_shardings=[<@mesh, [{"x"}, {?}]>] manual_axes={"x"} (%b: tensor<4x8xf32>) {
    // expected-remark @+1 {{calls 'tpu_custom_call', a kernel compiled for the shapes that it is given, so 2 devices along the free axes "y" repeat it, and each sends 64 bytes for its operands}}
    %1 = stablehlo.custom_call @tpu_custom_call(%b) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=4, j=8}, custom>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    sdy.return %1 : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// A nested computation that holds the axes that are left is one device's, too.

// CHECK-LABEL: @main(%arg0: tensor<4x4xf32>
// CHECK-NEXT: stablehlo.custom_call @kernel(%arg0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
sdy.mesh @mesh = <["x"=2, "y"=2, "one"=1]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x8xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {?}]>] out_shardings=[<@mesh, [{"x"}, {?}]>] manual_axes={"x"} (%b: tensor<4x8xf32>) {
    %1 = sdy.manual_computation(%b) in_shardings=[<@mesh, [{}, {"y"}]>] out_shardings=[<@mesh, [{}, {"y"}]>] manual_axes={"y"} (%c: tensor<4x4xf32>) {
      %2 = stablehlo.custom_call @kernel(%c) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      sdy.return %2 : tensor<4x4xf32>
    } : (tensor<4x8xf32>) -> tensor<4x8xf32>
    sdy.return %1 : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
