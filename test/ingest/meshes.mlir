// RUN: gspmd-opt --gspmd-ingest --split-input-file %s | FileCheck %s

// Axes of size 1 vanish from the mesh and from every attribute; a computation manual over nothing else dissolves.

// CHECK-LABEL: module
// CHECK-SAME: mhlo.num_partitions = 2 : i32
// CHECK-NEXT: sdy.mesh @m = <["b"=2]>
// CHECK-NEXT: func.func public @main
// CHECK-SAME: %arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"b"}]>}
// CHECK-SAME: %arg1: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{}], replicated={"b"}>}
// CHECK-NEXT: %[[ADD:.*]] = stablehlo.add %arg0, %arg1 {gspmd.annotated, sdy.sharding = #sdy.sharding_per_value<[<@m, [{}]>]>}
// CHECK-NEXT: %[[IN:.*]] = sdy.sharding_constraint %[[ADD]] <@m, [{"b"}]>
// CHECK-NEXT: %[[BODY:.*]] = stablehlo.tanh %[[IN]]
// CHECK-NEXT: %[[OUT:.*]] = sdy.sharding_constraint %[[BODY]] <@m, [{}]>
// CHECK-NEXT: return %[[OUT]]
sdy.mesh @m = <["a"=1, "b"=2]>
func.func @main(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"a", "b"}]>}, %arg1: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}], replicated={"b"}>}) -> tensor<4xf32> {
  %0 = stablehlo.add %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"a"}]>]>} : tensor<4xf32>
  %1 = sdy.manual_computation(%0) in_shardings=[<@m, [{"a", "b"}]>] out_shardings=[<@m, [{"a"}]>] manual_axes={"a"} (%arg2: tensor<4xf32>) {
    %2 = stablehlo.tanh %arg2 : tensor<4xf32>
    sdy.return %2 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// CHECK-LABEL: module
// CHECK-SAME: mhlo.num_partitions = 1 : i32
// CHECK-NEXT: sdy.mesh @m = <[]>
sdy.mesh @m = <["a"=1]>
func.func @main(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}]>}) -> tensor<4xf32> {
  return %arg0 : tensor<4xf32>
}

// -----

// Several meshes become one; the first that has parts for all axes stays.

// CHECK-LABEL: module
// CHECK-NEXT: sdy.mesh @m = <["x"=4, "y"=2]>
// CHECK-NOT: sdy.mesh
// CHECK: %arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"y"}, {}]>}
// CHECK-SAME: %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x", "y"}, {}]>}
// CHECK-SAME: %arg2: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x":(1)2}, {"y"}]>}
sdy.mesh @m = <["x"=4, "y"=2]>
sdy.mesh @n = <["b"=8]>
func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"y"}, {}]>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@n, [{"b"}, {}]>}, %arg2: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<mesh<["k"=2, "l"=2, "z"=2]>, [{"k"}, {"z"}]>}) -> tensor<8x8xf32> {
  return %arg0 : tensor<8x8xf32>
}

// -----

// A mesh written inline gets a name; the empty mesh takes any mesh's place; a mesh that nothing uses is no obstacle.

// CHECK-LABEL: module
// CHECK-NEXT: sdy.mesh @mesh = <["x"=4]>
// CHECK: %arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}
// CHECK-SAME: %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}
sdy.mesh @empty = <[]>
func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=4]>, [{"x"}]>}, %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@empty, [{}]>}) -> tensor<8xf32> {
  return %arg0 : tensor<8xf32>
}

// -----

// Without any annotation the program is for as many devices as it says.

// CHECK-LABEL: module
// CHECK-NEXT: sdy.mesh @mesh = <["devices"=4]>
module attributes {mhlo.num_partitions = 4 : i32} {
  func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
}

// -----

// Parts of an axis that adjoin once axes of size 1 have gone are one.

// CHECK-LABEL: module
// CHECK-NEXT: sdy.mesh @mesh = <["a"=4]>
// CHECK: %arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>}
sdy.mesh @mesh = <["one"=1, "another"=1, "a"=4]>
func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a":(1)2, "another", "a":(2)2, "one"}]>}) -> tensor<8xf32> {
  return %arg0 : tensor<8xf32>
}
