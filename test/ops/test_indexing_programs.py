"""Indexing as JAX writes it, through all stages: right results, and only the collectives that it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import gspmd

Spec = tuple[Any, ...]
MESH = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def collectives(
    program: Callable[..., Any], args: list[tuple[Spec, str, Spec]], out: Spec | None = None
) -> list[tuple[str, str, int]]:
    """Kind, axes and the bytes that a device sends, of a program that is checked.

    An argument is its shape, its type and how it is split.
    """
    given = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype, _ in args]
    shardings = tuple(NamedSharding(MESH, PartitionSpec(*spec)) for *_, spec in args)
    result = None if out is None else NamedSharding(MESH, PartitionSpec(*out))
    lowered = jax.jit(program, in_shardings=shardings, out_shardings=result).lower(*given)
    assert gspmd.check(lowered)
    return [(c.kind, c.axes.replace('"', ""), c.bytes) for c in gspmd.partition(lowered).collectives]


TABLE, TOKENS, ROWS = ((1000, 64), "float32", ("x",)), ((16,), "int32", ("y",)), ((16, 64), "float32", ("y",))


@pytest.mark.parametrize("look_up", [lambda t, i: t[i], lambda t, i: jnp.take(t, i, axis=0)])
def test_a_table_split_by_rows_is_not_gathered(look_up: Any) -> None:
    assert collectives(look_up, [TABLE, TOKENS], ("y",)) == [("all_reduce", "x", 3072)]


def test_rows_looked_up_that_nothing_is_said_of_are_summed_by_parts() -> None:
    assert collectives(lambda t, i: t[i], [TABLE, TOKENS]) == [("reduce_scatter", "x", 1536)]


def test_a_small_table_is_gathered_for_many_look_ups() -> None:
    found = collectives(lambda t, i: t[i], [((16, 64), "float32", ("x",)), ((4096,), "int32", ("y",))], ("y",))
    assert found == [("all_gather", "x", 3072)]


def test_a_small_table_is_split_by_columns_for_look_ups_that_nothing_is_said_of() -> None:
    found = collectives(lambda t, i: t[i], [((16, 64), "float32", ("x",)), ((4096,), "int32", ("y",))])
    assert found == [("all_to_all", "x", 768)]


MANY_TOKENS, MANY_ROWS = ((4096,), "int32", ("y",)), ((4096, 64), "float32", ("y",))


@pytest.mark.parametrize("update", ["add", "max", "multiply"])
def test_split_updates_are_reduced_or_gathered_whichever_is_less(update: str) -> None:
    def updated(t: Any, i: Any, u: Any) -> Any:
        return getattr(t.at[i], update)(u)

    assert collectives(updated, [TABLE, MANY_TOKENS, MANY_ROWS]) == [("all_reduce", "y", 64000)]
    assert collectives(updated, [TABLE, TOKENS, ROWS]) == [("all_gather", "y", 32), ("all_gather", "y", 2048)]


def test_split_updates_that_overwrite_are_gathered_and_the_table_is_not() -> None:
    found = collectives(lambda t, i, u: t.at[i].set(u), [TABLE, TOKENS, ROWS])
    assert found == [("all_gather", "y", 32), ("all_gather", "y", 2048)]


def test_split_updates_that_overwrite_move_to_the_window() -> None:
    table = ((1000, 64), "float32", ("x", "y"))
    found = collectives(lambda t, i, u: t.at[i].set(u), [table, TOKENS, ROWS])
    assert found == [("all_gather", "y", 32), ("all_to_all", "y", 1024)]


def squares(table: Any, tokens: Any) -> Any:
    return (table[tokens] ** 2).sum()


def test_the_gradient_of_an_embedding() -> None:
    found = collectives(jax.grad(squares), [((1000, 1), "float32", ("x",)), MANY_TOKENS], ("x",))
    assert found == [("all_gather", "x", 3000), ("all_reduce", "y", 1000)]  # the table is less than what is looked up


def test_the_gradient_of_an_embedding_is_made_by_columns() -> None:
    """A device takes its part of the columns for all tokens, and sums nothing: what moves is less than the table."""
    found = collectives(jax.grad(squares), [TABLE, MANY_TOKENS], ("x",))
    tokens, table = 4096 * 4 // 2, 1000 * 64 * 4 // 4
    # Columns are cut over y, which has them twice, before they change places with rows over x. Back, y gathers them.
    there = table // 2 * 3 // 4
    assert sorted(found) == sorted(
        [("all_gather", "y", tokens), *[("all_to_all", "x", there)] * 2, ("all_gather", "y", table // 2)]
    )


def test_the_gradient_of_a_one_hot_embedding_is_reduced_or_its_rows_are_gathered_whichever_is_less() -> None:
    def loss(table: Any, tokens: Any, rows: Any) -> Any:
        return (jax.nn.one_hot(tokens, 1000) @ table * rows).sum()

    gradient = jax.grad(loss)
    assert collectives(gradient, [TABLE, MANY_TOKENS, MANY_ROWS], ("x",)) == [("all_reduce", "y", 64000)]
    found = collectives(gradient, [TABLE, TOKENS, ROWS], ("x",))
    assert sorted(found) == [("all_gather", "y", 32), ("all_gather", "y", 2048)]


LOGITS, LABELS = ((64, 1024), "float32", ("y", "x")), ((64,), "int32", ("y",))


@pytest.mark.parametrize(
    "pick",
    [lambda p, y: jnp.take_along_axis(p, y[:, None], axis=-1), lambda p, y: p[jnp.arange(64), y]],
)
def test_the_gradient_of_a_cross_entropy_over_a_split_vocabulary_gathers_nothing(pick: Any) -> None:
    def loss(logits: Any, labels: Any) -> Any:
        return -pick(jax.nn.log_softmax(logits), labels).mean()

    positions = 64 // 2 * 4
    found = collectives(jax.grad(loss), [LOGITS, LABELS], ("y", "x"))
    assert found == [("all_reduce", "x", 2 * positions * 3 // 4)] * 2  # the greatest logit, and the sum below it


BATCH = ((8, 64), "float32", ("x",))


@pytest.mark.parametrize(
    "program",
    [
        lambda t, i: jnp.take_along_axis(t, i, axis=1),
        lambda t, i: t[jnp.arange(8)[:, None], i],
        lambda t, i: t[np.arange(8)[:, None], i],
        lambda t, i: t.at[jnp.arange(8)[:, None], i].set(1.0),
        lambda t, i: t.at[jnp.arange(8)[:, None], i].add(1.0),
        jax.vmap(lambda a, j: jax.lax.dynamic_slice(a, (j[0],), (5,))),
        jax.vmap(lambda a, j: jax.lax.dynamic_update_slice(a, jnp.ones(5), (j[0],))),
        lambda t, i: jax.lax.scan(lambda c, _: (c, c[jnp.arange(8)[:, None], i]), t, None, length=3),
    ],
)
def test_a_batch_that_is_split_emits_nothing(program: Any) -> None:
    assert collectives(program, [BATCH, ((8, 5), "int32", ("x",))]) == []


def test_counting_from_outside_a_loop_is_seen() -> None:
    def program(table: Any, tokens: Any) -> Any:
        batch = jnp.arange(8)
        return jax.lax.scan(lambda carry, i: (carry, carry[batch, i]), table, tokens)

    assert collectives(program, [BATCH, ((5, 8), "int32", (None, "x"))]) == []


def test_two_counted_dimensions() -> None:
    def program(table: Any, i: Any, u: Any) -> Any:
        return table.at[jnp.arange(8)[:, None], jnp.arange(4), i].add(u)

    args = [((8, 4, 64), "float32", ("x", "y")), ((8, 4), "int32", ("x", "y")), ((8, 4), "float32", ("x", "y"))]
    assert collectives(program, args) == []


def test_the_diagonal_counts_one_dimension() -> None:
    """Both count along the same batch, which can be that of one dimension only."""
    program = lambda t: t[jnp.arange(8), jnp.arange(8)]  # noqa: E731
    assert collectives(program, [((8, 8, 64), "float32", ("x", "y"))], ("x",)) == [("all_reduce", "y", 512)]
    assert collectives(program, [((8, 8, 64), "float32", ("x", "y"))]) == [("reduce_scatter", "y", 256)]


@pytest.mark.parametrize("shift", [1, -1])
def test_what_does_not_count_from_zero_is_looked_up(shift: int) -> None:
    found = collectives(lambda t, i: t[jnp.arange(8) + shift, i], [BATCH, ((8,), "int32", ("x",))])
    assert found == [("all_gather", "x", 1536)]


CACHE = ((4, 64, 8), "float32", (None, "x"))


@pytest.mark.parametrize("chunk", [1, 5, 40])
def test_a_split_cache_is_updated_in_a_loop_and_nothing_is_sent(chunk: int) -> None:
    def program(cache: Any, places: Any, new: Any) -> Any:
        def step(carry: Any, at: Any) -> Any:
            place, values = at
            return jax.lax.dynamic_update_slice(carry, values, (0, place, 0)), None

        return jax.lax.scan(step, cache, (places, new))[0]

    args = [CACHE, ((6,), "int32", ()), ((6, 4, chunk, 8), "float32", ())]
    assert collectives(program, args, (None, "x")) == []


def test_a_split_cache_is_read_in_a_loop_by_reducing_what_is_read() -> None:
    def program(cache: Any, places: Any) -> Any:
        return jax.lax.scan(lambda c, i: (c, jax.lax.dynamic_slice(c, (0, i, 0), (4, 1, 8))), cache, places)[1]

    cache = ((4, 1024, 8), "float32", (None, "x"))
    # What six steps read is summed once behind the loop, and each device along y keeps half of it.
    assert collectives(program, [cache, ((6,), "int32", ())]) == [("reduce_scatter", "x", 6 * 4 * 8 // 2 * 4 * 3 // 4)]


OPERAND, START = ((128, 64), "float32", ("x",)), ((), "int32", ())


@pytest.mark.parametrize(
    ("split", "collective"),
    [((), ("all_reduce", "x", 6144)), (("x",), ("reduce_scatter", "x", 3072)), (("y",), ("all_reduce", "x", 3072))],
)
def test_a_dynamic_slice_is_reduced_to_where_it_is_wanted(split: Spec, collective: Any) -> None:
    program = lambda t, i: jax.lax.dynamic_slice(t, (i, 0), (16, 64))  # noqa: E731
    assert collectives(program, [OPERAND, START], split) == [collective]


@pytest.mark.parametrize(("split", "sent"), [((), []), (("x",), [("all_gather", "x", 7680)])])
def test_an_update_of_several_shards_is_gathered_and_the_operand_is_not(split: Spec, sent: Any) -> None:
    program = lambda t, u, i: jax.lax.dynamic_update_slice(t, u, (i, 0))  # noqa: E731
    assert collectives(program, [OPERAND, ((40, 64), "float32", split), START], ("x",)) == sent


ONE_ROW = """
sdy.mesh @mesh = <["x"=4]>
func.func public @main(
    %x: tensor<3x1x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}, %i: tensor<5x2xi32>)
    -> tensor<5x4xf32> {
  %0 = "stablehlo.gather"(%x, %i) <{
    dimension_numbers = #stablehlo.gather<
      offset_dims = [1], collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 1, 4>
  }> : (tensor<3x1x4xf32>, tensor<5x2xi32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
"""


def test_one_row_that_is_split_is_counted_once() -> None:
    """Three of four shards are padding."""
    assert gspmd.check(ONE_ROW)


@pytest.mark.parametrize("start", [0, 3, 4, 7])
def test_windows_of_most_of_a_dimension_reach_into_neighbours_only(start: int) -> None:
    """Four rows at most are fetched, and none of the program's values is gathered."""

    def crop(x: Any, i: Any) -> Any:
        return jax.lax.dynamic_slice(x, (i + start, 0), (124, 64))

    def write(x: Any, u: Any, i: Any) -> Any:
        return jax.lax.dynamic_update_slice(x, u, (i + start, 0))

    update = ((124, 64), "float32", ("x",))
    for program, args in ((crop, [OPERAND, START]), (write, [OPERAND, update, START])):
        found = collectives(program, args, ("x",))
        assert {kind for kind, *_ in found} == {"collective_permute"}
        assert sum(sent for *_, sent in found) <= 8 * 64 * 4
