"""reduce_window: rules, what is communicated, and per-device results."""

from __future__ import annotations

import numpy as np
import pytest
from support.local_sent import check_what_is_sent, collectives, padding
from support.made_arrays import small_numbers
from support.single_op import MESHES, check, partition, rule_of

from gspmd.dialect.rule import print_rule


def reduce_window(
    shape: tuple[int, ...],
    result: tuple[int, ...],
    taps: tuple[int, ...],
    rest: str = "",
    reducer: str = "add",
    element: str = "f32",
) -> str:
    x, r = (f"tensor<{'x'.join(map(str, s))}x{element}>" for s in (shape, result))
    windows = f"window_dimensions = array<i64: {', '.join(map(str, taps))}>{', ' if rest else ''}{rest}"
    return f"""
func.func public @main(%x: {x}, %init: tensor<{element}>) -> {r} {{
  %0 = "stablehlo.reduce_window"(%x, %init) <{{{windows}}}> ({{
  ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
    %1 = stablehlo.{reducer} %a, %b : tensor<{element}>
    stablehlo.return %1 : tensor<{element}>
  }}) : ({x}, tensor<{element}>) -> {r}
  return %0 : {r}
}}
"""


def along(size: int, result: int, taps: int, rest: str = "", reducer: str = "add") -> str:
    """Windows of the second of two dimensions."""
    return reduce_window((3, size), (3, result), (1, taps), rest, reducer)


