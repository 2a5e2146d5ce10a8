"""Constraints and manual computations over other meshes than the program's, of as many devices or of fewer."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

import gspmd

P = PartitionSpec
VALUES = np.arange(256, dtype=np.float32).reshape(16, 16)


def _mesh(**axes: int) -> AbstractMesh:
    return AbstractMesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))


def _lowered(function: Any) -> Any:
    """The function over eight devices, of which the argument's mesh has 4 x 2."""
    whole = Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("x", "y"))
    shape = jax.ShapeDtypeStruct(VALUES.shape, jnp.float32)
    return jax.jit(function, in_shardings=NamedSharding(whole, P("x", "y"))).lower(shape)


OTHERS = {
    "one axis of it": _mesh(x=4),
    "the other axis": _mesh(y=2),
    "an axis of the same size": _mesh(b=4),
    "one of size 1, too": _mesh(u=1, b=2),
    "parts of axes": _mesh(a=2, b=2),
    "all devices as one axis": _mesh(b=8),
    "other names": _mesh(a=4, b=2),
    "another order": _mesh(y=2, x=4),
    "other sizes": _mesh(a=2, b=4),
}


@pytest.mark.parametrize("mesh", OTHERS.values(), ids=OTHERS)
def test_constraints(mesh: AbstractMesh) -> None:
    spec = P(*mesh.axis_names[::-1])
    lowered = _lowered(lambda a: lax.with_sharding_constraint(a * 2, NamedSharding(mesh, spec)) + 1)
    assert gspmd.partition(lowered).num_partitions == 8
    assert gspmd.check(lowered).passed


def _body(b: Any, axis: str) -> Any:
    """Asks where it is, sends to the next, sums and gathers."""
    count = lax.axis_size(axis)
    b = b * (lax.axis_index(axis).astype(jnp.float32) + 1)
    b = lax.ppermute(b, axis, [(i, (i + 1) % count) for i in range(count)])
    return lax.psum(b, axis) + lax.psum(lax.all_gather(b, axis, tiled=True), axis).sum(0)


@pytest.mark.parametrize("mesh", OTHERS.values(), ids=OTHERS)
def test_manual_computations(mesh: AbstractMesh) -> None:
    axis = mesh.axis_names[-1]
    manual = jax.shard_map(
        lambda b: _body(b, axis),
        mesh=mesh,
        in_specs=P(axis),
        out_specs=P(),
        axis_names={*mesh.axis_names},
        check_vma=False,
    )
    lowered = _lowered(lambda a: manual(a) * 2)
    count = mesh.shape[axis]
    parts = VALUES.reshape(count, 16 // count, 16) * (np.arange(count, dtype=np.float32) + 1)[:, None, None]
    parts = np.roll(parts, 1, 0)
    expected = 2 * (parts.sum(0) + count * parts.reshape(16, 16).sum(0))
    (result,) = gspmd.compile(gspmd.partition(lowered))(VALUES)
    for shard in result.shards:
        np.testing.assert_array_equal(shard.to_numpy(), expected[shard.index])
    assert gspmd.check(lowered).passed


def test_axes_that_a_smaller_mesh_does_not_hold_stay_free() -> None:
    """Manual along one of its axes only: the other one and the copies are the partitioner's."""
    mesh = _mesh(x=2, y=2)
    manual = jax.shard_map(
        lambda b: lax.psum(b, "y"), mesh=mesh, in_specs=P("y"), out_specs=P(), axis_names={"y"}, check_vma=False
    )
    lowered = _lowered(manual)
    (result,) = gspmd.compile(gspmd.partition(lowered))(VALUES)
    np.testing.assert_array_equal(result.to_numpy(), VALUES.reshape(2, 8, 16).sum(0))


def test_what_does_not_divide_is_refused_where_it_is_asked_for() -> None:
    lowered = _lowered(lambda a: lax.with_sharding_constraint(a, NamedSharding(_mesh(b=3), P(None))))
    with pytest.raises(
        gspmd.Error, match=r"test_meshes.py:\d+:\d+: error: .* a mesh of 3 devices in a program of 8; use"
    ):
        gspmd.partition(lowered)


def test_several_meshes_of_one_size() -> None:
    """The argument, a constraint, a manual computation and the result are each over a mesh of their own."""
    devices = np.array(jax.devices()[:8])
    whole = Mesh(devices.reshape(4, 2), ("x", "y"))
    result = NamedSharding(Mesh(devices.reshape(2, 2, 2), ("i", "j", "k")), P(None, ("k", "i")))

    def function(a: Any) -> Any:
        a = lax.with_sharding_constraint(a * 2, NamedSharding(_mesh(r=2, s=4), P("s", "r")))
        summed = jax.shard_map(lambda b: lax.psum(b, "p"), mesh=_mesh(p=8), in_specs=P("p"), out_specs=P())(a)
        return a + jnp.tile(summed, (8, 1))

    shape = jax.ShapeDtypeStruct(VALUES.shape, jnp.float32)
    lowered = jax.jit(function, in_shardings=NamedSharding(whole, P("y", "x")), out_shardings=result).lower(shape)
    assert gspmd.check(lowered).passed
    (found,) = gspmd.compile(gspmd.partition(lowered))(VALUES)
    np.testing.assert_array_equal(found.to_numpy(), 2 * (VALUES + np.tile(VALUES.reshape(8, 2, 16).sum(0), (8, 1))))
