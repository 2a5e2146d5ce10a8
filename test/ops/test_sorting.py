"""sort and top_k: rules and per-device results."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from single_op import MESHES, check, rule_of
from test_gather import table

from gspmd.dialect.rule import print_rule

SORT = """
func.func public @main(%x: tensor<7x10x3xf32>, %y: tensor<7x10x3xi32>) -> (tensor<7x10x3xf32>, tensor<7x10x3xi32>) {
  %0:2 = "stablehlo.sort"(%x, %y) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %1 = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<7x10x3xf32>, tensor<7x10x3xi32>) -> (tensor<7x10x3xf32>, tensor<7x10x3xi32>)
  return %0#0, %0#1 : tensor<7x10x3xf32>, tensor<7x10x3xi32>
}
"""
TOP_K = """
func.func public @main(%x: tensor<7x5x10xf32>) -> (tensor<7x5x3xf32>, tensor<7x5x3xi32>) {
  %0:2 = chlo.top_k(%x, k = 3) : tensor<7x5x10xf32> -> (tensor<7x5x3xf32>, tensor<7x5x3xi32>)
  return %0#0, %0#1 : tensor<7x5x3xf32>, tensor<7x5x3xi32>
}
"""


def test_rules() -> None:
    assert print_rule(rule_of(SORT)) == (
        "([i, j, k], [i, j, k])->([i, j, k], [i, j, k]) {i=7, j=10, k=3} need_replication={j}"
    )


@pytest.mark.parametrize("mesh", MESHES)
def test_sort(mesh: str) -> None:
    values = np.round(table((7, 10, 3)) * 2)
    check(SORT, [values, np.arange(210, dtype=np.int32).reshape(7, 10, 3)], MESHES[mesh])


@pytest.mark.parametrize("mesh", MESHES)
def test_top_k(mesh: str) -> None:
    check(TOP_K, [np.round(table((7, 5, 10)) * 2)], MESHES[mesh])


def test_top_k_of_a_split_dimension_follows_the_total_order() -> None:
    """NaN of both signs, infinities, zeros of both signs and ties; more results than a shard has elements."""
    values = np.array([0.0, -0.0, 1.0, 1.0, np.inf, -np.inf, -np.inf, 2.0, 0.0, 1.0, -3.0], np.float32)
    values = np.stack([values, np.roll(values, 4), np.full(11, -np.inf, np.float32)])
    values[0, 3], values[1, 7] = np.nan, -np.float32(np.nan)
    for k in (1, 2, 11):
        text = f"""
func.func public @main(%x: tensor<3x11xf32>) -> (tensor<3x{k}xf32>, tensor<3x{k}xi32>) {{
  %0:2 = chlo.top_k(%x, k = {k}) : tensor<3x11xf32> -> (tensor<3x{k}xf32>, tensor<3x{k}xi32>)
  return %0#0, %0#1 : tensor<3x{k}xf32>, tensor<3x{k}xi32>
}}
"""
        for mesh in (MESHES["8"], MESHES["2x2x2"], MESHES["3x2"]):
            check(text, [values], mesh, count=1)


@pytest.mark.parametrize("element", ["i32", "ui8", "bf16"])
def test_top_k_of_element_types(element: str) -> None:
    text = TOP_K.replace("xf32>", f"x{element}>")
    values = np.random.default_rng(0).integers(0, 9, (7, 5, 10))
    dtype = {"i32": np.dtype(np.int32), "ui8": np.dtype(np.uint8), "bf16": np.dtype(ml_dtypes.bfloat16)}[element]
    check(text, [values.astype(dtype)], MESHES["4x2"])
