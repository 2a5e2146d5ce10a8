// RUN: gspmd-opt %s --gspmd-ingest --split-input-file --verify-diagnostics | FileCheck %s

// Frameworks write one partition for programs that say nothing; the mesh, or what shardings say, counts.

// CHECK-LABEL: module
// CHECK-SAME: mhlo.num_partitions = 8 : i32
// CHECK-NEXT: sdy.mesh @mesh = <["x"=8]>
// CHECK: stablehlo.tanh %arg0 {gspmd.annotated, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>}
module attributes {mhlo.num_partitions = 1 : i32} {
  sdy.mesh @mesh = <["x"=8]>
  func.func @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<16xf32> {
    %0 = stablehlo.tanh %a {mhlo.sharding = "{devices=[8]<=[8]}"} : tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}

// -----

// CHECK-LABEL: module
// CHECK-SAME: mhlo.num_partitions = 8 : i32
module attributes {mhlo.num_partitions = 1 : i32} {
  func.func @main(%a: tensor<16xf32> {mhlo.sharding = "{devices=[8]<=[8]}"}) -> tensor<16xf32> {
    return %a : tensor<16xf32>
  }
}

// -----

module attributes {mhlo.num_partitions = 2 : i32} {
  // expected-error @+1 {{'sdy.mesh' op mesh "@mesh" has 8 devices but 'mhlo.num_partitions' is 2; make them agree}}
  sdy.mesh @mesh = <["x"=8]>
  func.func @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<16xf32> {
    return %a : tensor<16xf32>
  }
}
