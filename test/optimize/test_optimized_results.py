"""Programs whose collectives can be made fewer or smaller: which are left, and that the results stay what they were."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import gspmd
from gspmd.pass_manager import PassManager
from gspmd.reading import read_program
from gspmd.transforms.parsing.mlir import new_context

P = PartitionSpec
AR, AG, RS, CP, A2A = "all_reduce", "all_gather", "reduce_scatter", "collective_permute", "all_to_all"
STAGES = "gspmd-ingest,gspmd-propagate,gspmd-reshard,gspmd-localize"
A = jax.ShapeDtypeStruct((16, 16), jnp.float32)
I = jax.ShapeDtypeStruct((16, 16), jnp.int32)  # noqa: E741
LARGE = jax.ShapeDtypeStruct((64, 16, 32), jnp.float32)
INTEGERS = jax.ShapeDtypeStruct((64, 16, 32), jnp.int32)


def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("x", "y"))


def manual(body: Callable[..., Any], in_specs: Any, out_specs: Any) -> Any:
    return jax.shard_map(body, mesh=mesh(), in_specs=in_specs, out_specs=out_specs, check_vma=False)


@dataclasses.dataclass(frozen=True)
class Case:
    """A program, a pass, and the collectives before and after it."""

    program: Callable[[Any], Any]
    passes: str
    before: dict[str, int]
    after: dict[str, int]
    argument: Any = A


def localized(lowered: Any) -> Any:
    """The module before it is optimized, its equal operations merged."""
    module = read_program(lowered, new_context())
    PassManager.parse(f"builtin.module({STAGES},cse)").run(module)
    return module


def check(case: Case) -> gspmd.Partitioned:
    """Run the pass; the module has the collectives that are expected, and computes the same."""
    lowered = jax.jit(case.program).lower(case.argument)
    module = localized(lowered)
    before = Counter(c.kind for c in gspmd.Partitioned(module).collectives)
    assert before == case.before
    PassManager.parse(f"builtin.module({case.passes})").run(module, on_diagnostic=lambda _: None)
    product = gspmd.Partitioned(module)
    assert Counter(c.kind for c in product.collectives) == case.after
    report = gspmd.check(lowered, product)
    assert report, report.to_dict()
    return product


def own(x: Any, axis: str, dim: int = 0) -> Any:
    """This device's shard."""
    size = x.shape[dim] // jax.lax.axis_size(axis)
    return jax.lax.dynamic_slice_in_dim(x, jax.lax.axis_index(axis) * size, size, dim)


# ---- equal collectives ----------------------------------------------------------------------------


def gathered_twice(a: Any) -> Any:
    def body(x: Any) -> Any:
        first = jax.lax.all_gather(x, "y", axis=0, tiled=True)
        return first, jax.lax.all_gather(x, "y", axis=0, tiled=True) * 2 + jax.lax.all_gather(
            x.reshape(4, 1, 16), "y", axis=0, tiled=True
        ).reshape(16, 16)

    return manual(body, P("y"), (P(), P()))(a)


def reduced_before_and_inside_a_loop(a: Any) -> Any:
    def body(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda _, c: c * jax.lax.psum(x, "y") % 7, jax.lax.psum(x, "y"))

    return manual(body, P("x", "y"), P("x"))(a)


def gathered_along_two_dimensions(a: Any) -> Any:
    def body(x: Any) -> Any:
        return [jax.lax.all_gather(x, "y", axis=dim, tiled=True).sum() for dim in (0, 1)]

    return manual(body, P("y"), [P(), P()])(a)


# ---- reductions and shards ------------------------------------------------------------------------


def reduced_and_cut(a: Any) -> Any:
    return manual(lambda x: own(jax.lax.psum(x, "y"), "y"), P(None, "y"), P("y"))(a)


def reduced_scaled_and_cut(a: Any) -> Any:
    def body(x: Any) -> Any:
        total = jax.lax.psum(x, "y").T.astype(jnp.float64 if x.dtype == jnp.float64 else jnp.float32)
        return own(-total * 3 + jnp.arange(16.0)[None, :], "y", 1)

    return manual(body, P(None, "y"), P(None, "y"))(a)


