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


# ---- permutes in loops -----------------------------------------------------------------------------


def shift(by: int) -> list[tuple[int, int]]:
    return [(i, (i + by) % 4) for i in range(4)]


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


MERGE, MOVE, COMBINE = (f"gspmd-{name}" for name in ("merge-collectives", "move-permutes", "combine-collectives"))
CASES = [
    Case(gathered_twice, MERGE, {AG: 3}, {AG: 1}),
    Case(reduced_before_and_inside_a_loop, MERGE, {AR: 2}, {AR: 1}, I),
    Case(gathered_along_two_dimensions, MERGE, {AG: 2}, {AG: 2}),
    Case(rotated_in_a_loop, MOVE, {CP: 1}, {CP: 2}, I),
    Case(rotated_and_used_afterwards, MOVE, {CP: 1}, {CP: 1}, I),
    Case(small_ones, COMBINE, {AR: 4, AG: 2, RS: 2}, {AR: 1, AG: 1, RS: 1}),
    Case(one_after_the_other, COMBINE, {AR: 2}, {AR: 2}),
    Case(gathered_and_used_in_turn, COMBINE, {AG: 3}, {AG: 1}),
    Case(reduced_and_used_in_turn, COMBINE, {AR: 2, RS: 2}, {AR: 1, RS: 1}),
    Case(reduced_and_used_by_a_loop, COMBINE, {AR: 2}, {AR: 2}, I),
    Case(reduced_across, COMBINE, {AR: 4}, {AR: 3}, I),
    Case(gathered_from_what_is_computed_later, COMBINE, {AG: 2}, {AG: 1}, I),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.program.__name__)
def test_a_pass_leaves_fewer_collectives_and_the_same_results(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("argument", [A, I], ids=["float", "int"])
def test_all_passes_together_give_the_same_results(argument: Any) -> None:
    programs = [case.program for case in CASES if case.argument is argument]
    every = f"{MERGE},{MOVE},{COMBINE}"
    lowered = jax.jit(lambda a: [program(a) for program in programs]).lower(argument)
    module = localized(lowered)
    PassManager.parse(f"builtin.module({every})").run(module, on_diagnostic=lambda _: None)
    report = gspmd.check(lowered, gspmd.Partitioned(module))
    assert report, report.to_dict()
