"""gather: rules and per-device results."""

from __future__ import annotations

import numpy as np
import pytest
from support.made_arrays import indices, table
from support.single_op import MESHES, check, rule_of

from gspmd.dialect.rule import print_rule


def gather(
    operand: str, indices: str, result: str, sizes: list[int], vector_dim: int, dims: str, is_sorted: bool = False
) -> str:
    return f"""
func.func public @main(%operand: tensor<{operand}>, %indices: tensor<{indices}>) -> tensor<{result}> {{
  %0 = "stablehlo.gather"(%operand, %indices) <{{
    dimension_numbers = #stablehlo.gather<{dims}, index_vector_dim = {vector_dim}>,
    slice_sizes = array<i64: {", ".join(map(str, sizes))}>, indices_are_sorted = {str(is_sorted).lower()}
  }}> : (tensor<{operand}>, tensor<{indices}>) -> tensor<{result}>
  return %0 : tensor<{result}>
}}
"""


ROWS = "offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0]"


def embedding(element: str = "f32", index: str = "i32", rows: int = 14, is_sorted: bool = False) -> str:
    return gather(f"{rows}x6x{element}", f"5x4x1x{index}", f"5x4x6x{element}", [1, 6], 2, ROWS, is_sorted)


def test_rule_of_an_embedding() -> None:
    assert print_rule(rule_of(embedding())) == (
        "([i, j], [k, l, m])->([k, l, j]) {i=14, j=6, k=5, l=4, m=1} reduction={i} need_replication={m}"
    )


def test_rule_of_a_boolean_look_up_combines_with_or() -> None:
    assert rule_of(embedding("i1")).combiner == "or"
    assert rule_of(embedding("f32")).combiner == "add"


def test_rule_of_partial_windows() -> None:
    """Each device finds the elements it holds; windows are split by themselves."""
    text = gather("14x6xf32", "5x2xi32", "5x3x1xf32", [3, 1], 1, "offset_dims = [1, 2], start_index_map = [0, 1]")
    assert print_rule(rule_of(text)) == (
        "([i, k], [m, n])->([m, j, l]) {i=14, j=3, k=6, l=1, m=5, n=2} reduction={i, k} need_replication={n}"
    )


def test_rule_of_batching_dimensions() -> None:
    assert print_rule(rule_of(TAKE_ALONG_AXIS)) == (
        "([i, j], [i, k, l])->([i, k]) {i=6, j=10, k=3, l=1} reduction={j} need_replication={l}"
    )


@pytest.mark.parametrize("mesh", MESHES)
def test_embedding(mesh: str) -> None:
    check(embedding(), [table((14, 6)), indices((5, 4, 1), 14)], MESHES[mesh])


@pytest.mark.parametrize("index", ["i8", "ui8", "ui32", "i64", "ui64"])
def test_index_types(index: str) -> None:
    dtype = np.dtype(index.replace("ui", "uint") if index.startswith("u") else index.replace("i", "int")).type
    check(embedding(index=index), [table((14, 6)), indices((5, 4, 1), 14, dtype)], MESHES["4x2"], count=2)


def test_indices_narrower_than_the_operand() -> None:
    rows = indices((5, 4, 1), 120, np.int8)
    check(embedding(index="i8", rows=300), [table((300, 6)), rows], MESHES["8"], count=2)


@pytest.mark.parametrize(
    ("element", "dtype"),
    [("i1", "bool"), ("i32", "int32"), ("ui8", "uint8"), ("f64", "float64"), ("complex<f32>", "complex64")],
)
def test_element_types(element: str, dtype: str) -> None:
    values = (table((14, 6)) * 10).astype(np.complex64) if dtype == "complex64" else np.arange(84).reshape(14, 6) * 7
    values = (values % 2 == 0) if dtype == "bool" else values.astype(dtype)
    check(embedding(element), [values, indices((5, 4, 1), 14)], MESHES["4x2"], count=3)


def test_sorted_indices_lose_the_promise_when_shifted() -> None:
    rows = np.sort(np.random.default_rng(0).integers(0, 14, (5, 4, 1)), axis=None).reshape(5, 4, 1).astype(np.int32)
    check(embedding(is_sorted=True), [table((14, 6)), rows], MESHES["2x2x2"])


def test_scalar_indices_without_vector_dimension() -> None:
    text = gather(
        "14x6xf32",
        "7xi32",
        "7x6xf32",
        [1, 6],
        1,
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0]",
    )
    check(text, [table((14, 6)), indices((7,), 14)], MESHES["4x2"])


TAKE_ALONG_AXIS = gather(
    "6x10xf32", "6x3x1xi32", "6x3xf32", [1, 1], 2,
    "collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1]",
)  # fmt: skip


@pytest.mark.parametrize("mesh", MESHES)
def test_take_along_axis(mesh: str) -> None:
    check(TAKE_ALONG_AXIS, [table((6, 10)), indices((6, 3, 1), 10)], MESHES[mesh])


@pytest.mark.parametrize("mesh", MESHES)
def test_two_indexed_dimensions_in_the_other_order(mesh: str) -> None:
    """Both split at once; index vectors come first, offsets in the middle, and the order of components is swapped."""
    text = gather(
        "9x5x7xf32", "2x6x3xi32", "6x5x3xf32", [1, 5, 1], 0,
        "offset_dims = [1], collapsed_slice_dims = [0, 2], start_index_map = [2, 0]",
    )  # fmt: skip
    rng = np.random.default_rng(2)
    rows = rng.integers(-2, 10, (2, 6, 3)).astype(np.int32)
    check(text, [table((9, 5, 7)), rows], MESHES[mesh], count=4)


def test_window_of_one_that_is_kept() -> None:
    text = gather("9x5xf32", "6x1xi32", "6x1x5xf32", [1, 5], 1, "offset_dims = [1, 2], start_index_map = [0]")
    check(text, [table((9, 5)), indices((6, 1), 9)], MESHES["4x2"])


def test_indexed_whole_and_partial_windows() -> None:
    """Dimension 0 is whole although indexed, dimension 1 is a partial window, dimension 2 is looked up."""
    text = gather(
        "8x5x6xf32", "4x3xi32", "4x8x2xf32", [8, 2, 1], 1,
        "offset_dims = [1, 2], collapsed_slice_dims = [2], start_index_map = [0, 1, 2]",
    )  # fmt: skip
    rows = np.random.default_rng(3).integers(-3, 8, (4, 3)).astype(np.int32)
    check(text, [table((8, 5, 6)), rows], MESHES["4x2"], count=4)


@pytest.mark.parametrize("mesh", MESHES)
def test_partial_windows_across_shards(mesh: str) -> None:
    """Of several dimensions; each is looked up where it is, and the result is split by itself."""
    text = gather("11x8xf32", "6x2xi32", "6x5x3xf32", [5, 3], 1, "offset_dims = [1, 2], start_index_map = [1, 0]")
    rows = np.random.default_rng(5).integers(-3, 12, (6, 2)).astype(np.int32)
    check(text, [table((11, 8)), rows], MESHES[mesh], count=6)


def test_partial_windows_without_indices() -> None:
    """They begin at 0; index vectors get a component, or a dimension."""
    text = gather("9x8xf32", "4xi32", "4x3x8xf32", [3, 8], 1, "offset_dims = [1, 2], start_index_map = [1]")
    check(text, [table((9, 8)), indices((4,), 8)], MESHES["4x2"])
