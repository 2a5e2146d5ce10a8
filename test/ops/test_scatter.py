"""scatter: rules and per-device results."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from support.made_arrays import indices, small_numbers, table
from support.single_op import MESHES, check, rule_of

import gspmd
from gspmd.dialect.rule import PERMUTATION, REDUCTION, print_rule
from gspmd.runtime import executable as runtime
from gspmd.runtime.dtypes import numpy_dtype


def body(name: str, element: str) -> str:
    if name == "set":
        return f"stablehlo.return %b : tensor<{element}>"
    return f"%new = stablehlo.{name} %a, %b : tensor<{element}> stablehlo.return %new : tensor<{element}>"


def scatter(
    operand: str, indices: str, updates: str, vector_dim: int, dims: str, element: str = "f32", update: str = "add",
    index: str = "i32", flags: str = "indices_are_sorted = false, unique_indices = false",
) -> str:  # fmt: skip
    operand, updates, indices = f"{operand}x{element}", f"{updates}x{element}", f"{indices}x{index}"
    return f"""
func.func public @main(%operand: tensor<{operand}>, %indices: tensor<{indices}>, %updates: tensor<{updates}>)
    -> tensor<{operand}> {{
  %0 = "stablehlo.scatter"(%operand, %indices, %updates) <{{
    scatter_dimension_numbers = #stablehlo.scatter<{dims}, index_vector_dim = {vector_dim}>, {flags}
  }}> ({{
  ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
    {body(update, element)}
  }}) : (tensor<{operand}>, tensor<{indices}>, tensor<{updates}>) -> tensor<{operand}>
  return %0 : tensor<{operand}>
}}
"""


ROWS = "update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]"


def gradient(**options: str) -> str:
    """The scatter of an embedding's gradient."""
    return scatter("14x6", "5x4x1", "5x4x6", 2, ROWS, **options)


def test_rule_of_an_embedding_gradient() -> None:
    assert print_rule(rule_of(gradient())) == (
        "([i, j], [k, l, m], [k, l, j])->([i, j]) {i=14, j=6, k=5, l=4, m=1} reduction={k, l} need_replication={m}"
    )


def test_rule_does_not_split_updates_that_overwrite() -> None:
    assert print_rule(rule_of(gradient(update="set"))) == (
        "([i, j], [k, l, m], [k, l, j])->([i, j]) {i=14, j=6, k=5, l=4, m=1} need_replication={k, l, m}"
    )
    assert "reduction" not in print_rule(rule_of(gradient(update="subtract"))).split()


def test_rule_combines_as_the_body_does() -> None:
    assert rule_of(gradient(update="maximum")).combiner == "max"
    assert rule_of(gradient(update="add", element="i1")).combiner == "or"


def test_rule_of_partial_and_indexed_windows() -> None:
    """A shard keeps what falls into it; parts of a window that is not whole are partial updates."""
    dims = "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0, 1]"
    assert print_rule(rule_of(scatter("14x6", "5x2", "5x3x6", 1, dims))) == (
        "([i, k], [l, m], [l, j, k])->([i, k]) {i=14, j=3, k=6, l=5, m=2} reduction={j, l} need_replication={m}"
    )
    assert print_rule(rule_of(scatter("14x6", "5x2", "5x3x6", 1, dims, update="set"))) == (
        "([i, k], [l, m], [l, j, k])->([i, k]) {i=14, j=3, k=6, l=5, m=2} need_replication={j, l, m}"
    )


def test_rule_does_not_split_products_of_complex_numbers() -> None:
    """There is no identity: infinity times one is not a number."""
    assert "reduction" not in print_rule(rule_of(gradient(update="multiply", element="complex<f32>"))).split()


@pytest.mark.parametrize("mesh", MESHES)
def test_embedding_gradient(mesh: str) -> None:
    inputs = [small_numbers((14, 6)), indices((5, 4, 1), 14), small_numbers((5, 4, 6), seed=6)]
    check(gradient(), inputs, MESHES[mesh], count=3)


