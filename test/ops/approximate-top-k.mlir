// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard=target=%S/bytes-only.toml --gspmd-localize --cse %s | FileCheck %s

// Rows are searched by the devices that have them, with the same call on fewer rows.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NOT: stablehlo.all_gather
// CHECK: stablehlo.custom_call @ApproxTopK(%arg0
// CHECK-SAME: top_k = 2
// CHECK-SAME: (tensor<2x250xf32>, tensor<2x250xi32>, tensor<f32>, tensor<i32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)
// CHECK-NEXT: return
func.func private @greater(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func public @main(%a: tensor<6x250xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<6x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
        tensor<6x2xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %places = stablehlo.iota dim = 1 : tensor<6x250xi32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %none = stablehlo.constant dense<-1> : tensor<i32>
  %0:2 = stablehlo.custom_call @ApproxTopK(%a, %places, %low, %none) {
    called_computations = [@greater],
    mhlo.backend_config = {
      aggregate_to_topk = true, recall_target = 9.5e-01 : f32, reduction_dim = 1 : i64,
      reduction_input_size_override = -1 : i64, top_k = 2 : i64}
  } : (tensor<6x250xf32>, tensor<6x250xi32>, tensor<f32>, tensor<i32>) -> (tensor<6x2xf32>, tensor<6x2xi32>)
  return %0#0, %0#1 : tensor<6x2xf32>, tensor<6x2xi32>
}

// -----

// Where the dimension searched is split, every device searches its shard, and the best of all shards are put in order
// by the comparator that the call names. The shards hold 252 elements of 250: padding becomes what the call says
// stands for nothing, minus infinity and place -1.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[INSIDE:[0-9]+]] = stablehlo.compare LT
// CHECK: %[[VALUES:[0-9]+]] = stablehlo.select %[[INSIDE]], %arg0
// CHECK: %[[PLACES:[0-9]+]] = stablehlo.select %[[INSIDE]]
// CHECK: stablehlo.custom_call @ApproxTopK(%[[VALUES]], %[[PLACES]], {{.*}}aggregate_to_topk = true{{.*}}top_k = 2
// CHECK: %[[ALL:[0-9]+]] = "stablehlo.all_gather"{{.*}} -> tensor<3x8xf32>
// CHECK: %[[WHERE:[0-9]+]] = "stablehlo.all_gather"{{.*}} -> tensor<3x8xi32>
// CHECK: "stablehlo.sort"(%[[ALL]], %[[WHERE]])
// CHECK: stablehlo.compare GT, {{.*}}, TOTALORDER
// CHECK-COUNT-2: stablehlo.slice {{.*}} [0:3, 0:2]
func.func private @greater(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func public @main(%a: tensor<3x250xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>})
    -> (tensor<3x2xf32>, tensor<3x2xi32>) {
  %places = stablehlo.iota dim = 1 : tensor<3x250xi32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %none = stablehlo.constant dense<-1> : tensor<i32>
  %0:2 = stablehlo.custom_call @ApproxTopK(%a, %places, %low, %none) {
    called_computations = [@greater],
    mhlo.backend_config = {
      aggregate_to_topk = true, recall_target = 9.5e-01 : f32, reduction_dim = 1 : i64,
      reduction_input_size_override = -1 : i64, top_k = 2 : i64}
  } : (tensor<3x250xf32>, tensor<3x250xi32>, tensor<f32>, tensor<i32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %0#0, %0#1 : tensor<3x2xf32>, tensor<3x2xi32>
}

// -----

// A shard of no more elements than are wanted is not searched: all of it is gathered, and searched as a whole.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NOT: @ApproxTopK
// CHECK: %[[ALL:[0-9]+]] = "stablehlo.all_gather"(%arg0)
// CHECK-NOT: "stablehlo.all_gather"
// CHECK: stablehlo.custom_call @ApproxTopK(%[[ALL]],
func.func private @greater(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func public @main(%a: tensor<1x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>})
    -> (tensor<1x2xf32>, tensor<1x2xi32>) {
  %places = stablehlo.iota dim = 1 : tensor<1x8xi32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %none = stablehlo.constant dense<-1> : tensor<i32>
  %0:2 = stablehlo.custom_call @ApproxTopK(%a, %places, %low, %none) {
    called_computations = [@greater],
    mhlo.backend_config = {
      aggregate_to_topk = true, recall_target = 9.5e-01 : f32, reduction_dim = 1 : i64,
      reduction_input_size_override = -1 : i64, top_k = 2 : i64}
  } : (tensor<1x8xf32>, tensor<1x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<1x2xf32>, tensor<1x2xi32>)
  return %0#0, %0#1 : tensor<1x2xf32>, tensor<1x2xi32>
}
