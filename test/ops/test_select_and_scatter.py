"""select_and_scatter: the rule, what is communicated, and per-device results."""

from __future__ import annotations

import numpy as np
import pytest
from support.local_sent import check_what_is_sent, collectives, padding
from support.made_arrays import small_numbers
from support.single_op import MESHES, Array, check, check_all, rule_of

from gspmd.dialect.rule import print_rule


def select_and_scatter(
    size: int, count: int, taps: int, stride: int, padded: str = "", select: str = "GE", scatter: str = "add",
    element: str = "f32",
) -> str:  # fmt: skip
    """Windows of the second of two dimensions."""
    x, y, s = f"tensor<3x{size}x{element}>", f"tensor<3x{count}x{element}>", f"tensor<{element}>"
    return f"""
func.func public @main(%x: {x}, %y: {y}, %init: {s}) -> {x} {{
  %0 = "stablehlo.select_and_scatter"(%x, %y, %init) <{{window_dimensions = array<i64: 1, {taps}>,
    window_strides = array<i64: 1, {stride}>{", " if padded else ""}{padded}}}> ({{
  ^bb0(%a: {s}, %b: {s}):
    %1 = stablehlo.compare {select}, %a, %b : ({s}, {s}) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }}, {{
  ^bb0(%a: {s}, %b: {s}):
    %1 = stablehlo.{scatter} %a, %b : {s}
    stablehlo.return %1 : {s}
  }}) : ({x}, {y}, {s}) -> {x}
  return %0 : {x}
}}
"""


def inputs(text: str, dtype: str = "float32", init: float = 0) -> list[Array]:
    """Operands with many ties."""
    shapes = [tuple(map(int, part.split("x")[:2])) for part in text.split("tensor<")[1:3]]
    return [
        np.random.default_rng(2).integers(0, 3, shapes[0]).astype(dtype),
        small_numbers(shapes[1], dtype),
        np.array(init, dtype),
    ]


SPLIT = {
    "side by side": select_and_scatter(24, 12, 2, 2),
    "side by side, a rest": select_and_scatter(17, 5, 3, 3),
    "overlapping": select_and_scatter(24, 22, 3, 1),
    "overlapping in steps": select_and_scatter(25, 12, 3, 2),
    "same": select_and_scatter(17, 17, 3, 1, padding(1, 1)),
    "same in steps": select_and_scatter(24, 12, 3, 2, padding(0, 1)),
    "the last of ties": select_and_scatter(17, 18, 4, 1, padding(2, 2), "GT"),
    "smallest": select_and_scatter(17, 9, 4, 2, padding(2, 2), "LE"),
    "the last of the smallest": select_and_scatter(13, 7, 4, 2, padding(2, 2), "LT"),
    "apart": select_and_scatter(23, 6, 2, 4),
    "cut": select_and_scatter(19, 13, 3, 1, padding(-2, -2)),
    "most of a dimension": select_and_scatter(13, 4, 10, 1),
    "smaller than the axis": select_and_scatter(3, 3, 3, 1, padding(1, 1)),
    "all": select_and_scatter(13, 1, 13, 1),
    "single elements": select_and_scatter(13, 7, 1, 2),
    "by maximum": select_and_scatter(13, 13, 3, 1, padding(1, 1), scatter="maximum"),
}


@pytest.mark.parametrize("case", SPLIT)
def test_a_split_dimension(case: str) -> None:
    text = SPLIT[case]
    for mesh in ("8", "3x2") if case in ("same", "overlapping") else ("3x2",):
        check(text, inputs(text), MESHES[mesh], count=1)


def test_rule() -> None:
    assert print_rule(rule_of(SPLIT["same"])) == "([i, j], [i, j], [])->([i, j]) {i=3, j=17} permutation={j}"


