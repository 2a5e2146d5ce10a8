"""CHLO operations that more than one element of an operand, or several groups of elements, go into."""

from __future__ import annotations

import re
from collections.abc import Callable

import jax
import numpy as np
import pytest
from jax import lax
from op_examples import function
from support.single_op import MESHES, Array, assignments, check, partition, rule_of

from gspmd.dialect.rule import NEED_REPLICATION, print_rule
from gspmd.runtime import executable as runtime

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


def groups(sizes: jax.Array, operand: jax.Array, dim: int) -> list[jax.Array]:
    """An operand with nothing but one group along a dimension, for every group."""
    place, found, begin = lax.broadcasted_iota(sizes.dtype, operand.shape, dim), [], sizes[0] * 0
    for size in (lax.reshape(lax.slice(sizes, (g,), (g + 1,)), ()) for g in range(sizes.shape[0])):
        inside = (place >= begin) & (place < begin + size)
        found.append(lax.select(inside, operand, lax.full_like(operand, 0)))
        begin = begin + size
    return found


def rows_in_groups(lhs: jax.Array, rhs: jax.Array, sizes: jax.Array) -> jax.Array:
    parts = enumerate(groups(sizes, lhs, 1))
    return sum(lax.batch_matmul(rows, lax.index_in_dim(rhs, g, 0, False)) for g, rows in parts)


def contracted_in_groups(lhs: jax.Array, rhs: jax.Array, sizes: jax.Array) -> jax.Array:
    parts = [lax.batch_matmul(terms, rhs) for terms in groups(sizes, lhs, 2)]
    return lax.concatenate([lax.reshape(part, (1, *part.shape)) for part in parts], 0)


RAGGED = {
    "chlo.ragged_dot (rows in groups)": (rows_in_groups, (4, 8, 16), (3, 4, 16, 32), [[1, 4, 2], [0, 8, 0]]),
    "chlo.ragged_dot (contracted in groups)": (contracted_in_groups, (4, 8, 16), (4, 16, 32), [[3, 5, 8], [0, 9, 1]]),
}


def defined(module: str, compute: Callable[..., jax.Array]) -> str:
    """The module with a call of its definition in place of the operation, which XLA on CPU cannot run."""
    line = re.search(r'"chlo.ragged_dot"\((.*?)\) .*?(\(tensor<.*) -> (.*)', module)
    assert line
    shapes = [tuple(map(int, shape.split("x"))) for shape in re.findall(r"tensor<([\dx]+)x[fi]\d+>", line[2])]
    dtypes = (np.float32, np.float32, np.int32)
    arguments = [jax.ShapeDtypeStruct(*pair) for pair in zip(shapes, dtypes, strict=True)]
    text = jax.jit(compute).lower(*arguments).as_text()
    callee = text[text.index("func.func public @main") : text.rindex("}")]
    callee = re.sub(r" \{jax[^}]*\}", "", callee.replace("public @main", "private @definition", 1))
    called = f"func.call @definition({line[1]}) : {line[2]} -> {line[3]}"
    return module.replace(line[0], called).rstrip().removesuffix("}") + callee + "}"


@pytest.mark.parametrize("mesh", ["4x2", "3"])
@pytest.mark.parametrize("name", RAGGED)
def test_ragged_dot_by_its_definition(name: str, mesh: str) -> None:
    compute, left, right, cases = RAGGED[name]
    text = function(name).replace("3xi64", "3xi32")
    rule = rule_of(text)
    assert sum(kind is not NEED_REPLICATION for kind in rule.kinds) == 4
    operands = [floats(*left), floats(*right)]
    for axes in assignments(rule, MESHES[mesh], 6, 0):
        executable = runtime.compile(defined(partition(text, MESHES[mesh], axes), compute), padding="nan")
        for sizes in cases:
            inputs = [*operands, np.array(sizes, np.int32)]
            want = np.asarray(compute(*map(jax.numpy.asarray, inputs)))
            for shard in executable(*inputs)[0].shards:
                np.testing.assert_allclose(shard.to_numpy(), want[shard.index], rtol=1e-4, atol=1e-4, err_msg=str(axes))


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


@pytest.mark.parametrize("name", ["chlo._asin_acos_kernel", "chlo.constant_like"])
def test_elementwise(name: str) -> None:
    inputs = {
        "chlo._asin_acos_kernel": [floats(8, 16) + 1j * floats(8, 16)],
        "chlo.constant_like": [floats(8, 16)],
    }[name]
    check(function(name), inputs, MESHES["3x2"], tolerance=1e-6)


@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"])
def test_upper_half_of_products(element: str) -> None:
    dtype = np.dtype(element.replace("i", "int"))
    bits, limits = 8 * dtype.itemsize, np.iinfo(dtype)
    ends = [limits.min, limits.min + 1, 0, 1, limits.max // 2, limits.max - 1, limits.max]
    several = np.array([*ends, *RNG.integers(limits.min, limits.max, 25, dtype=dtype, endpoint=True)], dtype=dtype)
    a, b = np.repeat(several[:, None], 32, axis=1), np.repeat(several[None], 32, axis=0)
    high = np.array([[int(x) * int(y) >> bits for y in several] for x in several], object).astype(dtype)
    type_ = f"tensor<32x32x{element}>"
    text = f"""
func.func public @main(%a: {type_}, %b: {type_}) -> {type_} {{
  %0 = "chlo.mulhi"(%a, %b) : ({type_}, {type_}) -> {type_}
  return %0 : {type_}
}}
"""
    check(text, [a, b], MESHES["3x2"], reference=lambda *_: [high])
