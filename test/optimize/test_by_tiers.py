"""Collectives that cross slices or hosts: done in tiers where that takes less time, with the same result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

import gspmd

# Eight devices in two slices, with the slice as the most major, the most minor and the middle digit of their numbers.
OUTSIDE_FIRST, INSIDE_FIRST, BETWEEN = (f"tpu:v5e:2x2*2@{order}" for order in ("S2.X2.Y2", "X2.Y2.S2", "X2.S2.Y2"))
EVERY = pytest.mark.parametrize("target", [OUTSIDE_FIRST, INSIDE_FIRST, BETWEEN])
Program = Any


def lowered(body: Callable[[Any], Any], into: Any, out: Any, shape: tuple[int, ...], dtype: Any = jnp.int32) -> Program:
    """A computation by eight devices along the axes a (2) and b (4)."""
    mesh = jax.make_mesh((2, 4), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    whole = jax.shard_map(body, mesh=mesh, in_specs=into, out_specs=out, check_vma=False)
    return jax.jit(whole).lower(jnp.zeros(shape, dtype))


def steps(program: Program, target: str) -> list[tuple[str, str]]:
    """The collectives of what is partitioned for a target, and right; it takes less time there than without."""
    partitioned = gspmd.partition(program, target=target)
    assert gspmd.check(program, partitioned)
    flat = gspmd.cost(gspmd.partition(program), target=target)
    tiered = gspmd.cost(partitioned, target=target)
    found = [(each.collective.kind, each.collective.axes.replace('"', "")) for each in tiered.collectives]
    if len(found) > 1:
        assert tiered.communication_s < flat.communication_s
    return found


@EVERY
def test_a_large_sum_is_scattered_inside_summed_across_and_gathered_inside(target: str) -> None:
    program = lowered(lambda x: jax.lax.psum(x, ("a", "b")), P(("a", "b")), P(), (2**15, 128))
    inside, outside = {
        OUTSIDE_FIRST: ("b", "a"),
        INSIDE_FIRST: ("a, b:(1)2", "b:(2)2"),
        BETWEEN: ("a, b:(2)2", "b:(1)2"),
    }[target]
    assert steps(program, target) == [("reduce_scatter", inside), ("all_reduce", outside), ("all_gather", inside)]


@EVERY
@pytest.mark.parametrize("dim", [0, 1])
def test_what_is_scattered_and_gathered_in_tiers_keeps_its_order(target: str, dim: int) -> None:
    axes = "a", "b"
    parts = P(*([None] * dim), axes)
    scattered = lowered(
        lambda x: jax.lax.psum_scatter(x, axes, scatter_dimension=dim, tiled=True), P(), parts, (4096, 1024)
    )
    gathered = lowered(lambda x: jax.lax.all_gather(x, axes, axis=dim, tiled=True), parts, P(), (4096, 1024))
    assert [kind for kind, _ in steps(scattered, target)] == ["reduce_scatter"] * 2
    assert [kind for kind, _ in steps(gathered, target)] == ["all_gather"] * 2


def test_a_small_sum_is_one_collective() -> None:
    program = lowered(lambda x: jax.lax.psum(x, ("a", "b")), P(("a", "b")), P(), (64, 128))
    assert steps(program, OUTSIDE_FIRST) == [("all_reduce", "a, b")]


def test_a_sum_inside_is_one_collective() -> None:
    program = lowered(lambda x: jax.lax.psum(x, "b"), P("b"), P(), (2**15, 128))
    assert steps(program, OUTSIDE_FIRST) == [("all_reduce", "b")]


def test_what_devices_inside_have_alike_is_summed_outside_in_parts() -> None:
    program = lowered(lambda x: jax.lax.psum(x, "a"), P("a"), P(), (2**15, 128))
    assert steps(program, OUTSIDE_FIRST) == [("all_reduce", "a"), ("all_gather", "b")]


def test_other_combiners_are_kept() -> None:
    program = lowered(lambda x: jax.lax.pmax(x, ("a", "b")), P(("a", "b")), P(), (2**15, 128))
    assert len(steps(program, OUTSIDE_FIRST)) == 3


def test_what_no_dimension_divides_is_one_collective_and_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    program = lowered(lambda x: jax.lax.psum(x, ("a", "b")), P(), P(), (2**10 + 1, 129))
    options = {"tell_declined": True}
    partitioned = gspmd.partition(program, target=OUTSIDE_FIRST, options=options)
    assert [each.kind for each in partitioned.collectives] == ["all_reduce"]
    assert "no dimension is a multiple of the 4 devices of a domain" in capfd.readouterr().err


def test_a_training_step_over_two_slices_sends_less_across() -> None:
    """Batch over slices and inside them: the gradients are summed in tiers."""

    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        return (jnp.tanh(x @ w) ** 2).mean()

    step = gspmd.jit(
        lambda w, x: w - jax.grad(loss)(w, x),
        mesh={"a": 2, "b": 4},
        in_shardings=(P(), P(("a", "b"))),
        out_shardings=P(),
        target=OUTSIDE_FIRST,
    )
    shapes = jax.ShapeDtypeStruct((1024, 1024), jnp.float32), jax.ShapeDtypeStruct((4096, 1024), jnp.float32)
    program = step.lower(*shapes)
    assert [each.kind for each in program.partitioned.collectives][-3:] == [
        "reduce_scatter",
        "all_reduce",
        "all_gather",
    ]
    assert gspmd.check(program.program, program.partitioned)
