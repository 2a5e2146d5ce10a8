"""Reductions that sum up in a wider type than their operands have: as if these had been converted before."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import gspmd

ADD = """
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %sum = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %sum : tensor<f32>
"""
REDUCE = f"""
func.func public @main(%x: tensor<7x5xbf16>, %i: tensor<bf16>) -> tensor<5xf32> {{
  %0 = "stablehlo.reduce"(%x, %i) ({{{ADD}  }}) {{dimensions = array<i64: 0>}}
    : (tensor<7x5xbf16>, tensor<bf16>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}}
"""
REDUCE_WINDOW = f"""
func.func public @main(%x: tensor<7x5xbf16>, %i: tensor<bf16>) -> tensor<7x5xf32> {{
  %0 = "stablehlo.reduce_window"(%x, %i) ({{{ADD}  }}) {{
    window_dimensions = array<i64: 3, 1>, padding = dense<[[1, 1], [0, 0]]> : tensor<2x2xi64>
  }} : (tensor<7x5xbf16>, tensor<bf16>) -> tensor<7x5xf32>
  return %0 : tensor<7x5xf32>
}}
"""
SELECT_AND_SCATTER = f"""
func.func public @main(%x: tensor<8x5xbf16>, %s: tensor<4x5xbf16>) -> tensor<8x5xf32> {{
  %i = stablehlo.constant dense<0.0> : tensor<bf16>
  %0 = "stablehlo.select_and_scatter"(%x, %s, %i) ({{
  ^bb0(%p: tensor<bf16>, %q: tensor<bf16>):
    %more = stablehlo.compare GE, %p, %q : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  }}, {{{ADD}  }}) {{window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 2, 1>}}
    : (tensor<8x5xbf16>, tensor<4x5xbf16>, tensor<bf16>) -> tensor<8x5xf32>
  return %0 : tensor<8x5xf32>
}}
"""
SCATTER = f"""
func.func public @main(%x: tensor<7x5xbf16>, %s: tensor<3x5xbf16>) -> tensor<7x5xf32> {{
  %i = stablehlo.constant dense<[[1], [6], [1]]> : tensor<3x1xi32>
  %0 = "stablehlo.scatter"(%x, %i, %s) ({{{ADD}  }}) {{
    scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
  }} : (tensor<7x5xbf16>, tensor<3x1xi32>, tensor<3x5xbf16>) -> tensor<7x5xf32>
  return %0 : tensor<7x5xf32>
}}
"""
LARGEST = """
sdy.mesh @mesh = <["x"=4]>
func.func public @main(
    %a: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
    %b: tensor<6xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<f32>, tensor<i64>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %0:2 = stablehlo.reduce(%a init: %low), (%b init: %zero) across dimensions = [0]
    : (tensor<6xf32>, tensor<6xi32>, tensor<f32>, tensor<i64>) -> (tensor<f32>, tensor<i64>)
   reducer(%v: tensor<f32>, %w: tensor<f32>) (%i: tensor<i64>, %j: tensor<i64>) {
    %g = stablehlo.compare GT, %v, %w : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %m = stablehlo.select %g, %v, %w : tensor<i1>, tensor<f32>
    %k = stablehlo.select %g, %i, %j : tensor<i1>, tensor<i64>
    stablehlo.return %m, %k : tensor<f32>, tensor<i64>
  }
  return %0#0, %0#1 : tensor<f32>, tensor<i64>
}
"""


@pytest.mark.parametrize("split", ['{"x"}, {}', '{}, {"x"}', '{"x"}, {"y"}'])
@pytest.mark.parametrize(
    ("program", "shapes"),
    [
        (REDUCE, [(7, 5), ()]),
        (REDUCE_WINDOW, [(7, 5), ()]),
        (SELECT_AND_SCATTER, [(8, 5), (4, 5)]),
        (SCATTER, [(7, 5), (3, 5)]),
    ],
    ids=["reduce", "reduce_window", "select_and_scatter", "scatter"],
)
def test_sums_are_wide(program: str, shapes: list[tuple[int, ...]], split: str) -> None:
    """Of these numbers a sum in bf16 would be another."""
    rng = np.random.default_rng(0)
    inputs = [rng.choice([256, 1, 3], shape).astype(ml_dtypes.bfloat16) for shape in shapes]
    said = f"xbf16> {{sdy.sharding = #sdy.sharding<@mesh, [{split}]>}},"
    text = 'sdy.mesh @mesh = <["x"=3, "y"=2]>' + program.replace("xbf16>,", said, 1)
    report = gspmd.check(text, inputs=inputs, rtol=1e-6)
    assert report, str(report)


def test_one_of_several_operands_is_widened() -> None:
    assert gspmd.check(LARGEST)
