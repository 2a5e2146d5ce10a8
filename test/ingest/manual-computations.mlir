// RUN: gspmd-opt --gspmd-ingest --split-input-file %s | FileCheck %s

// A manual computation on a mesh with an axis of size 1 that is manual.

// CHECK-LABEL: module
// CHECK: sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x", "y"}, {?}]>] out_shardings=[<@mesh, [{"x"}, {}], replicated={"y"}>] manual_axes={"x"} (%arg1: tensor<2x8xf32>) {
// CHECK-NEXT: stablehlo.tanh %arg1
// CHECK-NEXT: sdy.return
sdy.mesh @mesh = <["x"=4, "one"=1, "y"=2]>
func.func @main(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x", "y"}, {?}]>] out_shardings=[<@mesh, [{"x"}, {}], replicated={"y"}>] manual_axes={"x", "one"} (%arg1: tensor<2x8xf32>) {
    %1 = func.call @f(%arg1) : (tensor<2x8xf32>) -> tensor<2x8xf32>
    sdy.return %1 : tensor<2x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
func.func private @f(%arg0: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = stablehlo.tanh %arg0 : tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

// GSPMD's markers: a value enters twice, one result leaves twice; annotations inside name the manual axes once more.

// CHECK-LABEL: module
// CHECK: sdy.mesh @mesh = <["axis_0"=4, "axis_1"=2]>
// CHECK: func.func public @main
// CHECK-NEXT: %[[R:.*]]:3 = sdy.manual_computation(%arg0, %arg0) in_shardings=[<@mesh, [{"axis_0", ?}, {?}]>, <@mesh, [{?}, {?}]>] out_shardings=[<@mesh, [{"axis_0", ?}, {?}]>, <@mesh, [{"axis_0", ?}, {?}]>, <@mesh, [{?}, {?}]>] manual_axes={"axis_0"} (%arg1: tensor<2x8xf32>, %arg2: tensor<8x8xf32>) {
// CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %arg1
// CHECK-NEXT: %[[C:.*]] = sdy.sharding_constraint %[[T]] <@mesh, [{}, {"axis_1"}]>
// CHECK-NEXT: sdy.return %[[C]], %[[C]], %arg2
// CHECK: return %[[R]]#0, %[[R]]#1, %[[R]]#2
func.func @main(%arg0: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = stablehlo.custom_call @Sharding(%arg0) {backend_config = "unspecified_dims=[0,1]", mhlo.sharding = "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {backend_config = "unspecified_dims=[0,1]", mhlo.sharding = "{devices=[1,1,4,2]<=[8] last_tile_dims={manual, replicated}}"} : (tensor<8x8xf32>) -> tensor<2x8xf32>
  %2 = stablehlo.custom_call @Sharding(%arg0) {backend_config = "unspecified_dims=[0,1]", mhlo.sharding = "{replicated}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = stablehlo.custom_call @SPMDFullToShardShape(%2) {backend_config = "unspecified_dims=[0,1]", mhlo.sharding = "{devices=[1,1,4,2]<=[8] last_tile_dims={manual, replicated}}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4:2 = func.call @body(%1, %3) : (tensor<2x8xf32>, tensor<8x8xf32>) -> (tensor<2x8xf32>, tensor<8x8xf32>)
  %5 = stablehlo.custom_call @Sharding(%4#0) {backend_config = "unspecified_dims=[0,1]", mhlo.sharding = "{devices=[1,1,4,2]<=[8] last_tile_dims={manual, replicated}}"} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %6 = stablehlo.custom_call @SPMDShardToFullShape(%5) {backend_config = "unspecified_dims=[0,1]", mhlo.sharding = "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"} : (tensor<2x8xf32>) -> tensor<8x8xf32>
  %7 = stablehlo.custom_call @Sharding(%4#0) {backend_config = "unspecified_dims=[0,1]", mhlo.sharding = "{devices=[1,1,4,2]<=[8] last_tile_dims={manual, replicated}}"} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %8 = stablehlo.custom_call @SPMDShardToFullShape(%7) {backend_config = "unspecified_dims=[0,1]", mhlo.sharding = "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"} : (tensor<2x8xf32>) -> tensor<8x8xf32>
  %9 = stablehlo.custom_call @Sharding(%4#1) {backend_config = "unspecified_dims=[0,1]", mhlo.sharding = "{devices=[1,1,4,2]<=[8] last_tile_dims={manual, replicated}}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %10 = stablehlo.custom_call @SPMDShardToFullShape(%9) {backend_config = "unspecified_dims=[0,1]", mhlo.sharding = "{replicated}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %6, %8, %10 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
func.func private @body(%arg0: tensor<2x8xf32>, %arg1: tensor<8x8xf32>) -> (tensor<2x8xf32>, tensor<8x8xf32>) {
  %0 = stablehlo.tanh %arg0 : tensor<2x8xf32>
  %1 = stablehlo.custom_call @Sharding(%0) {mhlo.sharding = "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dims={manual}}"} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = stablehlo.custom_call @Sharding(%arg1) {backend_config = "unspecified_dims=[0,1]", mhlo.sharding = "{devices=[1,1,4,2]<=[8] last_tile_dims={manual, replicated}}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1, %2 : tensor<2x8xf32>, tensor<8x8xf32>
}

// -----

// All axes manual: what is said inside has nothing left to say.

// CHECK-LABEL: module
// CHECK: func.func public @main
// CHECK-NEXT: sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"axis_0"}]>] out_shardings=[<@mesh, [{"axis_0"}]>] manual_axes={"axis_0"} (%arg1: tensor<2xf32>) {
// CHECK-NEXT: stablehlo.tanh %arg1 : tensor<2xf32>
// CHECK-NEXT: sdy.return
func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @Sharding(%arg0) {mhlo.sharding = "{devices=[4]<=[4]}"} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = "{manual}"} : (tensor<8xf32>) -> tensor<2xf32>
  %2 = func.call @body(%1) : (tensor<2xf32>) -> tensor<2xf32>
  %3 = stablehlo.custom_call @Sharding(%2) {mhlo.sharding = "{manual}"} : (tensor<2xf32>) -> tensor<2xf32>
  %4 = stablehlo.custom_call @SPMDShardToFullShape(%3) {mhlo.sharding = "{devices=[4]<=[4]}"} : (tensor<2xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}
func.func private @body(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.tanh %arg0 {mhlo.sharding = "{manual}"} : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// Shardy's markers, as XLA's converter gives them: with tuples.

// CHECK-LABEL: module
// CHECK: func.func public @main
// CHECK-NEXT: %[[R:.*]]:2 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{"x"}, {?}]>, <@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>, <@mesh, [{"x"}, {"y"}]>] manual_axes={"x"} (%arg2: tensor<2x8xf32>, %arg3: tensor<2x8xf32>) {
// CHECK-NEXT: %[[A:.*]] = stablehlo.add %arg2, %arg3 {gspmd.annotated, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"y"}]>]>}
// CHECK-NEXT: sdy.return %[[A]], %arg2
// CHECK: return %[[R]]#1, %[[R]]#0
module attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=4, \22y\22=2]>}"}} {
  func.func @main(%arg0: tensor<8x8xf32>, %arg1: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %0 = stablehlo.custom_call @xla.sdy.GlobalToLocalShape(%arg0, %arg1) {has_side_effect = true, mhlo.frontend_attributes = {xla.sdy.in_shardings = "#sdy.sharding_per_value<[<@mesh, [{\22x\22}, {?}]>, <@mesh, [{\22x\22}, {}]>]>", xla.sdy.manual_axes = "#sdy<manual_axes{\22x\22}>"}, xla_shape = "(f32[2,8]{1,0}, f32[2,8]{1,0})"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tuple<tensor<2x8xf32>, tensor<2x8xf32>>
    %1 = stablehlo.get_tuple_element %0[0] : (tuple<tensor<2x8xf32>, tensor<2x8xf32>>) -> tensor<2x8xf32>
    %2 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<2x8xf32>, tensor<2x8xf32>>) -> tensor<2x8xf32>
    %3:2 = func.call @xla.sdy.manual_computation_body.2(%1, %2) {mhlo.frontend_attributes = {inlineable = "false"}} : (tensor<2x8xf32>, tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
    %4 = stablehlo.custom_call @xla.sdy.LocalToGlobalShape(%3#0, %3#1) {has_side_effect = true, mhlo.frontend_attributes = {xla.sdy.manual_axes = "#sdy<manual_axes{\22x\22}>", xla.sdy.out_shardings = "#sdy.sharding_per_value<[<@mesh, [{\22x\22}, {}]>, <@mesh, [{\22x\22}, {\22y\22}]>]>"}, xla_shape = "(f32[8,8]{1,0}, f32[8,8]{1,0})"} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tuple<tensor<8x8xf32>, tensor<8x8xf32>>
    %5 = stablehlo.get_tuple_element %4[0] : (tuple<tensor<8x8xf32>, tensor<8x8xf32>>) -> tensor<8x8xf32>
    %6 = stablehlo.get_tuple_element %4[1] : (tuple<tensor<8x8xf32>, tensor<8x8xf32>>) -> tensor<8x8xf32>
    return %6, %5 : tensor<8x8xf32>, tensor<8x8xf32>
  }
  func.func private @xla.sdy.manual_computation_body.2(%arg0: tensor<2x8xf32>, %arg1: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
    %0 = stablehlo.add %arg0, %arg1 {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding_per_value<[<@mesh, [{}, {\22y\22}]>]>"}} : tensor<2x8xf32>
    return %0, %arg0 : tensor<2x8xf32>, tensor<2x8xf32>
  }
}
