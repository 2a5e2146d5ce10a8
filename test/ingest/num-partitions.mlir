// RUN: gspmd-opt --gspmd-ingest=num-partitions=6 %s | FileCheck %s
// RUN: not gspmd-opt --gspmd-ingest=num-partitions=6 %S/Inputs/mesh-of-eight.mlir 2>&1 | FileCheck %s --check-prefix=MESH
// RUN: not gspmd-opt --gspmd-ingest=num-partitions=6 %S/Inputs/sharding-of-eight.mlir 2>&1 | FileCheck %s --check-prefix=SHARDING

// CHECK: module
// CHECK-SAME: mhlo.num_partitions = 6 : i32
// CHECK-NEXT: sdy.mesh @mesh = <["devices"=6]>
// MESH: mesh-of-eight.mlir:1:1: error: 'sdy.mesh' op mesh "@mesh" has 8 devices but option num-partitions is 6; make them agree
// SHARDING: sharding-of-eight.mlir:2:8: error: 'stablehlo.tanh' op 'mhlo.sharding' is of 8 devices but the program is for 6
module attributes {mhlo.num_partitions = 1 : i32} {
  func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
}