def reduced_over_more_than_is_cut(a: Any) -> Any:
    return manual(lambda x: own(jax.lax.psum(x, ("x", "y")), "y"), P("x", "y"), P("y"))(a)


def cut_along_two_dimensions(a: Any) -> Any:
    def body(x: Any) -> Any:
        return own(own(jax.lax.psum(jnp.tile(x, (4, 4)), ("x", "y")), "y"), "x", 1)

    return manual(body, P("x", "y"), P("y", "x"))(a)


def reduced_and_cut_in_a_loop(a: Any) -> Any:
    def body(x: Any) -> Any:
        def step(_: Any, c: Any) -> Any:
            return c + own(jax.lax.psum(c @ jnp.ones((4, 16), c.dtype), "y"), "y", 1) % 5

        return jax.lax.fori_loop(0, 3, step, x)

    return manual(body, P(None, "y"), P(None, "y"))(a)


def the_whole_sum_is_used_too(a: Any) -> Any:
    def body(x: Any) -> Any:
        total = jax.lax.psum(x, "y")
        return own(total, "y"), total.sum()

    return manual(body, P(None, "y"), (P("y"), P()))(a)


def another_shard_than_the_own_one(a: Any) -> Any:
    def body(x: Any) -> Any:
        total = jax.lax.psum(x, "y")
        return jax.lax.dynamic_slice_in_dim(total, (jax.lax.axis_index("y") + 1) % 4 * 4, 4)

    return manual(body, P(None, "y"), P("y"))(a)


def scattered_and_gathered(a: Any) -> Any:
    def body(x: Any) -> Any:
        part = jax.lax.psum_scatter(x, "y", scatter_dimension=0, tiled=True)
        return jax.lax.all_gather(part, "y", axis=0, tiled=True)

    return manual(body, P(None, "y"), P())(a)


def gathered_and_cut(a: Any) -> Any:
    def body(x: Any) -> Any:
        whole = jax.lax.all_gather(x, ("x", "y"), axis=0, tiled=True)
        return own(whole, "x"), own(own(whole, "x"), "y") * 2

    return manual(body, P(("x", "y")), (P("x"), P(("x", "y"))))(a)


# ---- sums of reductions ---------------------------------------------------------------------------


def sum_of_reductions(a: Any) -> Any:
    def body(x: Any) -> Any:
        return 3 * jax.lax.psum(x, "y") - jax.lax.psum(jnp.sin(x).T, "y").T / 4 + jax.lax.psum(x * x, "y")

    return manual(body, P(None, "y"), P())(a)


def reduction_of_a_reduction(a: Any) -> Any:
    return manual(lambda x: jax.lax.psum(-2 * jax.lax.psum(x, "y").T, "x"), P("x", "y"), P())(a)


def sum_of_reductions_over_different_axes(a: Any) -> Any:
    return manual(lambda x: jax.lax.psum(x, "y") + jax.lax.psum(x, "x"), P("x", "y"), P(("x", "y")))(a)


def one_of_the_reductions_is_used_elsewhere(a: Any) -> Any:
    def body(x: Any) -> Any:
        kept = jax.lax.psum(x, "y")
        return kept + jax.lax.psum(x * x, "y"), kept * kept

    return manual(body, P(None, "y"), (P(), P()))(a)


# ---- loops ----------------------------------------------------------------------------------------


