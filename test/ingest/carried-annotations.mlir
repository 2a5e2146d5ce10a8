// RUN: gspmd-opt --gspmd-ingest --split-input-file %s | FileCheck %s

// Annotations carried through HLO as frontend attributes come back, with their meshes; the `mhlo.sharding` beside
// them are their shadows, and `{replicated}` on a result of @main is what XLA writes where nothing was said.

// CHECK-LABEL: module
// CHECK-NOT: xla.sdy
// CHECK: sdy.mesh @mesh = <["x"=4, "y"=2]>
// CHECK: func.func public @main
// CHECK-SAME: %arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}p1]>}
// CHECK-SAME: -> (tensor<8x8xf32>, tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>})
// CHECK-NEXT: %[[ADD:.*]] = stablehlo.add %arg0, %arg0 {gspmd.annotated, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{?}, {"y"}]>]>}
// CHECK-NEXT: sdy.sharding_group %[[ADD]] group_id=21
// CHECK-NEXT: %[[BARRIER:.*]] = sdy.propagation_barrier %[[ADD]] allowed_direction=FORWARD
// CHECK-NEXT: stablehlo.custom_call @foo(%[[BARRIER]]) {mhlo.frontend_attributes = {mine = "1"}, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=8}, custom>}
// CHECK-NEXT: sdy.sharding_constraint %{{.*}} <@mesh, [{"x":(1)2, ?}p2, {}], replicated={"x":(2)2}>
// CHECK-NEXT: return
module attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=4, \22y\22=2]>}"}} {
  func.func @main(%arg0: tensor<8x8xf32> {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding<@mesh, [{\22x\22}, {?}p1]>"}, mhlo.sharding = "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"}) -> (tensor<8x8xf32> {mhlo.sharding = "{replicated}"}, tensor<8x8xf32> {mhlo.sharding = "{devices=[4,2]<=[8]}"}) {
    %0 = stablehlo.add %arg0, %arg0 {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding_per_value<[<@mesh, [{?}, {\22y\22}]>]>"}, mhlo.sharding = "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"} : tensor<8x8xf32>
    %1 = stablehlo.custom_call @xla.sdy.ShardingGroup(%0) {has_side_effect = true, mhlo.frontend_attributes = {xla.sdy.sharding_group_id = "21 : i64"}} : (tensor<8x8xf32>) -> tuple<>
    %2 = stablehlo.custom_call @xla.sdy.PropagationBarrier(%0) {has_side_effect = true, mhlo.frontend_attributes = {xla.sdy.allowed_direction = "1 : i32"}} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = stablehlo.custom_call @foo(%2) {mhlo.frontend_attributes = {mine = "1", xla.sdy.sharding_rule = "#sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=8}, custom>"}} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %4 = stablehlo.custom_call @Sharding(%3) {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding_per_value<[<@mesh, [{\22x\22:(1)2, ?}p2, {}], replicated={\22x\22:(2)2}>]>"}, mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %5 = stablehlo.custom_call @xla.sdy.FuncResultSharding(%4) {has_side_effect = true, mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding_per_value<[<@mesh, [{\22x\22}, {\22y\22}]>]>"}} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %6 = stablehlo.reshape %5 {mhlo.sharding = "{devices=[4,2]<=[8]}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %4, %5 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

// The result of a private function: a constraint, once, though two say it.

// CHECK-LABEL: module
// CHECK: func.func public @main
// CHECK-NEXT: stablehlo.tanh
// CHECK-NEXT: sdy.sharding_constraint %{{.*}} <@mesh, [{"x"}, {?}]>
// CHECK-NEXT: return
module attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=4]>}"}} {
  func.func @main(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = call @f(%arg0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
  func.func private @f(%arg0: tensor<8x8xf32>) -> (tensor<8x8xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"}) {
    %0 = stablehlo.tanh %arg0 : tensor<8x8xf32>
    %1 = stablehlo.custom_call @xla.sdy.FuncResultSharding(%0) {has_side_effect = true, mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding_per_value<[<@mesh, [{\22x\22}, {?}]>]>"}} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}
