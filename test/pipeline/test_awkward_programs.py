"""Small programs that are easily partitioned wrongly, compared with one device."""

from __future__ import annotations

import pytest

import gspmd

PROGRAMS = {
    "the largest of what only some devices hold, unused": """
sdy.mesh @mesh = <["x"=2, "y"=4], device_ids=[1, 5, 6, 7, 3, 4, 2, 0]>
func.func public @main(%a0: tensor<3x7x5xf32>, %a1: tensor<i32> {sdy.sharding = #sdy.sharding<@mesh, []>},
      %a2: tensor<i32> {sdy.sharding = #sdy.sharding<@mesh, []>},
      %a3: tensor<3xi64> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>},
      %a7: tensor<i32> {sdy.sharding = #sdy.sharding<@mesh, []>}) -> (tensor<3x5xf32>, tensor<4x4x5xf32>,
      tensor<0x0x5xi32>) {
  %v0 = stablehlo.constant dense<0.0> : tensor<f32>
  %v1 = "stablehlo.reduce"(%a0, %v0) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %c = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) {dimensions = array<i64: 1>} : (tensor<3x7x5xf32>, tensor<f32>) -> (tensor<3x5xf32>)
  %v2 = "stablehlo.dynamic_update_slice"(%v1, %v1, %a1, %a2) {sdy.sharding = #sdy.sharding_per_value<[<@mesh,
      [{"x"}, {"y"}]>]>} : (tensor<3x5xf32>, tensor<3x5xf32>, tensor<i32>, tensor<i32>) -> (tensor<3x5xf32>)
  %v3 = stablehlo.constant dense<0.0> : tensor<f32>
  %v4 = "stablehlo.pad"(%a0, %v3) {edge_padding_low = array<i64: 0, 0, 0>, edge_padding_high = array<i64: 1,
      -3, -2>, interior_padding = array<i64: 0, 0, 0>, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{},
      {"x"}, {}]>]>} : (tensor<3x7x5xf32>, tensor<f32>) -> (tensor<4x4x3xf32>)
  %v5 = stablehlo.constant dense<0.0> : tensor<f32>
  %v6 = "stablehlo.pad"(%a0, %v5) {edge_padding_low = array<i64: 0, 0, 0>, edge_padding_high = array<i64: 1,
      -4, 0>, interior_padding = array<i64: 0, 0, 0>} : (tensor<3x7x5xf32>, tensor<f32>) -> (tensor<4x3x5xf32>)
  %v7 = "chlo.ragged_dot"(%v4, %v6,
      %a3) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0],
      rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1],
      lhs_ragged_dimensions = [0], rhs_group_dimensions = []>} : (tensor<4x4x3xf32>, tensor<4x3x5xf32>,
      tensor<3xi64>) -> (tensor<4x4x5xf32>)
  %v15:2 = "chlo.top_k"(%v6) {k = 2 : i64} : (tensor<4x3x5xf32>) -> (tensor<4x3x2xf32>, tensor<4x3x2xi32>)
  %v16 = stablehlo.constant dense<0.0> : tensor<f32>
  %v17 = stablehlo.constant dense<-2147483648> : tensor<i32>
  %v18:2 = "stablehlo.reduce_window"(%v15#0, %v15#1, %v16, %v17) ({
  ^bb0(%p: tensor<f32>, %q: tensor<i32>, %u: tensor<f32>, %v: tensor<i32>):
    %c = stablehlo.add %p, %u : tensor<f32>
    %d = stablehlo.maximum %q, %v : tensor<i32>
    stablehlo.return %c, %d : tensor<f32>, tensor<i32>
  }) {window_dimensions = array<i64: 3, 4, 3>, window_strides = array<i64: 2, 1, 2>, padding = dense<[[2, 0],
      [0, -1], [-1, 0]]> : tensor<3x2xi64>, base_dilations = array<i64: 3, 1, 3>,
      window_dilations = array<i64: 1, 2, 2>, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}, {}]>,
      <@mesh, [{?}, {"y":(2)2}, {"x", "y":(1)2}]>]>} : (tensor<4x3x2xf32>, tensor<4x3x2xi32>, tensor<f32>,
      tensor<i32>) -> (tensor<5x0x0xf32>, tensor<5x0x0xi32>)
  %v19 = "stablehlo.reshape"(%v18#1) {} : (tensor<5x0x0xi32>) -> (tensor<0x0x5xi32>)
  %v27 = "stablehlo.case"(%a7) ({
    %t = stablehlo.add %v7, %v7 : tensor<4x4x5xf32>
    stablehlo.return %t : tensor<4x4x5xf32>
  }, {
    %t = stablehlo.multiply %v7, %v7 : tensor<4x4x5xf32>
    stablehlo.return %t : tensor<4x4x5xf32>
  }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {?}, {?}]>]>} : (tensor<i32>) -> (tensor<4x4x5xf32>)
  return %v2, %v27, %v19 : tensor<3x5xf32>, tensor<4x4x5xf32>, tensor<0x0x5xi32>
}
""",
    "no elements, moved and shifted": """
sdy.mesh @mesh = <["x"=2, "y"=3]>
func.func public @main(%a: tensor<4x0xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>})
    -> (tensor<4x0xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}) {
  %0 = stablehlo.reverse %a, dims = [1] : tensor<4x0xf32>
  return %0 : tensor<4x0xf32>
}
""",
    "a contraction of nothing": """
sdy.mesh @mesh = <["x"=3]>
func.func public @main(%a: tensor<0xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
                       %b: tensor<0x4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0]
    : (tensor<0xcomplex<f32>>, tensor<0x4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>
}
""",
    "a scatter of one row into shards that were just cut": """
sdy.mesh @mesh = <["x"=2, "y"=2, "z"=2]>
func.func public @main(%a0: tensor<8xf32>, %a1: tensor<1xf32>) -> (tensor<8xf32>) {
  %1 = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.pad %a1, %1, low = [0], high = [7], interior = [0]
    {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}]>]>} : (tensor<1xf32>, tensor<f32>) -> tensor<8xf32>
  %4 = stablehlo.reverse %a0, dims = [0] : tensor<8xf32>
  %7 = stablehlo.iota dim = 0 : tensor<1x1xi32>
  %8 = stablehlo.constant dense<0.0> : tensor<f32>
  %9 = stablehlo.pad %4, %8, low = [0], high = [-7], interior = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<1xf32>
  %10 = "stablehlo.scatter"(%2, %7, %9) <{
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [], inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %z = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %z : tensor<f32>
  }) : (tensor<8xf32>, tensor<1x1xi32>, tensor<1xf32>) -> tensor<8xf32>
  return %10 : tensor<8xf32>
}
""",
    "an update of one element of shards that were just cut": """
sdy.mesh @mesh = <["x"=2, "y"=3]>
func.func public @main(%a: tensor<30xf32>, %b: tensor<1xf32>) -> tensor<30xf32> {
  %0 = stablehlo.constant dense<26> : tensor<i32>
  %1 = stablehlo.add %a, %a : tensor<30xf32>
  %2 = stablehlo.dynamic_update_slice %1, %b, %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}]>]>}
    : (tensor<30xf32>, tensor<1xf32>, tensor<i32>) -> tensor<30xf32>
  return %2 : tensor<30xf32>
}
""",
    "shards of a slice of several elements that starts out of range": """
sdy.mesh @mesh = <["x"=3]>
func.func public @main(%a: tensor<8x8xf32>) -> (tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                                                tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %far = stablehlo.iota dim = 0 : tensor<8xi32>
  %0 = stablehlo.slice %far [7:8] : (tensor<8xi32>) -> tensor<1xi32>
  %1 = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<i32>
  %2 = stablehlo.dynamic_slice %a, %1, %1, sizes = [8, 6] : (tensor<8x8xf32>, tensor<i32>, tensor<i32>)
    -> tensor<8x6xf32>
  %3 = stablehlo.dynamic_slice %a, %1, %1, sizes = [1, 4] : (tensor<8x8xf32>, tensor<i32>, tensor<i32>)
    -> tensor<1x4xf32>
  %4 = sdy.sharding_constraint %3 <@mesh, [{}, {}]> : tensor<1x4xf32>
  %5 = stablehlo.reshape %4 : (tensor<1x4xf32>) -> tensor<4xf32>
  return %2, %5 : tensor<8x6xf32>, tensor<4xf32>
}
""",
    "shards of a look-up of one window that starts out of range": """
sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<8x8xf32>, %i: tensor<2xi32>)
    -> (tensor<2x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
  %far = stablehlo.constant dense<100> : tensor<2xi32>
  %0 = stablehlo.or %i, %far : tensor<2xi32>
  %1 = "stablehlo.gather"(%a, %0) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1],
    start_index_map = [0, 1], index_vector_dim = 0>, slice_sizes = array<i64: 2, 4>}>
    : (tensor<8x8xf32>, tensor<2xi32>) -> tensor<2x4xf32>
  %2 = sdy.sharding_constraint %1 <@mesh, [{}, {}]> : tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}
""",
    "a dimension of one element split by an all-to-all, of a transpose that moves nothing": """
sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<1x1x7x8xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {"x"}]>})
    -> (tensor<8x1x7x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}, {}]>}) {
  %0 = stablehlo.transpose %a, dims = [3, 0, 2, 1] : (tensor<1x1x7x8xi32>) -> tensor<8x1x7x1xi32>
  return %0 : tensor<8x1x7x1xi32>
}
""",
    "a few elements over many devices, where nothing has to move": """
sdy.mesh @mesh = <["x"=2, "z"=2, "w"=2]>
func.func public @main(%a: tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"w"}]>})
    -> (tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"z", "x", "w"}]>}, tensor<5xf32>) {
  %b = stablehlo.negate %a : tensor<2xf32>
  %2 = sdy.sharding_constraint %b <@mesh, [{"z", "x", "w"}]> : tensor<2xf32>
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.pad %b, %0, low = [0], high = [3], interior = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<5xf32>
  return %2, %1 : tensor<2xf32>, tensor<5xf32>
}
""",
    "a sum that starts from 1.5, with one element or none on each device": """
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func public @main(%a: tensor<6x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}) -> tensor<6xf32> {
  %init = stablehlo.constant dense<1.5> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %init) applies stablehlo.add across dimensions = [1]
    : (tensor<6x3xf32>, tensor<f32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
""",
    "a product that starts from an argument": """
sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %init: tensor<f32>)
    -> tensor<f32> {
  %0 = stablehlo.reduce(%a init: %init) applies stablehlo.multiply across dimensions = [0]
    : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
""",
    "a maximum that starts above its elements": """
sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<2xf32> {
  %init = stablehlo.constant dense<5.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %init) applies stablehlo.maximum across dimensions = [1]
    : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
""",
    "a look-up in a split table of one row": """
sdy.mesh @mesh = <["x"=8]>
func.func public @main(%a: tensor<1xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<3xf32> {
  %i = stablehlo.constant dense<[[1], [-1], [0]]> : tensor<3x1xi32>
  %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}>
    : (tensor<1xf32>, tensor<3x1xi32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
""",
    "parts of one axis that cannot both be factors, given to one tensor by two users": """
sdy.mesh @mesh = <["x"=6]>
func.func public @main(%a: tensor<6x6xf32>,
                       %b: tensor<6x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {?}]>},
                       %c: tensor<6x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"x":(3)2}]>})
    -> (tensor<6x6xf32>, tensor<6x6xf32>) {
  %0 = stablehlo.add %a, %b : tensor<6x6xf32>
  %1 = stablehlo.multiply %a, %c : tensor<6x6xf32>
  return %0, %1 : tensor<6x6xf32>, tensor<6x6xf32>
}
""",
    "parts of one axis that cannot both be factors, on an operand and on a result": """
sdy.mesh @mesh = <["x"=6]>
func.func public @main(%a: tensor<6x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {}]>})
    -> (tensor<6x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x":(3)2}]>}) {
  %0 = stablehlo.sine %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x":(3)2}]>]>} : tensor<6x6xf32>
  return %0 : tensor<6x6xf32>
}
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_partitioned_program_gives_the_same(name: str) -> None:
    report = gspmd.check(PROGRAMS[name])
    assert report, [(r.index, r.reason) for r in report.results]