@pytest.mark.parametrize("mesh", MESHES)
def test_overwriting_rows(mesh: str) -> None:
    """Rows are distinct, so that the order of updates does not matter; one is far out of range."""
    rows = np.random.default_rng(0).permutation(20).astype(np.int32).reshape(5, 4, 1) - 3
    rows[2, 2, 0] = 2**31 - 1
    rows[3, 3, 0] = -(2**31)
    inputs = [table((14, 6)), rows, table((5, 4, 6), seed=6)]
    check(gradient(update="set"), inputs, MESHES[mesh], count=3)


@pytest.mark.parametrize("index", ["i8", "ui8", "ui32", "i64", "ui64"])
def test_index_types(index: str) -> None:
    dtype = np.dtype(index.replace("ui", "uint") if index.startswith("u") else index.replace("i", "int")).type
    inputs = [small_numbers((14, 6)), indices((5, 4, 1), 14, dtype), small_numbers((5, 4, 6), seed=6)]
    check(gradient(index=index), inputs, MESHES["3x2"], count=2)


def test_indices_narrower_than_the_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA's simple code for tests compares indices with the bound in their own type, so it does not do here."""
    as_usual = functools.partial(runtime.compile_options, overrides={"xla_cpu_use_fusion_emitters": True})
    monkeypatch.setattr(runtime, "compile_options", as_usual)
    text = scatter("300x6", "5x4x1", "5x4x6", 2, ROWS, index="ui8")
    inputs = [small_numbers((300, 6)), indices((5, 4, 1), 250, np.uint8), small_numbers((5, 4, 6), seed=6)]
    check(text, inputs, MESHES["8"], count=3)


@pytest.mark.parametrize(
    ("update", "element", "dtype"),
    [
        ("add", "i32", "int32"),
        ("add", "ui8", "uint8"),
        ("add", "f64", "float64"),
        ("add", "complex<f32>", "complex64"),
        ("add", "i1", "bool"),
        ("multiply", "f32", "float32"),
        ("multiply", "i32", "int32"),
        ("multiply", "i1", "bool"),
        ("maximum", "f32", "float32"),
        ("maximum", "i32", "int32"),
        ("maximum", "ui8", "uint8"),
        ("minimum", "f32", "float32"),
        ("minimum", "ui8", "uint8"),
        ("minimum", "i1", "bool"),
        ("and", "i32", "int32"),
        ("and", "i1", "bool"),
        ("or", "i32", "int32"),
        ("xor", "i32", "int32"),
        ("set", "i1", "bool"),
    ],
)
def test_updates(update: str, element: str, dtype: str) -> None:
    rng = np.random.default_rng(8)
    rows = rng.permutation(20).astype(np.int32).reshape(5, 4, 1) - 3
    if update != "set":
        rows[3:] = rows[:2]
    operand, updates = small_numbers((14, 6)), small_numbers((5, 4, 6), seed=6)
    if dtype == "bool":
        operand, updates = operand > 2, updates > 2
    if update in ("maximum", "minimum") and dtype == "float32":
        operand, updates = operand - 2.5, updates - 2.5
        operand[3], operand[4, :2] = -np.inf, np.inf
    inputs = [operand.astype(dtype), rows, updates.astype(dtype)]
    check(gradient(update=update, element=element), inputs, MESHES["3x2"], count=1)


def test_what_no_update_touches_keeps_its_sign() -> None:
    operand = np.full((14, 6), -0.0, np.float32)
    inputs = [operand, indices((5, 4, 1), 14), small_numbers((5, 4, 6))]
    check(gradient(), inputs, MESHES["4x2"], count=3)


@pytest.mark.parametrize("mesh", MESHES)
def test_two_indexed_dimensions_in_the_other_order(mesh: str) -> None:
    """As in x.at[i, :, j].add(u), with index vectors first and components swapped."""
    dims = "update_window_dims = [1], inserted_window_dims = [0, 2], scatter_dims_to_operand_dims = [2, 0]"
    text = scatter("9x5x7", "2x6x3", "6x5x3", 0, dims)
    rows = np.random.default_rng(2).integers(-2, 11, (2, 6, 3)).astype(np.int32)
    inputs = [small_numbers((9, 5, 7)), rows, small_numbers((6, 5, 3), seed=6)]
    check(text, inputs, MESHES[mesh], count=3)


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("update", ["add", "set"])
def test_batching_dimensions(mesh: str, update: str) -> None:
    """The gradient of take_along_axis."""
    dims = (
        "inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], "
        "scatter_dims_to_operand_dims = [1]"
    )
    text = scatter("6x10", "6x3x1", "6x3", 2, dims, update=update)
    rows = np.stack([np.random.default_rng(i).permutation(12)[:3] - 1 for i in range(6)]).astype(np.int32)
    inputs = [small_numbers((6, 10)), rows[..., None], small_numbers((6, 3), seed=6)]
    check(text, inputs, MESHES[mesh], count=3)