def invariant_in_a_loop(a: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        def step(_: Any, carry: Any) -> Any:
            c, kept = carry
            whole = jax.lax.all_gather(w.T * 2, "y", axis=0, tiled=True)
            return jnp.sin(c @ whole) + jax.lax.psum(kept, "y").sum(), kept

        return jax.lax.fori_loop(0, 3, step, (x, w))[0]

    return manual(body, (P(), P(None, "y")), P())(a, a)


def invariant_in_nested_loops(a: Any) -> Any:
    def body(x: Any) -> Any:
        def inner(_: Any, c: Any) -> Any:
            return jnp.sin(c + jax.lax.psum(x, "y"))

        return jax.lax.fori_loop(0, 2, lambda _, c: jax.lax.fori_loop(0, 2, inner, c) * 2, x)

    return manual(body, P(None, "y"), P(None, "y"))(a)


def layers_gathered_one_by_one(a: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        def step(c: Any, layer: Any) -> Any:
            return jnp.sin(c * jax.lax.all_gather(layer, "y", axis=0, tiled=True)), None

        return jax.lax.scan(step, x, w)[0]

    return manual(body, (P(), P(None, "y")), P())(a[0], a)


def accumulated(a: Any) -> Any:
    """Three sums: one that begins at 1, one of two reductions, one of a loop in the loop."""

    def body(x: Any) -> Any:
        def inner(i: Any, total: Any) -> Any:
            return total + jax.lax.psum(x * i, "y")

        def step(i: Any, carry: Any) -> Any:
            one, two, nested = carry
            two = two + jax.lax.psum(x + i, "y") * 2 - jax.lax.psum(x * i, "y").T.T
            return one + jax.lax.psum(x * (i + 1), "y"), two, jax.lax.fori_loop(0, 2, inner, nested)

        return jax.lax.fori_loop(0, 3, step, (jnp.ones_like(x), jnp.zeros_like(x), jnp.zeros_like(x)))

    return manual(body, P(None, "y"), (P(), P(), P()))(a)


def accumulated_and_looked_at(a: Any) -> Any:
    def body(x: Any) -> Any:
        def step(_: Any, total: Any) -> Any:
            return total + jax.lax.psum(x * total[0, 0], "y")

        return jax.lax.fori_loop(0, 3, step, jnp.ones_like(x))

    return manual(body, P(None, "y"), P())(a)


# ---- narrow and wide ------------------------------------------------------------------------------


def narrowed_after_the_gather(a: Any) -> Any:
    def body(x: Any) -> Any:
        whole = jax.lax.all_gather(x, "y", axis=0, tiled=True).astype(jnp.bfloat16)
        turned = jax.lax.all_to_all(x.reshape(4, 4, 4), "y", 1, 0, tiled=True)[:, :, 1:3]
        return whole, turned

    return manual(body, P("y"), (P(), P("y")))(a)


def widened_before_the_gather(a: Any) -> Any:
    def body(x: Any) -> Any:
        narrow = x.astype(jnp.bfloat16)
        wide = jnp.pad(jnp.broadcast_to(narrow[:, None, :], (4, 3, 16)).astype(jnp.float32), ((0, 0), (0, 0), (1, 2)))
        return jax.lax.all_gather(wide, "y", axis=0, tiled=True)

    return manual(body, P("y"), P())(a)


# ---- permutes -------------------------------------------------------------------------------------


def shift(by: int) -> list[tuple[int, int]]:
    return [(i, (i + by) % 4) for i in range(4)]


def permutes(a: Any) -> Any:
    def body(x: Any) -> Any:
        there = jax.lax.ppermute(jax.lax.ppermute(x, "y", shift(1)), "y", [(0, 2), (2, 3)])
        back = jax.lax.ppermute(jax.lax.ppermute(x * 2, "y", shift(1)), "y", shift(3))
        same = jax.lax.ppermute(jnp.ones((16, 4)), "y", shift(1))
        return there + back * same

    return manual(body, P(None, "y"), P(None, "y"))(a)


def nobody_receives(a: Any) -> Any:
    def body(x: Any) -> Any:
        return x + jax.lax.ppermute(jax.lax.ppermute(x, "y", [(0, 1)]), "y", [(2, 3)])

    return manual(body, P(None, "y"), P(None, "y"))(a)


def exchanged_between_two(a: Any) -> Any:
    def body(x: Any) -> Any:
        return jax.lax.ppermute(x, "y", [(0, 1), (2, 3)]) + jax.lax.ppermute(x, "y", [(1, 0), (3, 2)])

    return manual(body, P(None, "y"), P(None, "y"))(a)


def both_neighbours(a: Any) -> Any:
    def body(x: Any) -> Any:
        return jax.lax.ppermute(x, "y", shift(1)) + jax.lax.ppermute(x, "y", shift(3))

    return manual(body, P(None, "y"), P(None, "y"))(a)


def rotated_in_a_loop(a: Any) -> Any:
    """What travels is added up on every device it passes; where it is in the end nobody asks."""

    def body(x: Any) -> Any:
        def step(_: Any, carry: Any) -> Any:
            moving, total = carry
            total = total * 2 + moving
            return jax.lax.ppermute(moving + 1, "y", shift(1)), total

        return jax.lax.fori_loop(0, 5, step, (x, x))[1]

    return manual(body, P(None, "y"), P(None, "y"))(a)


def rotated_and_used_afterwards(a: Any) -> Any:
    def body(x: Any) -> Any:
        return jax.lax.fori_loop(0, 5, lambda _, c: jax.lax.ppermute(c + 1, "y", shift(1)), x)

    return manual(body, P(None, "y"), P(None, "y"))(a)


# ---- small ones -----------------------------------------------------------------------------------


def small_ones(a: Any) -> Any:
    def body(x: Any) -> Any:
        sums = [jax.lax.psum(x * i, "y") for i in range(3)] + [jax.lax.psum(x[0] + 1, "y")]
        gathered = [jax.lax.all_gather(x[:3] + i, "y", axis=i, tiled=True) for i in range(2)]
        parts = [jax.lax.psum_scatter(jnp.tile(x, (i, i)), "y", scatter_dimension=i - 1, tiled=True) for i in (1, 2)]
        return sums, gathered, parts

    specs = ([P()] * 4, [P(), P()], [P("y"), P(None, "y")])
    return manual(body, P(None, "y"), specs)(a)


def one_after_the_other(a: Any) -> Any:
    def body(x: Any) -> Any:
        return jax.lax.psum(jnp.sin(jax.lax.psum(x, "y")), "y")

    return manual(body, P(None, "y"), P())(a)


def gathered_and_used_in_turn(a: Any) -> Any:
    def body(x: Any) -> Any:
        first = jnp.sin(jax.lax.all_gather(x[:2], "y", axis=0, tiled=True))
        second = jnp.cos(jax.lax.all_gather(x[2:4].reshape(8), "y", axis=0, tiled=True))
        return first, second, jax.lax.all_gather(x[4:].T, "y", axis=1, tiled=True)

    return manual(body, P(None, "y"), (P(), P(), P()))(a)


def reduced_and_used_in_turn(a: Any) -> Any:
    def body(x: Any) -> Any:
        first = jax.lax.psum(x, "y") * 3
        second = jax.lax.psum(x + 1, "y") - first
        parts = [jax.lax.psum_scatter(jnp.tile(x, (1, n)), "y", scatter_dimension=0, tiled=True) for n in (1, 2)]
        return first, second, parts[0] * 2, parts[1]

    return manual(body, P(None, "y"), (P(), P(), P("y"), P("y")))(a)


def reduced_and_used_by_a_loop(a: Any) -> Any:
    def body(x: Any) -> Any:
        first = jax.lax.psum(x, "y")
        count = jax.lax.fori_loop(0, first[0, 0] % 4, lambda _, n: n + first[1, 1], 0)
        return count, jax.lax.psum(x + 1, "y")

    return manual(body, P(None, "y"), (P(), P()))(a)


def reduced_across(a: Any) -> Any:
    def body(x: Any) -> Any:
        one = jax.lax.psum(jax.lax.psum(x, "y") % 7, "x")
        return one, jax.lax.psum(jax.lax.psum(x + 1, "x") % 5, "y")

    return manual(body, P("x", "y"), (P(), P()))(a)


def gathered_from_what_is_computed_later(a: Any) -> Any:
    def body(x: Any) -> Any:
        first = jax.lax.all_gather(x, "y", axis=0, tiled=True)
        return first[0], jax.lax.all_gather(jnp.cumsum(x, 0), "y", axis=1, tiled=True)

    return manual(body, P(None, "y"), (P(), P()))(a)


# ---- moved in parts -------------------------------------------------------------------------------


def _exchanged(x: Any, split: int, concat: int) -> Any:
    return jax.lax.all_to_all(x, "x", split, concat, tiled=True)


def summed_and_exchanged(a: Any) -> Any:
    def body(x: Any) -> Any:
        return _exchanged(jax.lax.psum(x, "y"), 1, 0)

    return manual(body, P("x", None, "y"), P(None, "x"))(a)


def largest_turned_around_and_permuted(a: Any) -> Any:
    def body(x: Any) -> Any:
        return jax.lax.ppermute(-jax.lax.pmax(x, "y").transpose(2, 0, 1), "x", [(0, 1), (1, 0)])

    return manual(body, P("x", "y"), P(None, "x"))(a)


def summed_and_permuted_small(a: Any) -> Any:
    def body(x: Any) -> Any:
        return jax.lax.ppermute(jax.lax.psum(x, "y"), "x", [(0, 1), (1, 0)])

    return manual(body, P("x", "y"), P("x"))(a)


def summed_and_sent_to_one(a: Any) -> Any:
    def body(x: Any) -> Any:
        return jax.lax.ppermute(jax.lax.psum(x, "y"), "x", [(0, 1)])

    return manual(body, P("x", "y"), P("x"))(a)


def gathered_and_exchanged(a: Any) -> Any:
    def body(x: Any) -> Any:
        return _exchanged(jax.lax.all_gather(x, "y", axis=1, tiled=True).transpose(1, 2, 0), 1, 2)

    return manual(body, P("x", "y"), P(None, "x"))(a)


def gathered_and_exchanged_along_the_same_dimension(a: Any) -> Any:
    def body(x: Any) -> Any:
        return _exchanged(jax.lax.all_gather(x, "y", axis=1, tiled=True), 1, 2)

    return manual(body, P("x", "y"), P(None, "x"))(a)


def summed_exchanged_and_used_elsewhere(a: Any) -> Any:
    def body(x: Any) -> Any:
        whole = jax.lax.psum(x, "y")
        return _exchanged(whole, 1, 0), whole

    return manual(body, P("x", None, "y"), (P(None, "x"), P("x")))(a)


def summed_and_permuted_to_other_positions(a: Any) -> Any:
    def body(x: Any) -> Any:
        return jax.lax.ppermute(jax.lax.psum(x, "y"), ("x", "y"), [(i, 7 - i) for i in range(8)])

    return manual(body, P("x", "y"), P("x"))(a)


def summed_and_permuted_at_some_positions(a: Any) -> Any:
    def body(x: Any) -> Any:
        return jax.lax.ppermute(jax.lax.psum(x, "y"), ("x", "y"), [(0, 4), (1, 5), (4, 0), (5, 1)])

    return manual(body, P("x", "y"), P(("x", "y")))(a)


def summed_over_what_it_is_exchanged_along(a: Any) -> Any:
    def body(x: Any) -> Any:
        return _exchanged(jax.lax.psum(x, ("x", "y")), 1, 0)

    return manual(body, P("x", None, "y"), P(None, "x"))(a)


def gathered_rows_of_products_that_differ(a: Any) -> Any:
    def body(x: Any) -> Any:
        return jnp.einsum("abc,c->ab", jax.lax.all_gather(x, "y", axis=1, tiled=True), x[0, 0])[None]

    return manual(body, P("x", "y"), P("y", "x"))(a)


def gathered_and_summed_over(a: Any) -> Any:
    def body(x: Any) -> Any:
        whole = jax.lax.all_gather(x, "y", axis=1, tiled=True)
        return jnp.einsum("abc,b->ac", whole, jnp.arange(16, dtype=x.dtype))

    return manual(body, P("x", "y"), P("x"))(a)


MERGE, FUSE, DELAY, LOOPS, HOIST, NARROW, PERMUTES, MOVE, COMBINE, PARTS = (
    f"gspmd-{name}"
    for name in (
        "merge-collectives",
        "fuse-collectives",
        "delay-reductions",
        "reduce-after-loops",
        "hoist-collectives",
        "narrow-collectives",
        "simplify-permutes",
        "move-permutes",
        "combine-collectives",
        "move-in-parts",
    )
)
CASES = [
    Case(gathered_twice, MERGE, {AG: 3}, {AG: 1}),
    Case(reduced_before_and_inside_a_loop, MERGE, {AR: 2}, {AR: 1}, I),
    Case(gathered_along_two_dimensions, MERGE, {AG: 2}, {AG: 2}),
    Case(reduced_and_cut, FUSE, {AR: 1}, {RS: 1}),
    Case(reduced_scaled_and_cut, FUSE, {AR: 1}, {RS: 1}),
    Case(reduced_over_more_than_is_cut, FUSE, {AR: 1}, {RS: 1, AR: 1}, I),
    Case(cut_along_two_dimensions, FUSE, {AR: 1}, {RS: 2}, I),
    Case(reduced_and_cut_in_a_loop, FUSE, {AR: 1}, {RS: 1}, I),
    Case(the_whole_sum_is_used_too, FUSE, {AR: 1}, {AR: 1}),
    Case(another_shard_than_the_own_one, FUSE, {AR: 1}, {AR: 1}),
    Case(scattered_and_gathered, FUSE, {RS: 1, AG: 1}, {AR: 1}),
    Case(gathered_and_cut, FUSE, {AG: 1}, {AG: 1}),
    Case(sum_of_reductions, DELAY, {AR: 3}, {AR: 1}),
    Case(reduction_of_a_reduction, DELAY, {AR: 2}, {AR: 1}, I),
    Case(sum_of_reductions_over_different_axes, DELAY, {AR: 2}, {AR: 2}),
    Case(one_of_the_reductions_is_used_elsewhere, DELAY, {AR: 2}, {AR: 2}),
    Case(invariant_in_a_loop, HOIST, {AG: 2, AR: 1}, {AG: 2, AR: 1}),
    Case(invariant_in_nested_loops, HOIST, {AR: 1}, {AR: 1}),
    Case(layers_gathered_one_by_one, HOIST, {AG: 2}, {AG: 2}),
    Case(accumulated, LOOPS, {AR: 4}, {AR: 3}, I),
    Case(accumulated_and_looked_at, LOOPS, {AR: 1}, {AR: 1}, I),
    Case(narrowed_after_the_gather, NARROW, {AG: 1, A2A: 1}, {AG: 1, A2A: 1}),
    Case(widened_before_the_gather, NARROW, {AG: 1}, {AG: 1}),
    Case(permutes, PERMUTES, {CP: 5}, {CP: 1}),
    Case(nobody_receives, PERMUTES, {CP: 2}, {}),
    Case(exchanged_between_two, PERMUTES, {CP: 2}, {CP: 1}),
    Case(both_neighbours, PERMUTES, {CP: 2}, {CP: 2}),
    Case(rotated_in_a_loop, MOVE, {CP: 1}, {CP: 2}, I),
    Case(rotated_and_used_afterwards, MOVE, {CP: 1}, {CP: 1}, I),
    Case(small_ones, COMBINE, {AR: 4, AG: 2, RS: 2}, {AR: 1, AG: 1, RS: 1}),
    Case(one_after_the_other, COMBINE, {AR: 2}, {AR: 2}),
    Case(gathered_and_used_in_turn, COMBINE, {AG: 3}, {AG: 1}),
    Case(reduced_and_used_in_turn, COMBINE, {AR: 2, RS: 2}, {AR: 1, RS: 1}),
    Case(reduced_and_used_by_a_loop, COMBINE, {AR: 2}, {AR: 2}, I),
    Case(reduced_across, COMBINE, {AR: 4}, {AR: 3}, I),
    Case(gathered_from_what_is_computed_later, COMBINE, {AG: 2}, {AG: 1}, I),
    Case(summed_and_exchanged, PARTS, {AR: 1, A2A: 1}, {RS: 1, A2A: 1, AG: 1}, LARGE),
    Case(largest_turned_around_and_permuted, PARTS, {AR: 1, CP: 1}, {RS: 1, CP: 1, AG: 1}, LARGE),
    Case(summed_and_permuted_small, PARTS, {AR: 1, CP: 1}, {AR: 1, CP: 1}),
    Case(summed_and_sent_to_one, PARTS, {AR: 1, CP: 1}, {RS: 1, CP: 1, AG: 1}, INTEGERS),
    Case(gathered_and_exchanged, PARTS, {AG: 1, A2A: 1}, {AG: 1, A2A: 1}, INTEGERS),
    Case(gathered_and_exchanged_along_the_same_dimension, PARTS, {AG: 1, A2A: 1}, {AG: 1, A2A: 1}, LARGE),
    Case(summed_exchanged_and_used_elsewhere, PARTS, {AR: 1, A2A: 1}, {AR: 1, A2A: 1}, LARGE),
    Case(summed_and_permuted_to_other_positions, PARTS, {AR: 1, CP: 1}, {AR: 1, CP: 1}, LARGE),
    Case(summed_and_permuted_at_some_positions, PARTS, {AR: 1, CP: 1}, {AR: 1, CP: 1}, LARGE),
    Case(summed_over_what_it_is_exchanged_along, PARTS, {AR: 1, A2A: 1}, {AR: 1, A2A: 1}, LARGE),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.program.__name__)
def test_a_pass_leaves_fewer_collectives_and_the_same_results(case: Case) -> None:
    check(case)


def _product(program: Callable[[Any], Any], passes: str, argument: Any = A) -> gspmd.Partitioned:
    module = localized(jax.jit(program).lower(argument))
    PassManager.parse(passes).run(module, on_diagnostic=lambda _: None)
    return gspmd.Partitioned(module)


def test_what_is_moved_in_parts_is_sent_once() -> None:
    """An exchange between 2 devices of what 4 others have too sends a fourth."""

    def sent(program: Callable[[Any], Any], passes: str, argument: Any, kind: str) -> list[float]:
        return [c.bytes for c in _product(program, passes, argument).collectives if c.kind == kind]

    for program, kind, argument in (
        (summed_and_exchanged, A2A, LARGE),
        (largest_turned_around_and_permuted, CP, LARGE),
        (summed_and_sent_to_one, CP, INTEGERS),
        (gathered_and_exchanged, A2A, INTEGERS),
    ):
        (whole,), (part,) = sent(program, "cse", argument, kind), sent(program, PARTS, argument, kind)
        assert part == whole / 4


def test_what_is_moved_out_of_loops_runs_once() -> None:
    for program in (invariant_in_a_loop, invariant_in_nested_loops):
        assert {c.count for c in _product(program, HOIST).collectives} == {1}
    assert {c.count for c in _product(layers_gathered_one_by_one, HOIST).collectives} == {1, 16}
    assert {c.count for c in _product(invariant_in_a_loop, f"{HOIST}{{hoist-max-bytes=0}}").collectives} == {1, 3}


def test_what_loops_accumulate_is_reduced_once() -> None:
    assert {c.count for c in _product(accumulated, LOOPS, I).collectives} == {1}


def test_narrowed_collectives_send_less() -> None:
    for program, before, after in (
        (narrowed_after_the_gather, (768, 192), (384, 96)),
        (widened_before_the_gather, (4 * 3 * 19 * 4 * 3,), (4 * 16 * 2 * 3,)),
    ):
        assert tuple(c.bytes for c in _product(program, "cse").collectives) == before
        assert tuple(c.bytes for c in _product(program, NARROW).collectives) == after


@pytest.mark.parametrize("argument", [A, I, LARGE, INTEGERS], ids=["float", "int", "large", "integers"])
def test_all_passes_together_give_the_same_results(argument: Any) -> None:
    programs = [case.program for case in CASES if case.argument is argument]
    every = f"{MERGE},{NARROW},{FUSE},{DELAY},{LOOPS},{MOVE},{PARTS},{PERMUTES},{HOIST},{COMBINE}"
    lowered = jax.jit(lambda a: [program(a) for program in programs]).lower(argument)
    module = localized(lowered)
    PassManager.parse(f"builtin.module({every})").run(module, on_diagnostic=lambda _: None)
    report = gspmd.check(lowered, gspmd.Partitioned(module))
    assert report, report.to_dict()
