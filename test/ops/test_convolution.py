"""convolution: rules, what is communicated, and per-device results."""

from __future__ import annotations

import numpy as np
import pytest
from support.local_sent import check_what_is_sent, collectives
from support.made_arrays import small_numbers
from support.single_op import MESHES, check, partition, rule_of

from gspmd.dialect.rule import REDUCTION, print_rule


def convolution(
    lhs: str, rhs: str, result: str, groups: tuple[int, int] = (1, 1), window: str = "", space: str = "0, 1"
) -> str:
    return f"""
func.func public @main(%x: tensor<{lhs}xf32>, %k: tensor<{rhs}xf32>) -> tensor<{result}xf32> {{
  %0 = stablehlo.convolution(%x, %k)
    dim_numbers = [b, {space}, f]x[{space}, i, o]->[b, {space}, f], window = {{{window}}}
    {{feature_group_count = {groups[0]} : i64, batch_group_count = {groups[1]} : i64}}
    : (tensor<{lhs}xf32>, tensor<{rhs}xf32>) -> tensor<{result}xf32>
  return %0 : tensor<{result}xf32>
}}
"""


def line(lhs: str, rhs: str, result: str, groups: tuple[int, int] = (1, 1), window: str = "") -> str:
    """One spatial dimension."""
    return convolution(lhs, rhs, result, groups, window, "0")


FEATURES = {
    "plain": convolution("5x7x6x3", "3x1x3x6", "5x7x6x6", window="pad = [[1, 1], [0, 0]]"),
    "pointwise": convolution("5x7x6x3", "1x1x3x4", "5x4x6x4", window="stride = [2, 1]"),
    "feature groups": convolution("2x5x6x8", "3x3x2x12", "2x3x4x12", groups=(4, 1)),
    "few feature groups": convolution("2x5x6x8", "3x3x4x12", "2x3x4x12", groups=(2, 1)),
    "depthwise": convolution("2x5x6x7", "3x3x1x7", "2x3x4x7", groups=(7, 1)),
    "depthwise, two each": line("2x5x4", "3x1x8", "2x3x8", groups=(4, 1)),
    "groups of one output": line("2x5x8", "3x2x4", "2x3x4", groups=(4, 1)),
    "batch groups": convolution("8x5x6x3", "3x3x3x12", "2x3x4x12", groups=(1, 4)),
    "few batch groups": convolution("8x5x6x3", "3x3x3x12", "4x3x4x12", groups=(1, 2)),
    "batch groups of one": line("5x6x3", "3x3x5", "1x4x5", groups=(1, 5)),
}
SPACE = {
    "same": convolution("2x16x17x3", "3x3x3x4", "2x16x17x4", window="pad = [[1, 1], [1, 1]]"),
    "three dimensions": convolution(
        "1x9x4x5x2", "3x2x1x2x3", "1x9x5x5x3", window="pad = [[1, 1], [1, 1], [0, 0]]", space="0, 1, 2"
    ),
    "stride": convolution("2x16x17x3", "3x2x3x4", "2x8x8x4", window="stride = [2, 2], pad = [[1, 0], [0, 0]]"),
    "dilated": convolution("2x20x24x3", "2x3x3x4", "2x20x20x4", window="pad = [[1, 0], [0, 0]], rhs_dilate = [1, 2]"),
    "transposed": convolution("2x16x9x3", "3x1x3x4", "2x32x9x4", window="pad = [[1, 2], [0, 0]], lhs_dilate = [2, 1]"),
    "transposed to odd shards": line("2x9x3", "4x3x4", "2x24x4", window="pad = [[1, 1]], lhs_dilate = [3]"),
    "input gradient of strides": line("2x8x3", "3x3x4", "2x17x4", window="pad = [[2, 2]], lhs_dilate = [2]"),
    "all at once": line(
        "2x9x3", "3x3x4", "2x7x4", window="stride = [2], pad = [[2, -1]], lhs_dilate = [2], rhs_dilate = [2]"
    ),
    "cut": line("2x17x3", "3x3x4", "2x11x4", window="pad = [[-2, -2]]"),
    "cut to nothing": line("2x3x3", "2x3x4", "2x5x4", window="pad = [[7, -4]]"),
    "reversed": line("2x17x3", "4x3x4", "2x17x4", window="pad = [[2, 1]], reverse = [true]"),
    "apart": line("2x17x3", "2x3x4", "2x4x4", window="stride = [5]"),
    "patches": line("2x24x3", "6x3x4", "2x4x4", window="stride = [6]"),
    "beyond neighbours": line("2x9x3", "6x3x4", "2x12x4", window="pad = [[4, 4]]"),
    "smaller than the axis": line("2x3x3", "3x3x4", "2x3x4", window="pad = [[1, 1]]"),
    "made from one element": line("2x1x3", "2x3x4", "2x4x4", window="pad = [[2, 2]]"),
    "weight gradient": line("3x16x2", "16x2x4", "3x3x4", window="pad = [[1, 1]]"),
    "weight gradient, odd": line("3x13x2", "13x2x4", "3x4x4", window="pad = [[1, 2]]"),
    "weight gradient of strides": line("3x17x2", "8x2x4", "3x3x4", window="rhs_dilate = [2]"),
    "weight gradient of strides, cut": line("3x17x2", "5x2x4", "3x4x4", window="pad = [[-1, 0]], rhs_dilate = [3]"),
    "weight gradient of dilated": line("3x13x2", "13x2x4", "3x3x4", window="stride = [2], pad = [[2, 2]]"),
    "weight gradient, reversed": line("3x13x2", "13x2x4", "3x3x4", window="pad = [[1, 1]], reverse = [true]"),
    "weight gradient of transposed": line("3x8x2", "15x2x4", "3x3x4", window="pad = [[1, 1]], lhs_dilate = [2]"),
    "all of a dimension": line("2x13x3", "13x3x4", "2x1x4"),
    "groups": line("2x9x4", "3x2x6", "2x9x6", groups=(2, 1), window="pad = [[1, 1]]"),
    "weight gradient of groups": line("4x9x3", "9x3x6", "2x3x6", groups=(1, 2), window="pad = [[1, 1]]"),
}


