"""dynamic_slice and dynamic_update_slice: rules and per-device results."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.made_arrays import table
from support.single_op import MESHES, Array, check, check_all, rule_of

from gspmd.dialect.rule import print_rule


def dynamic_slice(operand: str, result: str, element: str = "f32", index: str = "i32") -> str:
    shape, window = f"tensor<{operand}x{element}>", f"tensor<{result}x{element}>"
    rank = len(operand.split("x"))
    starts = [f"%start{i}" for i in range(rank)]
    types = [f"tensor<{index}>"] * rank
    return f"""
func.func public @main(%operand: {shape}, {", ".join(map(": ".join, zip(starts, types, strict=True)))}) -> {window} {{
  %0 = "stablehlo.dynamic_slice"(%operand, {", ".join(starts)}) <{{
    slice_sizes = array<i64: {result.replace("x", ", ")}>
  }}> : ({", ".join([shape, *types])}) -> {window}
  return %0 : {window}
}}
"""


def dynamic_update_slice(operand: str, update: str, element: str = "f32", index: str = "i32") -> str:
    shape, window = f"tensor<{operand}x{element}>", f"tensor<{update}x{element}>"
    rank = len(operand.split("x"))
    starts = [f"%start{i}" for i in range(rank)]
    types = [f"tensor<{index}>"] * rank
    arguments = ", ".join(map(": ".join, zip(starts, types, strict=True)))
    return f"""
func.func public @main(%operand: {shape}, %update: {window}, {arguments}) -> {shape} {{
  %0 = "stablehlo.dynamic_update_slice"(%operand, %update, {", ".join(starts)})
    : ({", ".join([shape, window, *types])}) -> {shape}
  return %0 : {shape}
}}
"""


def scalars(values: tuple[int, ...], dtype: str = "int32") -> list[Array]:
    return [np.array(value, dtype) for value in values]


def test_rules() -> None:
    assert print_rule(rule_of(dynamic_slice("10x4", "3x4"))) == (
        "([i, k], [], [])->([j, k]) {i=10, j=3, k=4} reduction={i}"
    )
    assert print_rule(rule_of(dynamic_update_slice("10x4", "3x4"))) == (
        "([i, j], [k, j], [], [])->([i, j]) {i=10, j=4, k=3} need_replication={k}"
    )


STARTS = [-(2**31), -1, 0, 1, 3, 6, 7, 8, 12, 2**31 - 1]


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("window", [1, 3, 9])
def test_dynamic_slice(mesh: str, window: int) -> None:
    text = dynamic_slice("10x4", f"{window}x4")
    check_all(text, [[table((10, 4)), *scalars((start, 17))] for start in STARTS], MESHES[mesh])


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("window", [1, 3, 9])
def test_dynamic_update_slice(mesh: str, window: int) -> None:
    text = dynamic_update_slice("10x4", f"{window}x4")
    update = table((window, 4), seed=1)
    check_all(text, [[table((10, 4)), update, *scalars((start, 17))] for start in STARTS], MESHES[mesh])


def test_two_sliced_dimensions() -> None:
    """One window of one element, one of several."""
    starts = [scalars(both) for both in itertools.product([0, 4, 99], [0, 3, 5, 99])]
    check_all(dynamic_slice("6x9", "1x4"), [[table((6, 9)), *some] for some in starts], MESHES["4x2"], count=8)
    cases = [[table((6, 9)), table((1, 4), seed=1), *some] for some in starts]
    check_all(dynamic_update_slice("6x9", "1x4"), cases, MESHES["4x2"], count=8)


@pytest.mark.parametrize(
    ("index", "start"),
    [("ui32", 2**32 - 1), ("ui8", 200), ("i8", -100), ("i64", -(2**63)), ("ui64", 2**64 - 1)],
)
def test_index_types(index: str, start: int) -> None:
    dtype = index.replace("ui", "uint") if index.startswith("u") else index.replace("i", "int")
    starts = scalars((start, 0), dtype)
    check(dynamic_slice("10x4", "1x4", index=index), [table((10, 4)), *starts], MESHES["8"])
    inputs = [table((10, 4)), table((3, 4)), *starts]
    check(dynamic_update_slice("10x4", "3x4", index=index), inputs, MESHES["8"])


@pytest.mark.parametrize(("element", "dtype"), [("i1", "bool"), ("i32", "int32"), ("complex<f32>", "complex64")])
def test_element_types(element: str, dtype: str) -> None:
    operand = np.arange(40).reshape(10, 4)
    operand = (operand % 3 == 0) if dtype == "bool" else operand.astype(dtype)
    starts = scalars((5, 0))
    for window in (1, 3):
        text = dynamic_slice("10x4", f"{window}x4", element)
        check(text, [operand, *starts], MESHES["3x2"])
        text = dynamic_update_slice("10x4", f"{window}x4", element)
        check(text, [operand, operand[:window], *starts], MESHES["3x2"])


def test_empty_windows() -> None:
    check(dynamic_slice("10x4", "0x3"), [table((10, 4)), *scalars((3, 1))], MESHES["4x2"])
    check(dynamic_update_slice("10x4", "0x3"), [table((10, 4)), table((0, 3)), *scalars((3, 1))], MESHES["4x2"])


@pytest.mark.parametrize("mesh", MESHES)
def test_a_split_result_takes_its_part_of_the_window(mesh: str) -> None:
    """Also along an axis of its own, while the operand is split too; parts may hang over the operand's end."""
    text = dynamic_slice("11x4", "7x4")
    check_all(text, [[table((11, 4)), *scalars((start, 17))] for start in STARTS[::3]], MESHES[mesh], count=8)