def test_promises_about_indices() -> None:
    flags = "indices_are_sorted = true, unique_indices = true"
    rows = np.sort(np.random.default_rng(0).permutation(23)[:20] - 3).astype(np.int32).reshape(5, 4, 1)
    inputs = [small_numbers((14, 6)), rows, small_numbers((5, 4, 6), seed=6)]
    check(gradient(flags=flags), inputs, MESHES["3x2"], count=1)


def test_window_of_one_that_is_kept() -> None:
    dims = "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0]"
    inputs = [small_numbers((9, 5)), indices((6, 1), 9), small_numbers((6, 1, 5), seed=6)]
    check(scatter("9x5", "6x1", "6x1x5", 1, dims), inputs, MESHES["4x2"], count=3)


def test_partial_windows_beside_split_rows() -> None:
    """Windows that begin before the operand or end behind it are dropped as on one device."""
    dims = "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0, 1]"
    rows = np.random.default_rng(4).integers(-3, 10, (7, 2)).astype(np.int32)
    inputs = [small_numbers((9, 8)), rows, small_numbers((7, 3), seed=6)]
    check(scatter("9x8", "7x2", "7x3", 1, dims), inputs, MESHES["3x2"], count=2)


def test_scalar_indices_without_vector_dimension() -> None:
    dims = "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]"
    inputs = [small_numbers((14, 6)), indices((7,), 14), small_numbers((7, 6), seed=6)]
    check(scatter("14x6", "7", "7x6", 1, dims), inputs, MESHES["4x2"])


VARIADIC = """
func.func public @main(%x: tensor<10x4xf32>, %y: tensor<10x4xi32>, %i: tensor<7x1xi32>,
                       %u: tensor<7x4xf32>, %v: tensor<7x4xi32>) -> (tensor<10x4xf32>, tensor<10x4xi32>) {
  %0:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) <{
    scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
    %1 = stablehlo.add %a, %c : tensor<f32>
    %2 = stablehlo.maximum %b, %d : tensor<i32>
    stablehlo.return %1, %2 : tensor<f32>, tensor<i32>
  }) : (tensor<10x4xf32>, tensor<10x4xi32>, tensor<7x1xi32>, tensor<7x4xf32>, tensor<7x4xi32>)
    -> (tensor<10x4xf32>, tensor<10x4xi32>)
  return %0#0, %0#1 : tensor<10x4xf32>, tensor<10x4xi32>
}
"""


def test_several_operands() -> None:
    assert print_rule(rule_of(VARIADIC)) == (
        "([i, j], [i, j], [k, l], [k, j], [k, j])->([i, j], [i, j]) {i=10, j=4, k=7, l=1} need_replication={l} "
        "permutation={k}"
    )
    inputs = [
        small_numbers((10, 4)), small_numbers((10, 4), "int32"), indices((7, 1), 10),
        small_numbers((7, 4), seed=6), small_numbers((7, 4), "int32", seed=7),
    ]  # fmt: skip
    check(VARIADIC, inputs, MESHES["3x2"])


def test_several_operands_with_one_reducer_leave_partial_results() -> None:
    text = VARIADIC.replace("maximum", "add")
    assert " reduction={k} " in print_rule(rule_of(text))
    inputs = [
        small_numbers((10, 4)), small_numbers((10, 4), "int32"), indices((7, 1), 10),
        small_numbers((7, 4), seed=6), small_numbers((7, 4), "int32", seed=7),
    ]  # fmt: skip
    check(text, inputs, MESHES["4x2"])


