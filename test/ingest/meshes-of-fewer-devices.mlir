// RUN: gspmd-opt %s --gspmd-ingest --split-input-file --verify-diagnostics | FileCheck %s

// A mesh of fewer devices is repeated: along the other axes where its own are known by name, or else by size.

// CHECK-LABEL: module
// CHECK-NEXT: sdy.mesh @m = <["x"=4, "y"=2]>
// CHECK: sdy.sharding_constraint %arg0 <@m, [{"x"}, {}]>
// CHECK-NEXT: sdy.sharding_constraint %{{.*}} <@m, [{"y"}, {}]>
// CHECK-NEXT: sdy.sharding_constraint %{{.*}} <@m, [{}, {"x"}]>
sdy.mesh @m = <["x"=4, "y"=2]>
sdy.mesh @n = <["u"=1, "x"=4]>
sdy.mesh @o = <["b"=2]>
sdy.mesh @p = <["c"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>}) -> tensor<8x8xf32> {
  // expected-remark @+1 {{'sdy.sharding_constraint' op uses a mesh of 4 devices in a program of 8; each 4 of them do the same}}
  %0 = sdy.sharding_constraint %a <@n, [{"u", "x"}, {}]> : tensor<8x8xf32>
  // expected-remark @+1 {{'sdy.sharding_constraint' op uses a mesh of 2 devices in a program of 8; each 2 of them do the same}}
  %1 = sdy.sharding_constraint %0 <@o, [{"b"}, {}]> : tensor<8x8xf32>
  // expected-remark @+1 {{'sdy.sharding_constraint' op uses a mesh of 4 devices}}
  %2 = sdy.sharding_constraint %1 <@p, [{}, {"c"}]> : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// -----

// Else its devices are those of each part of the program's, in their order, or in an order of its own.

// CHECK-LABEL: module
// CHECK-NEXT: sdy.mesh @m = <["x"=8]>
// CHECK: sdy.sharding_constraint %arg0 <@m, [{"x":(2)4}]>
// CHECK-NEXT: sdy.sharding_constraint %{{.*}} <@m, [{"x":(4)2, "x":(2)2}]>
sdy.mesh @m = <["x"=8]>
sdy.mesh @n = <["x"=4]>
sdy.mesh @o = <["x"=4], device_ids=[0, 2, 1, 3]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) -> tensor<8xf32> {
  // expected-remark @+1 {{uses a mesh}}
  %0 = sdy.sharding_constraint %a <@n, [{"x"}]> : tensor<8xf32>
  // expected-remark @+1 {{uses a mesh}}
  %1 = sdy.sharding_constraint %0 <@o, [{"x"}]> : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

// A mesh written in place, arguments and results, and what the module says to be for.

// CHECK-LABEL: module
// CHECK-SAME: mhlo.num_partitions = 8 : i32
// CHECK-NEXT: sdy.mesh @mesh = <["copies"=2, "x"=4]>
// CHECK-NEXT: func.func public @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
// CHECK-SAME: -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>})
module attributes {mhlo.num_partitions = 8 : i32} {
  // expected-remark @+1 {{'func.func' op uses a mesh of 4 devices in a program of 8}}
  func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=4]>, [{"x"}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=4]>, [{}]>}) {
    return %a : tensor<8xf32>
  }
}

// -----

// The body of a manual computation numbers the devices of its mesh; each of its groups is there for every copy.

// CHECK-LABEL: module
// CHECK: sdy.manual_computation(%arg0) in_shardings=[<@m, [{"x"}]>] out_shardings=[<@m, [{"x"}]>] manual_axes={"y", "x"}
// CHECK-NEXT: replica_groups = dense<{{\[\[}}0, 4], [2, 6], [1, 5], [3, 7]]>
// CHECK: source_target_pairs = dense<{{\[\[}}0, 2], [1, 3]]>
// CHECK: stablehlo.partition_id
// CHECK-NEXT: stablehlo.convert
// CHECK-NEXT: stablehlo.constant dense<[0, 0, 1, 1, 2, 2, 3, 3]>
sdy.mesh @m = <["x"=4, "y"=2]>
sdy.mesh @n = <["x"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}) -> tensor<8xf32> {
  // expected-remark @+1 {{uses a mesh}}
  %0 = sdy.manual_computation(%a) in_shardings=[<@n, [{"x"}]>] out_shardings=[<@n, [{"x"}]>] manual_axes={"x"} (%b: tensor<2xf32>) {
    %1 = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    %2 = "stablehlo.collective_permute"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2xf32>) -> tensor<2xf32>
    %3 = stablehlo.partition_id : tensor<ui32>
    %4 = stablehlo.convert %3 : (tensor<ui32>) -> tensor<f32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %6 = stablehlo.add %2, %5 : tensor<2xf32>
    sdy.return %6 : tensor<2xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// A data-flow edge may be over such a mesh, too.
// CHECK-LABEL: module @a_data_flow_edge
// CHECK: sdy.mesh @[[MESH:.*]] = <["a"=4, "b"=2]>
// CHECK: func.func public @main(%arg0: tensor<8x8xf32> {{.*}}[{"a"}, {}]>{{.*}}, %arg1: tensor<8x8xf32> {{.*}}[{"b"}, {}]>
// CHECK: sdy.sharding_constraint {{.*}} <@[[MESH]], [{}, {"b"}]>
module @a_data_flow_edge {
  sdy.mesh @big = <["a"=4, "b"=2]>
  sdy.mesh @small = <["c"=2]>
  // expected-remark @+1 {{'func.func' op uses a mesh of 2 devices in a program of 8; each 2 of them do the same}}
  func.func @main(
      %arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@big, [{"a"}, {}]>},
      %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@small, [{"c"}, {}]>}) -> tensor<8x8xf32> {
    %0 = stablehlo.optimization_barrier %arg0 : tensor<8x8xf32>
    %1 = sdy.data_flow_edge %0 sharding=<@small, [{}, {"c"}]> : tensor<8x8xf32>
    %2 = stablehlo.add %1, %arg1 : tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}
