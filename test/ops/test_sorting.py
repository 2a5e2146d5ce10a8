"""sort and top_k: rules and per-device results."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from support.made_arrays import table
from support.single_op import MESHES, Array, check, partition, rule_of

import gspmd
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
        "([i, j, k], [i, j, k])->([i, j, k], [i, j, k]) {i=7, j=10, k=3} permutation={j}"
    )


@pytest.mark.parametrize("mesh", MESHES)
def test_sort(mesh: str) -> None:
    values = np.round(table((7, 10, 3)) * 2)
    check(SORT, [values, np.arange(210, dtype=np.int32).reshape(7, 10, 3)], MESHES[mesh])


def sort(size: int, elements: str, comparison: str) -> str:
    """Of a list of each element type; the body compares a0 with b0."""
    kinds = elements.split()
    types = ", ".join(f"tensor<{size}x{kind}>" for kind in kinds)
    inner = ", ".join(f"%a{i}: tensor<{kind}>, %b{i}: tensor<{kind}>" for i, kind in enumerate(kinds))
    return f"""
func.func public @main({", ".join(f"%x{i}: tensor<{size}x{kind}>" for i, kind in enumerate(kinds))}) -> ({types}) {{
  %0:{len(kinds)} = "stablehlo.sort"({", ".join(f"%x{i}" for i in range(len(kinds)))}) <{{
    dimension = 0 : i64, is_stable = true
  }}> ({{
  ^bb0({inner}):
    %c = stablehlo.compare {comparison} : (tensor<{kinds[0]}>, tensor<{kinds[0]}>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }}) : ({types}) -> ({types})
  return {", ".join(f"%0#{i}" for i in range(len(kinds)))} : {types}
}}
"""


def awkward(size: int) -> Array:
    """Many ties, NaN and zeros of both signs, infinities."""
    values = np.random.default_rng(size).integers(-4, 5, size).astype(np.float32)
    values[::7], values[1::11], values[2::13], values[3::17] = np.nan, -0.0, -np.float32(np.nan), -np.inf
    return values


@pytest.mark.parametrize("comparison", ["GT, %a0, %b0, TOTALORDER", "LT, %a0, %b0, FLOAT"])
@pytest.mark.parametrize("size", [31, 800, 803])
def test_a_split_dimension_is_sorted_stably(size: int, comparison: str) -> None:
    inputs = [awkward(size), np.arange(size, dtype=np.int32)]
    for mesh in ("8", "3x2"):
        check(sort(size, "f32 i32", comparison), inputs, MESHES[mesh], count=1)


@pytest.mark.parametrize("element", ["i32", "ui8", "i1"])
def test_keys_alone(element: str) -> None:
    dtype = {"i32": np.int32, "ui8": np.uint8, "i1": np.bool_}[element]
    values = np.random.default_rng(0).integers(0, 2 if element == "i1" else 200, 824)
    for size in (824, 823):
        text = sort(size, element, f"GT, %a0, %b0, {'SIGNED' if element == 'i32' else 'UNSIGNED'}")
        check(text, [values[:size].astype(dtype)], MESHES["8"], count=1)


def test_what_sorting_sends() -> None:
    """Three shards of the keys alone; with an index three of each; everything to everyone where shards are small."""
    axes = MESHES["8"].all_axes()
    alone = partition(sort(8192, "i32", "LT, %a0, %b0, SIGNED"), MESHES["8"], {0: axes})
    assert re.findall(r'"stablehlo\.(all_\w+|collective_\w+)"', alone) == [
        "all_to_all", "all_to_all", "collective_permute", "collective_permute",
    ]  # fmt: skip
    assert "tensor<512xi32>) -> tensor<512xi32>" in alone
    pairs = partition(sort(8192, "f32 i32", "LT, %a0, %b0, TOTALORDER"), MESHES["8"], {0: axes})
    assert pairs.count('"stablehlo.all_to_all"') == 6
    for text in (sort(80, "i32", "LT, %a0, %b0, SIGNED"), sort(8192, "f32", "LT, %a0, %b0, FLOAT")):
        assert '"stablehlo.all_gather"' in partition(text, MESHES["8"], {0: axes})


def test_a_batch_takes_the_axes_of_the_sorted_dimension() -> None:
    """Also one that they do not divide, where that is cheaper."""
    text = SORT.replace("7x10x3", "7x4096x3")
    for argument in ("%x: tensor<7x4096x3xf32>", "%y: tensor<7x4096x3xi32>"):
        text = text.replace(argument, f"{argument} {{split}}")
    split = '{sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}'
    module = gspmd.partition('sdy.mesh @mesh = <["x"=8]>\n' + text.replace("{split}", split)).module_text
    kinds = re.findall(r'"stablehlo\.(all_\w+|collective_\w+)"', module)
    assert kinds == ["all_to_all"] * 4


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


@pytest.mark.parametrize("element", ["i32", "ui8", "bf16", "f8E5M2"])
def test_top_k_of_element_types(element: str) -> None:
    text = TOP_K.replace("xf32>", f"x{element}>")
    values = np.random.default_rng(0).integers(0, 9, (7, 5, 10))
    dtype = {
        "i32": np.dtype(np.int32),
        "ui8": np.dtype(np.uint8),
        "bf16": np.dtype(ml_dtypes.bfloat16),
        "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    }[element]
    check(text, [values.astype(dtype)], MESHES["4x2"])