TWO_DILATED = "window_dilations = array<i64: 1, 2>"
TWO_SPREAD = "base_dilations = array<i64: 1, 2>"
STRIDE = "window_strides = array<i64: 1, {}>"
SPLIT = {
    "pooling": along(24, 12, 2, STRIDE.format(2), "maximum"),
    "same": along(17, 17, 3, padding(1, 1)),
    "causal": along(24, 24, 3, padding(2, 0), "maximum"),
    "dilated": along(33, 29, 3, TWO_DILATED),
    "spread": along(16, 32, 2, f"{TWO_SPREAD}, {padding(1, 1)}"),
    "spread into odd shards": along(13, 25, 3, f"{TWO_SPREAD}, {padding(1, 1)}"),
    "spread, strided and dilated": along(
        13, 12, 2, f"base_dilations = array<i64: 1, 3>, {TWO_DILATED}, {STRIDE.format(3)}, {padding(-1, 1)}"
    ),
    "strided": along(31, 11, 3, f"{STRIDE.format(3)}, {padding(1, 1)}"),
    "apart": along(31, 8, 1, STRIDE.format(4)),
    "cut": along(17, 12, 2, padding(-3, -1)),
    "most of a dimension": along(16, 5, 12),
    "beyond neighbours": along(9, 9, 7, padding(3, 3)),
    "smaller than the axis": along(3, 3, 3, padding(1, 1)),
    "made from one element": along(1, 5, 3, padding(3, 3)),
    "running": along(17, 17, 17, padding(16, 0)),
    "running back": along(16, 16, 16, padding(0, 15)),
    "running maximum": along(16, 16, 16, padding(15, 0), "maximum"),
    "running, without the last": along(17, 17, 17, padding(17, -1)),
    "running back, without the first": along(13, 13, 13, padding(-1, 13)),
    "running in steps": along(16, 8, 16, f"{padding(14, 0)}, {STRIDE.format(2)}"),
    "running ahead": along(16, 16, 19, padding(15, 3), "maximum"),
    "running over few": along(3, 3, 3, padding(2, 0)),
    "one window": along(17, 1, 17),
    "one window of some": along(17, 1, 5, f"{TWO_DILATED}, {padding(-2, -6)}"),
    "one window of spread elements": along(
        16, 1, 11, f"base_dilations = array<i64: 1, 3>, {TWO_DILATED}, {padding(1, -26)}", "maximum"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SPLIT)
def test_a_split_dimension(case: str) -> None:
    text = SPLIT[case]
    size = int(text.split("tensor<3x")[1].split("x")[0])
    init = np.float32(0 if "stablehlo.add" in text else -np.inf)
    meshes = ("8", "3x2") if case in ("same", "running", "spread into odd shards") else ("3x2",)
    for mesh in meshes:
        check(text, [small_numbers((3, size)) - 4, init], MESHES[mesh], count=1)


def test_rules() -> None:
    assert print_rule(rule_of(SPLIT["same"])) == "([i, j], [])->([i, j]) {i=3, j=17} permutation={j}"
    assert print_rule(rule_of(SPLIT["one window"])) == (
        "([i, j], [])->([i, k]) {i=3, j=17, k=1} reduction={j} need_replication={k}"
    )
    assert print_rule(rule_of(BODY)) == (
        "([i, j, k], [])->([i, j, l]) {i=3, j=5, k=17, l=1} need_replication={l} permutation={k}"
    )


BODY = reduce_window((3, 5, 17), (3, 5, 1), (1, 1, 17)).replace(
    "%1 = stablehlo.add %a, %b : tensor<f32>\n    stablehlo.return %1",
    "%1 = stablehlo.add %a, %b : tensor<f32>\n    %2 = stablehlo.maximum %1, %a : tensor<f32>\n"
    "    %3 = stablehlo.maximum %2, %b : tensor<f32>\n    stablehlo.return %3",
)


def test_reducers_that_are_not_known() -> None:
    """Of numbers that are not negative this is a sum."""
    check(BODY, [small_numbers((3, 5, 17)), np.float32(0)], MESHES["3x2"], count=1)
    windows = BODY.replace("array<i64: 1, 1, 17>", "array<i64: 1, 2, 9>").replace("3x5x1xf32", "3x4x9xf32")
    check(windows, [small_numbers((3, 5, 17)), np.float32(0)], MESHES["3x2"], count=1)


def test_initial_values_that_are_no_identities_count_once() -> None:
    """As in XLA, which leaves out what is outside; but of long running sums it makes parts, and counts them in each."""
    for text, size in (
        (SPLIT["same"], 17),
        (SPLIT["running over few"], 3),
        (SPLIT["one window"], 17),
        (SPLIT["spread"], 16),
    ):
        check(text, [small_numbers((3, size)), np.float32(5)], MESHES["3x2"], count=1)


def test_several_dimensions() -> None:
    text = reduce_window(
        (9, 13),
        (9, 6),
        (9, 4),
        "window_strides = array<i64: 1, 2>, padding = dense<[[8, 0], [1, 1]]> : tensor<2x2xi64>",
    )
    check(text, [small_numbers((9, 13)), np.float32(0)], MESHES["3x2"], count=4)
    check(text, [small_numbers((9, 13)), np.float32(0)], MESHES["2x2x2"], count=4)


def test_integers_and_booleans() -> None:
    for element, dtype, reducer, init in (
        ("i8", np.int8, "minimum", 127), ("i32", np.int32, "xor", 0), ("i1", np.bool_, "and", True),
    ):  # fmt: skip
        text = reduce_window((3, 13), (3, 13), (1, 3), padding(1, 1), reducer, element)
        values = np.random.default_rng(3).integers(0, 2, (3, 13)).astype(dtype)
        check(text, [values, np.array(init, dtype)], MESHES["3x2"], count=1)


def test_windows_side_by_side_are_local() -> None:
    assert collectives(along(48, 24, 2, STRIDE.format(2))) == []
    assert collectives(along(48, 16, 3, STRIDE.format(3))) == []


def test_neighbours_give_what_windows_overlap() -> None:
    assert collectives(along(48, 48, 3, padding(1, 1))) == ["collective_permute"] * 2
    assert collectives(along(48, 48, 3, padding(2, 0))) == ["collective_permute"]


@pytest.mark.parametrize("case", ["running", "running back"])
def test_running_sums_gather_the_totals_of_shards(case: str) -> None:
    text = SPLIT["running"] if case == "running" else SPLIT["running back"]
    assert collectives(text) == ["all_gather"]
    (factor,) = rule_of(text).operands[0][1]
    module = partition(text, MESHES["8"], {factor: MESHES["8"].all_axes()})
    assert "(tensor<3x1xf32>) -> tensor<3x8xf32>" in module


def test_one_window_needs_its_partial_results() -> None:
    assert collectives(SPLIT["one window"]) == ["all_reduce"]
    assert collectives(BODY, dim=2) == ["all_gather"]


def test_what_is_sent_is_priced() -> None:
    for text in SPLIT.values():
        check_what_is_sent(text)
