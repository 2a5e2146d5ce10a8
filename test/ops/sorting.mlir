// RUN: gspmd-opt --split-input-file --gspmd-propagate --gspmd-reshard=target=%S/bytes-only.toml --gspmd-localize --cse %s | FileCheck %s

// The best of every shard are gathered, not the logits.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: chlo.top_k({{.*}}, k = 2) : tensor<3x64xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
// CHECK: "stablehlo.all_gather"{{.*}} : (tensor<3x2xf32>) -> tensor<3x8xf32>
// CHECK: "stablehlo.all_gather"{{.*}} : (tensor<3x2xi32>) -> tensor<3x8xi32>
// CHECK: chlo.top_k({{.*}}, k = 2) : tensor<3x8xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
func.func public @main(%logits: tensor<3x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>})
    -> (tensor<3x2xf32>, tensor<3x2xi32>) {
  %0:2 = chlo.top_k(%logits, k = 2) : tensor<3x256xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %0#0, %0#1 : tensor<3x2xf32>, tensor<3x2xi32>
}

// -----

// An uneven dimension: padding becomes the negative NaN of all bits, below which there is nothing. Where elements are
// is counted from where the shard begins.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[BITS:.*]] = stablehlo.constant dense<-1> : tensor<i32>
// CHECK: %[[LEAST:[0-9]+]] = stablehlo.bitcast_convert %[[BITS]] : (tensor<i32>) -> tensor<f32>
// CHECK: %[[SPREAD:[0-9]+]] = stablehlo.broadcast_in_dim %[[LEAST]]
// CHECK: %[[MASKED:[0-9]+]] = stablehlo.select %{{.*}}, %arg0, %[[SPREAD]]
// CHECK: %{{.*}}, %[[PLACES:.*]] = chlo.top_k(%[[MASKED]], k = 2)
// CHECK: %[[GLOBAL:[0-9]+]] = stablehlo.add %[[PLACES]]
// CHECK: "stablehlo.all_gather"(%[[GLOBAL]])
func.func public @main(%logits: tensor<3x250xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>})
    -> (tensor<3x2xf32>, tensor<3x2xi32>) {
  %0:2 = chlo.top_k(%logits, k = 2) : tensor<3x250xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %0#0, %0#1 : tensor<3x2xf32>, tensor<3x2xi32>
}

// -----

// Rows are sorted by the devices that have them.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-NEXT: "stablehlo.sort"(%arg0)
// CHECK: (tensor<2x5xi32>) -> tensor<2x5xi32>
// CHECK-NEXT: return
func.func public @main(%a: tensor<6x5xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<6x5xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = "stablehlo.sort"(%a) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%l: tensor<i32>, %r: tensor<i32>):
    %1 = stablehlo.compare LT, %l, %r : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<6x5xi32>) -> tensor<6x5xi32>
  return %0 : tensor<6x5xi32>
}

// -----

// Many elements in an order are sorted by columns, of which every device is one: sorted, dealt out, sorted, dealt back,
// sorted, and at last together with the halves that are next to it, before and behind.

sdy.mesh @mesh = <["x"=8]>

// CHECK-LABEL: func.func public @main
// CHECK: "stablehlo.sort"(%arg0)
// CHECK: "stablehlo.all_to_all"
// CHECK-SAME: gspmd.axes = "\22x\22"
// CHECK: "stablehlo.sort"
// CHECK: "stablehlo.all_to_all"
// CHECK: %[[COLUMN:[0-9]+]] = "stablehlo.sort"
// CHECK-COUNT-2: "stablehlo.collective_permute"{{.*}} -> tensor<65536xi32>
// CHECK: %[[WIDE:[0-9]+]] = stablehlo.concatenate {{.*}}, %[[COLUMN]], {{.*}} -> tensor<262144xi32>
// CHECK: %[[SORTED:[0-9]+]]:2 = "stablehlo.sort"(%[[WIDE]]
// CHECK: stablehlo.slice %[[SORTED]]#0 [65536:196608]
// CHECK-NOT: stablehlo.all_gather
func.func public @main(%a: tensor<1048576xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<1048576xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%l: tensor<i32>, %r: tensor<i32>):
    %1 = stablehlo.compare LT, %l, %r : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<1048576xi32>) -> tensor<1048576xi32>
  return %0 : tensor<1048576xi32>
}

// -----

// Elements that do not fill the shards carry their places from the beginning, so that padding can be put last.

sdy.mesh @mesh = <["x"=8]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[PLACES:[0-9]+]] = stablehlo.add {{.*}} : tensor<131072xi32>
// CHECK: "stablehlo.sort"(%arg0, %[[PLACES]])
// CHECK-COUNT-4: "stablehlo.all_to_all"
// CHECK-COUNT-4: "stablehlo.collective_permute"
// CHECK-NOT: stablehlo.all_gather
func.func public @main(%a: tensor<1048570xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<1048570xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%l: tensor<i32>, %r: tensor<i32>):
    %1 = stablehlo.compare LT, %l, %r : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<1048570xi32>) -> tensor<1048570xi32>
  return %0 : tensor<1048570xi32>
}

// -----

// Floats that are compared as numbers are in no order, because of NaN: what comes out depends on how they are sorted.
// So all of them are gathered and sorted as one device does it.

sdy.mesh @mesh = <["x"=8]>

// CHECK-LABEL: func.func public @main
// CHECK: %[[WHOLE:[0-9]+]] = "stablehlo.all_gather"(%arg0)
// CHECK: %[[SORTED:[0-9]+]] = "stablehlo.sort"(%[[WHOLE]])
// CHECK: stablehlo.dynamic_slice %[[SORTED]], {{.*}} -> tensor<131072xf32>
func.func public @main(%a: tensor<1048576xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<1048576xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %1 = stablehlo.compare LT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<1048576xf32>) -> tensor<1048576xf32>
  return %0 : tensor<1048576xf32>
}