@pytest.mark.parametrize("crossed", ["%b, %c", "%a, %a"])
def test_bodies_that_are_no_reductions_of_each_result_are_not_split(crossed: str) -> None:
    text = VARIADIC.replace("i32>, %i", "f32>, %i").replace("x4xi32", "x4xf32").replace("tensor<i32>", "tensor<f32>")
    text = text.replace("stablehlo.add %a, %c", f"stablehlo.add {crossed}")
    rule = rule_of(text)
    assert not {REDUCTION, PERMUTATION} & set(rule.kinds)


@pytest.mark.parametrize("element", ["f8E4M3FN", "f8E5M2FNUZ"])
def test_maxima_of_types_without_infinity(element: str) -> None:
    dtype = numpy_dtype(element)
    inputs = [-small_numbers((14, 6)), indices((5, 4, 1), 14), -small_numbers((5, 4, 6), seed=6)]
    inputs = [inputs[0].astype(dtype), inputs[1], inputs[2].astype(dtype)]
    check(gradient(update="maximum", element=element), inputs, MESHES["4x2"], count=1)


def test_several_updates_of_single_elements_without_indices() -> None:
    dims = "update_window_dims = [2]"
    inputs = [small_numbers((6,)), np.zeros((2, 2, 0), np.int32), small_numbers((2, 2, 6))]
    check(scatter("6", "2x2x0", "2x2x6", 2, dims), inputs, MESHES["3x2"])


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("update", ["add", "set"])
def test_partial_windows_across_shards(mesh: str, update: str) -> None:
    """Windows overlap, and cross shards; those that do not fit into the whole operand are dropped everywhere."""
    dims = "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0, 1]"
    rows = np.random.default_rng(4).integers(-2, 9, (8, 2)).astype(np.int32)
    rows[0], rows[1] = (6, 5), (7, 5)
    inputs = [small_numbers((11, 8)), rows, small_numbers((8, 5, 3), seed=6)]
    check(scatter("11x8", "8x2", "8x5x3", 1, dims, update=update), inputs, MESHES[mesh], count=4)


ONE_VALUE = """
sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<8xi32> {sharding}, %b: tensor<5x8x1xi32>, %c: tensor<5x8xi32>)
    -> (tensor<8xi32>, tensor<8xi32>, tensor<8xi32>) {{
  %0:3 = "stablehlo.scatter"(%a, %a, %a, %b, %c, %c, %c) ({{
  ^bb0(%p: tensor<i32>, %q: tensor<i32>, %r: tensor<i32>, %u: tensor<i32>, %v: tensor<i32>, %w: tensor<i32>):
    %1 = stablehlo.add %p, %u : tensor<i32>
    %2 = stablehlo.maximum %q, %v : tensor<i32>
    %3 = stablehlo.minimum %r, %w : tensor<i32>
    stablehlo.return %1, %2, %3 : tensor<i32>, tensor<i32>, tensor<i32>
  }}) {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}}
    : (tensor<8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<5x8x1xi32>, tensor<5x8xi32>, tensor<5x8xi32>,
       tensor<5x8xi32>) -> (tensor<8xi32>, tensor<8xi32>, tensor<8xi32>)
  return %0#0, %0#1, %0#2 : tensor<8xi32>, tensor<8xi32>, tensor<8xi32>
}}
"""


@pytest.mark.parametrize("sharding", ["", '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}', None])
def test_operands_that_are_one_value_have_results_of_their_own(sharding: str | None) -> None:
    draw = np.random.default_rng(3)
    operand, updates = draw.integers(-4, 5, 8).astype(np.int32), draw.integers(-9, 9, (5, 8)).astype(np.int32)
    indices = draw.integers(0, 8, (5, 8, 1)).astype(np.int32)
    expected = [operand.copy() for _ in range(3)]
    for made, combine in zip(expected, (np.add, np.maximum, np.minimum), strict=True):
        combine.at(made, indices[..., 0], updates)
    text = ONE_VALUE.format(sharding=sharding or "")
    program = runtime.compile_single(text) if sharding is None else runtime.compile(gspmd.partition(text))
    results = program(operand, indices, updates)
    for result, want in zip(results, expected, strict=True):
        for shard in result.shards:
            np.testing.assert_array_equal(shard.to_numpy(), want[shard.index])
