"""sort and top_k: rules and per-device results."""

from __future__ import annotations

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