@pytest.mark.parametrize(("select", "least"), [("GE", -np.inf), ("GT", -np.inf), ("LE", np.inf), ("LT", np.inf)])
def test_what_is_outside_is_never_selected(select: str, least: float) -> None:
    """Not even where all that is inside is the least there is."""
    text = select_and_scatter(13, 13, 4, 1, padding(2, 1), select)
    values = inputs(text)
    values[0][:, :3] = values[0][:, -3:] = least
    values[0][1, :2] = values[0][2, -2:] = np.nan
    check(text, values, MESHES["3x2"], count=0)
    text = select_and_scatter(13, 13, 4, 1, padding(2, 1), select, element="i8")
    values = inputs(text, "int8")
    values[0][:] = np.sign(least) * 127.5 - 0.5
    check(text, values, MESHES["3x2"], count=0)


def test_the_initial_value_counts_once() -> None:
    for scatter in ("add", "minimum"):
        text = select_and_scatter(13, 13, 3, 1, padding(1, 1), scatter=scatter)
        check(text, inputs(text, init=2), MESHES["3x2"], count=0)


def test_reducers_that_are_not_known() -> None:
    text = select_and_scatter(13, 13, 3, 1, padding(1, 1)).replace(
        "%1 = stablehlo.add %a, %b : tensor<f32>",
        "%2 = stablehlo.negate %a : tensor<f32>\n    %1 = stablehlo.subtract %b, %2 : tensor<f32>",
    )
    check(text, inputs(text), MESHES["3x2"], count=0)


def test_several_dimensions() -> None:
    text = select_and_scatter(13, 13, 3, 1).replace("array<i64: 1, 3>", "array<i64: 2, 3>")
    text = text.replace("3x13x", "9x13x").replace("array<i64: 1, 1>", "array<i64: 2, 1>")
    text = text.replace("%y: tensor<9x", "%y: tensor<5x").replace(
        "(tensor<9x13xf32>, tensor<9x", "(tensor<9x13xf32>, tensor<5x"
    )
    text = text.replace("}> ({", ", padding = dense<1> : tensor<2x2xi64>}> ({", 1)
    values = inputs(text)
    values[0] = np.random.default_rng(2).permutation(9 * 13).reshape(9, 13).astype(np.float32)
    for mesh in ("3x2", "2x2x2"):
        check(text, values, MESHES[mesh], count=3)


def test_windows_side_by_side_are_local() -> None:
    assert collectives(select_and_scatter(48, 24, 2, 2)) == []
    assert collectives(select_and_scatter(48, 16, 2, 3)) == []


def test_neighbours_give_what_windows_overlap() -> None:
    """One source and two elements from before, one element from behind."""
    assert collectives(select_and_scatter(48, 24, 3, 2, padding(0, 1))) == ["collective_permute"] * 3


def test_what_is_sent_is_priced() -> None:
    for name in ("overlapping", "overlapping in steps", "same in steps", "the last of ties", "apart"):
        check_what_is_sent(SPLIT[name])


@pytest.mark.parametrize("select", ["GE", "GT"])
def test_ties_of_several_dimensions_go_by_rows(select: str) -> None:
    """The first or the last of equal elements in row-major order, where windows do not reach into padding."""
    text = select_and_scatter(8, 6, 3, 1, select=select).replace("array<i64: 1, 3>", "array<i64: 2, 3>")
    text = text.replace("tensor<3x8xf32>", "tensor<7x8xf32>").replace("tensor<3x6xf32>", "tensor<6x6xf32>")
    values = np.random.default_rng(5).integers(0, 2, (7, 8)).astype(np.float32)
    sources = small_numbers((6, 6))
    wanted = np.zeros_like(values)
    for place, source in np.ndenumerate(sources):
        window = values[place[0] : place[0] + 2, place[1] : place[1] + 3].reshape(-1)
        best = window.argmax() if select == "GE" else 5 - window[::-1].argmax()
        wanted[place[0] + best // 3, place[1] + best % 3] += source
    check_all(text, [[values, sources, np.float32(0)]], MESHES["3x2"], count=4, reference=lambda *_: [wanted])
