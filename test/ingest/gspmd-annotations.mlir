// RUN: gspmd-opt --gspmd-ingest --split-input-file %s | FileCheck %s

// The mesh is found from the device orders of all shardings.

// CHECK-LABEL: module
// CHECK-SAME: mhlo.num_partitions = 8 : i32
// CHECK-NEXT: sdy.mesh @mesh = <["axis_0"=4, "axis_1"=2]>
// CHECK: func.func public @main
// CHECK-SAME: %arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"axis_0"}, {"axis_1"}]>}
// CHECK-SAME: %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"axis_1"}, {"axis_0"}]>}
// CHECK-SAME: %arg2: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}
// CHECK-SAME: %arg3: tensor<8x8xf32>)
// CHECK-SAME: (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"axis_0"}, {}]>})
// CHECK-NEXT: stablehlo.add %arg0, %arg3 {gspmd.annotated, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"axis_0", "axis_1"}, {}]>]>}
func.func @main(
    %arg0: tensor<8x8xf32> {mhlo.sharding = "{devices=[4,2]<=[8]}"},
    %arg1: tensor<8x8xf32> {mhlo.sharding = "{devices=[2,4]<=[4,2]T(1,0)}"},
    %arg2: tensor<8x8xf32> {mhlo.sharding = "{replicated}"},
    %arg3: tensor<8x8xf32>) -> (tensor<8x8xf32> {mhlo.sharding = "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"}) {
  %0 = stablehlo.add %arg0, %arg3 {mhlo.sharding = "{devices=[8,1]<=[8]}"} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// -----

// `@Sharding` is a constraint; its unspecified dimensions are open; one that says nothing goes.

// CHECK-LABEL: module
// CHECK: func.func public @main
// CHECK-NEXT: %[[A:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{"axis_0"}, {}]>
// CHECK-NEXT: %[[B:.*]] = sdy.sharding_constraint %[[A]] <@mesh, [{?}, {"axis_0", ?}]>
// CHECK-NEXT: return %[[B]]
func.func @main(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.custom_call @Sharding(%arg0) {mhlo.sharding = "{devices=[2,1]<=[2]}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.custom_call @Sharding(%0) {backend_config = "unspecified_dims=[0,1]", mhlo.sharding = "{devices=[1,2]<=[2]}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = stablehlo.custom_call @Sharding(%1) {backend_config = "unspecified_dims=[0,1]", mhlo.sharding = "{replicated}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// -----

// Shard groups and barriers; groups whose members should only be alike are marked.

// CHECK-LABEL: module
// CHECK: func.func public @main
// CHECK-NEXT: sdy.sharding_group %arg0 group_id=3
// CHECK-NEXT: sdy.sharding_group %arg1 group_id=3
// CHECK-NEXT: %[[A:.*]] = sdy.sharding_constraint %arg1 <@mesh, [{"axis_0"}]>
// CHECK-NEXT: %[[B:.*]] = sdy.propagation_barrier %[[A]] allowed_direction=BACKWARD
// CHECK-NEXT: %[[C:.*]] = sdy.propagation_barrier %[[B]] allowed_direction=FORWARD
// CHECK-NEXT: sdy.sharding_group %[[C]] group_id=4 {gspmd.like}
// CHECK-NEXT: return %arg0, %[[C]]
func.func @main(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = stablehlo.custom_call @Sharding(%arg0) {mhlo.sharding = "{unknown shard_as 3}"} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = stablehlo.custom_call @Sharding(%arg1) {mhlo.sharding = "{devices=[2]<=[2] shard_as 3}"} : (tensor<8xf32>) -> tensor<8xf32>
  %2 = stablehlo.custom_call @ShardBarrierFrom(%1) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = stablehlo.custom_call @ShardBarrierTo(%2) : (tensor<8xf32>) -> tensor<8xf32>
  %4 = stablehlo.custom_call @Sharding(%3) {mhlo.sharding = "{unknown shard_like 4}"} : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %4 : tensor<8xf32>, tensor<8xf32>
}

// -----

// Operations with several results take a tuple, or one sharding for all; nested attributes count as well.

// CHECK-LABEL: module
// CHECK: func.func public @main
// CHECK: stablehlo.custom_call @f(%arg0) {gspmd.annotated, has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"axis_0"}]>, <@mesh, [{}]>]>}
// CHECK: stablehlo.custom_call @g(%arg0) {gspmd.annotated, has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"axis_0"}]>, <@mesh, [{"axis_0"}]>]>}
// CHECK: stablehlo.custom_call @h(%arg0) {gspmd.annotated, mhlo.attributes = {k = 1 : i64}, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"axis_0"}]>]>}
func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0:2 = stablehlo.custom_call @f(%arg0) {has_side_effect = true, mhlo.sharding = "{{devices=[2]<=[2]}, {replicated}}"} : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %1:2 = stablehlo.custom_call @g(%arg0) {has_side_effect = true, mhlo.sharding = "{devices=[2]<=[2]}"} : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %2 = stablehlo.custom_call @h(%arg0) {mhlo.attributes = {k = 1 : i64, mhlo.sharding = "{devices=[2]<=[2]}"}} : (tensor<8xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

// A mesh of the module is kept when the shardings can be written in its axes.

// CHECK-LABEL: module
// CHECK-NEXT: sdy.mesh @m = <["x"=4, "y"=2]>
// CHECK: %arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {?}p1]>}
// CHECK-SAME: %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {"x":(1)2}]>}
sdy.mesh @m = <["x"=4, "y"=2]>
func.func @main(
    %arg0: tensor<8x8xf32> {mhlo.sharding = "{devices=[4,1,2]<=[8] last_tile_dim_replicate}", sdy.sharding = #sdy.sharding<@m, [{"x"}, {?}p1]>},
    %arg1: tensor<8x8xf32> {mhlo.sharding = "{devices=[1,2,4]<=[8] last_tile_dim_replicate}"}) -> tensor<8x8xf32> {
  return %arg0 : tensor<8x8xf32>
}
