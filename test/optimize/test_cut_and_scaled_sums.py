"""Sums cut along more axes than they are reduced over, or inside a branch, and sums scaled with runtime numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import gspmd

AXES = {"x": 2, "y": 4}
ROWS, COLUMNS = 16, 24


def lowered(body: Callable[..., Any], out: Any, *types: Any, specs: Any = None) -> Any:
    """A program of one device along all axes, of an f32 matrix and of scalars."""
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(tuple(AXES.values())), tuple(AXES))
    specs = (P(None, ("x", "y")), *[P()] * len(types)) if specs is None else specs
    whole = jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)
    return jax.jit(whole).lower(jnp.zeros((ROWS, COLUMNS)), *types)


def own(value: Any, *axes: str) -> Any:
    """This device's shard of the rows, split over the axes."""
    index, count = 0, 1
    for axis in axes:
        index, count = index * AXES[axis] + jax.lax.axis_index(axis), count * AXES[axis]
    size = value.shape[0] // count
    return jax.lax.dynamic_slice_in_dim(value, index * size, size)


def sent(program: Any, **options: Any) -> dict[str, int]:
    """Bytes by kind of what is partitioned, and right."""
    partitioned = gspmd.partition(program, options=options)
    assert gspmd.check(program, partitioned)
    return gspmd.cost(partitioned).bytes_by_kind


MATRIX = ROWS * COLUMNS // 8 * 4  # bytes of what a device has


@pytest.mark.parametrize("order", [("x", "y"), ("y", "x")], ids="".join)
def test_a_sum_over_one_axis_cut_along_two_is_cut_along_the_other_first(order: tuple[str, str]) -> None:
    program = lowered(lambda a: own(jax.lax.psum(jnp.sin(a), "y"), *order), P(order, None))
    assert sent(program) == {"reduce_scatter": MATRIX // 2 * 3 // 4}


def test_a_sum_over_two_axes_cut_along_one_is_scattered_and_reduced() -> None:
    program = lowered(lambda a: own(jax.lax.psum(jnp.sin(a), ("x", "y")), "y"), P("y", None))
    assert sent(program) == {"reduce_scatter": MATRIX * 3 // 4, "all_reduce": MATRIX // 4}


def test_a_sum_of_which_a_branch_uses_the_own_shard_is_scattered_before() -> None:
    def body(a: Any, p: Any) -> Any:
        total = jax.lax.psum(jnp.sin(a), "y")
        return jax.lax.cond(p, lambda: own(total * 2.0, "y"), lambda: jnp.ones((ROWS // 4, a.shape[1])))

    program = lowered(body, P("y", "x"), jnp.bool_(True), specs=(P(None, ("x", "y")), P()))
    assert sent(program) == {"reduce_scatter": MATRIX * 3 // 4}


# ---- sums scaled with a number that is known when the program runs ----


def scaled(element: Any, divide: bool = False) -> Any:
    def body(a: Any, factor: Any) -> Any:
        a = (a * 8).astype(element)
        left, right = jax.lax.psum(a, "y"), jax.lax.psum(a + 1, "y")
        return (left / factor if divide else left * factor) + right

    return lowered(body, P(None, "x"), jnp.ones((), element), specs=(P(None, ("x", "y")), P()))


@pytest.mark.parametrize("divide", [False, True])
def test_floats_scaled_with_a_number_that_may_be_infinite_are_reduced_before(divide: bool) -> None:
    assert sent(scaled(jnp.float32, divide)) == {"all_reduce": 2 * 2 * MATRIX * 3 // 4}
    assert sent(scaled(jnp.float32, divide), assume_finite=True) == {"all_reduce": 2 * MATRIX * 3 // 4}


def test_integers_scaled_with_any_number_are_reduced_once() -> None:
    assert sent(scaled(jnp.int32)) == {"all_reduce": 2 * MATRIX * 3 // 4}


def test_sums_scaled_with_what_each_device_has_are_reduced_before() -> None:
    def body(a: Any) -> Any:
        factor = jax.lax.axis_index("y").astype(jnp.int32)
        whole = (a * 8).astype(jnp.int32)
        return jax.lax.psum(whole, "y") * factor + jax.lax.psum(whole + 1, "y")

    program = lowered(body, P("y", "x"), specs=(P(None, ("x", "y")),))
    assert sent(program, assume_finite=True) == {"all_reduce": 2 * 2 * MATRIX * 3 // 4}