def run(text: str, mesh: str, count: int) -> None:
    shapes = [tuple(map(int, part.split("xf32")[0].split("x"))) for part in text.split("tensor<")[1:3]]
    check(text, [small_numbers(shapes[0]), small_numbers(shapes[1], seed=6)], MESHES[mesh], count=count)


@pytest.mark.parametrize("case", FEATURES)
def test_batch_and_features(case: str) -> None:
    for mesh in ("4x2", "3x2") if case in ("plain", "feature groups", "batch groups") else ("4x2",):
        run(FEATURES[case], mesh, 2)


@pytest.mark.parametrize("case", SPACE)
def test_spatial_dimensions(case: str) -> None:
    for mesh in ("8", "3x2") if case in ("same", "weight gradient, odd") else ("3x2",):
        run(SPACE[case], mesh, 2)


def test_rules_of_features() -> None:
    assert print_rule(rule_of(FEATURES["plain"])) == (
        "([j, l, n, i], [m, o, i, k])->([j, l, n, k]) {i=3, j=5, k=6, l=7, m=3, n=6, o=1} "
        "reduction={i, m} need_replication={o} permutation={l}"
    )
    assert print_rule(rule_of(FEATURES["few feature groups"])).startswith(
        "([k, m, o, ij], [n, p, j, il])->([k, m, o, il]) {i=2, j=4, k=2, l=6,"
    )
    assert print_rule(rule_of(FEATURES["few batch groups"])).startswith(
        "([ik, m, o, j], [n, p, j, il])->([k, m, o, il]) {i=2, j=3, k=4, l=6,"
    )
    assert print_rule(rule_of(FEATURES["depthwise"])).startswith("([j, k, m, i], [l, n, o, i])->([j, k, m, i]) {i=7,")


def test_rules_of_space() -> None:
    """The larger of kernel and result is split with the input."""
    assert print_rule(rule_of(SPACE["patches"])) == (
        "([j, l, i], [m, i, k])->([j, l, k]) {i=3, j=2, k=4, l=24, m=6} reduction={i, m} permutation={l}"
    )
    assert print_rule(rule_of(SPACE["weight gradient"])) == (
        "([j, l, i], [l, i, k])->([j, m, k]) {i=2, j=3, k=4, l=16, m=3} reduction={i, l} permutation={m}"
    )


def test_neighbours_give_what_windows_overlap() -> None:
    assert collectives(line("2x24x3", "3x3x4", "2x24x4", window="pad = [[1, 1]]")) == ["collective_permute"] * 2
    assert collectives(line("2x48x3", "6x3x4", "2x8x4", window="stride = [6]")) == []
    assert collectives(line("2x24x3", "3x3x4", "2x48x4", window="pad = [[2, 1]], lhs_dilate = [2]")) == (
        ["collective_permute"]
    )


def test_weight_gradients_add_what_shards_contribute() -> None:
    text = line("3x24x2", "24x2x4", "3x3x4", window="pad = [[1, 1]]")
    assert collectives(text) == ["all_reduce", "collective_permute", "collective_permute"]


def test_a_split_kernel_of_an_input_that_is_whole_needs_no_more_than_a_sum() -> None:
    rule, mesh = rule_of(SPACE["same"]), MESHES["3"]
    (factor,) = rule.operands[1][0]
    assert rule.kinds[factor] is REDUCTION
    module = partition(SPACE["same"], mesh, {factor: mesh.all_axes()})
    assert module.count("stablehlo.all_reduce") == 1
    assert "collective_permute" not in module


def test_nothing_is_moved_along_what_has_no_elements() -> None:
    rule = print_rule(rule_of(line("2x0x3", "3x3x4", "2x2x4", window="pad = [[2, 2]]")))
    assert rule.startswith("([j, l, i], [m, i, k])->([j, n, k])")
    assert "need_replication={l, m, n}" in rule


@pytest.mark.parametrize("dtype", ["bf16", "i32"])
def test_other_elements(dtype: str) -> None:
    text = SPACE["weight gradient, odd"].replace("f32", dtype)
    numpy_type = np.int32 if dtype == "i32" else "bfloat16"
    import ml_dtypes  # noqa: F401

    inputs = [small_numbers((3, 13, 2)), small_numbers((13, 2, 4), seed=6)]
    check(text, [values.astype(numpy_type) for values in inputs], MESHES["3x2"], count=0)


@pytest.mark.parametrize("case", ["same", "dilated", "weight gradient, odd", "weight gradient, reversed"])
def test_infinities_at_the_ends_reach_what_they_reach_on_one_device(case: str) -> None:
    """Taps that shards do not have are not multiplied with them."""
    shapes = [tuple(map(int, part.split("xf32")[0].split("x"))) for part in SPACE[case].split("tensor<")[1:3]]
    values = small_numbers(shapes[0])
    values[0, 0, ...], values[-1, -1, ...] = np.inf, np.nan
    check(SPACE[case], [values, small_numbers(shapes[1], seed=6)], MESHES["4x2"], count=1)


def test_what_is_sent_is_priced() -> None:
    for name in ("same", "transposed", "transposed to odd shards", "weight gradient, odd", "weight gradient, reversed"):
        check_what_is_sent(SPACE[name])
