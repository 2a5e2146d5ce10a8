"""CHLO operations that more than one element of an operand, or several groups of elements, go into."""

from __future__ import annotations

import numpy as np
import pytest
from op_examples import function
from single_op import MESHES, Array, check, rule_of

from gspmd.dialect.rule import NEED_REPLICATION, REDUCTION, Mapping, print_rule

RNG = np.random.default_rng(0)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def broadcast(left: str, right: str, result: str, dims: str = "") -> str:
    given = f" {{broadcast_dimensions = array<i64: {dims}>}}" if dims else ""
    return f"""
func.func public @main(%x: tensor<{left}xf32>, %y: tensor<{right}xf32>) -> tensor<{result}xf32> {{
  %0 = "chlo.broadcast_subtract"(%x, %y){given} : (tensor<{left}xf32>, tensor<{right}xf32>) -> tensor<{result}xf32>
  return %0 : tensor<{result}xf32>
}}
"""


BROADCASTS = {
    "equal": ("5x6", "5x6", "5x6"),
    "a row": ("5x6", "6", "5x6"),
    "a named row": ("5x6", "6", "5x6", "1"),
    "one element": ("5x1", "5x6", "5x6"),
    "both expanded": ("5x1", "1x6", "5x6"),
}


@pytest.mark.parametrize("case", BROADCASTS)
@pytest.mark.parametrize("mesh", ["4x2", "3x2"])
def test_broadcasting(case: str, mesh: str) -> None:
    left, right = (tuple(map(int, shape.split("x"))) for shape in BROADCASTS[case][:2])
    check(broadcast(*BROADCASTS[case]), [floats(*left), floats(*right)], MESHES[mesh])


def test_rules_of_broadcasting() -> None:
    texts = [broadcast("5x6", "5", "5x6", "0"), broadcast(*BROADCASTS["both expanded"])]
    assert [print_rule(rule_of(text)) for text in texts] == [
        "([i, j], [i])->([i, j]) {i=5, j=6}",
        "([i, k], [l, j])->([i, j]) {i=5, j=6, k=1, l=1} need_replication={k, l}",
    ]


@pytest.mark.parametrize("mesh", ["4x2", "3"])
def test_ragged_dot_of_a_grouped_batch(mesh: str) -> None:
    inputs = [floats(4, 8, 16), floats(4, 16, 32), np.array([1, 0, 3], np.int64)]
    check(function("chlo.ragged_dot (batch in groups)"), inputs, MESHES[mesh], tolerance=1e-5)


def rows_in_groups(lhs: Array, rhs: Array, sizes: Array) -> Array:
    result, begin = np.zeros((*lhs.shape[:2], rhs.shape[-1]), np.float32), 0
    for group, size in enumerate(sizes):
        result[:, begin : begin + size] = lhs[:, begin : begin + size] @ rhs[group]
        begin += size
    return result


def contracted_in_groups(lhs: Array, rhs: Array, sizes: Array) -> Array:
    ends = np.cumsum(sizes)
    parts = [(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    return np.stack([lhs[:, :, begin:end] @ rhs[:, begin:end] for begin, end in parts])


RAGGED = {
    "chlo.ragged_dot (rows in groups)": (rows_in_groups, (4, 8, 16), (3, 4, 16, 32), [1, 4, 2]),
    "chlo.ragged_dot (contracted in groups)": (contracted_in_groups, (4, 8, 16), (4, 16, 32), [3, 5, 8]),
}


@pytest.mark.parametrize("name", RAGGED)
def test_the_rule_of_ragged_dot_holds_of_its_definition(name: str) -> None:
    """Splitting operands along any factor gives parts of the result, or terms of it. XLA on CPU cannot run these."""
    compute, left, right, groups = RAGGED[name]
    rule, operands = rule_of(function(name)), [floats(*left), floats(*right), np.array(groups)]
    whole = compute(*operands)

    def half(value: Array, mapping: Mapping, factor: int, index: int) -> Array:
        for dim, factors in enumerate(mapping):
            if factor in factors:
                return np.split(value, 2, dim)[index]
        return value

    split = [f for f, kind in enumerate(rule.kinds) if kind is not NEED_REPLICATION]
    assert len(split) == 3
    for factor in split:
        results = []
        for index in range(2):
            pairs = zip(operands, rule.operands, strict=True)
            results.append(compute(*[half(value, mapping, factor, index) for value, mapping in pairs]))
        if rule.kinds[factor] is REDUCTION:
            np.testing.assert_allclose(results[0] + results[1], whole, rtol=1e-4, atol=1e-4)
        else:
            for index, result in enumerate(results):
                wanted = half(whole, rule.results[0], factor, index)
                np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


def ragged_dot_of_sizes_by_row() -> str:
    types = "(tensor<19x11x5xf32>, tensor<3x5x7xf32>, tensor<19x3xi64>) -> tensor<19x11x7xf32>"
    return f"""
func.func public @main(%x: tensor<19x11x5xf32>, %y: tensor<3x5x7xf32>, %s: tensor<19x3xi64>) -> tensor<19x11x7xf32> {{
  %0 = "chlo.ragged_dot"(%x, %y, %s) {{
    ragged_dot_dimension_numbers = #chlo.ragged_dot<
      lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [2],
      rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [1], rhs_group_dimensions = [0]>
  }} : {types}
  return %0 : tensor<19x11x7xf32>
}}
"""


def test_groups_that_differ_by_row_leave_only_the_right_side_split() -> None:
    assert print_rule(rule_of(ragged_dot_of_sizes_by_row())) == (
        "([i, j, l], [m, l, k], [n, o])->([i, j, k]) {i=19, j=11, k=7, l=5, m=3, n=19, o=3} "
        "need_replication={i, j, l, m, n, o}"
    )


@pytest.mark.parametrize("mesh", ["8", "3x2"])
def test_scan(mesh: str) -> None:
    check(function("chlo.scan"), [floats(8, 16), floats(16)], MESHES[mesh], tolerance=1e-6)


@pytest.mark.parametrize("name", ["chlo.mulhi", "chlo._asin_acos_kernel", "chlo.constant_like"])
def test_elementwise(name: str) -> None:
    inputs = {
        "chlo.mulhi": [RNG.integers(-(2**31), 2**31, (8, 16)).astype(np.int32) for _ in range(2)],
        "chlo._asin_acos_kernel": [floats(8, 16) + 1j * floats(8, 16)],
        "chlo.constant_like": [floats(8, 16)],
    }[name]
    check(function(name), inputs, MESHES["3x2"], tolerance=1e-6)
