"""Meshes of all kinds, and what is annotated by name in functions traced over several of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jit_meshes import MESH, counting

import gspmd

X = counting(8, 8)


@pytest.mark.parametrize(
    ("mesh", "devices"),
    [
        (MESH, None),
        (AbstractMesh((4, 2), ("x", "y")), range(8)),
        ({"x": 4, "y": 2}, range(8)),
        ((4, 2), range(8)),
        ([8], range(8)),
        (np.int64(8), range(8)),
        (4, range(4)),
        (1, [0]),
        (np.arange(8)[::-1].reshape(2, 4), range(7, -1, -1)),
        (jax.sharding.Mesh(np.array(jax.devices())[[3, 1, 2, 0]].reshape(2, 2), ("x", "y")), [3, 1, 2, 0]),
    ],
    ids=str,
)
def test_meshes(mesh: Any, devices: Any) -> None:
    found = gspmd.jit(lambda x: x @ x, mesh=mesh, in_shardings=P("x"), out_shardings=P(None, "x"))(X)
    np.testing.assert_allclose(found, X @ X)
    assert found.sharding.spec == P(None, "x") or found.sharding.mesh.size == 1
    if devices is not None:
        assert [device.id for device in found.sharding.mesh.devices.flat] == list(devices)


def test_a_mesh_far_beyond_the_devices() -> None:
    shape = jax.ShapeDtypeStruct((65536, 8192), jnp.bfloat16)
    f = gspmd.jit(lambda x, w: x @ w, mesh={"x": 1024, "y": 64}, in_shardings=(P("x"), P(None, "y")))
    lowered = f.lower(shape, jax.ShapeDtypeStruct((8192, 8192), jnp.bfloat16))
    assert lowered.partitioned.num_partitions == 65536
    assert "tensor<64x128xbf16>" in lowered.partitioned.module_text
    with pytest.raises(gspmd.ExecutionError, match="the mesh has 65536 devices, but there are 8"):
        lowered.compile()


def test_the_mesh_around() -> None:
    f = gspmd.jit(lambda x: gspmd.annotate(x * 2, "x"))
    part = jax.sharding.Mesh(np.array(jax.devices()[4:]), ("x",))
    with jax.set_mesh(MESH):
        assert f(X).sharding == NamedSharding(MESH, P("x", None))
        # A mesh of the function's own may be of another size.
        assert gspmd.jit(lambda x: x * 2, mesh={"q": 2}, in_shardings=P("q"))(X).sharding.mesh.shape == {"q": 2}
    with jax.set_mesh(part):
        assert f(X).sharding == NamedSharding(part, P("x", None))
    with pytest.raises(gspmd.UsageError, match="there is no mesh"):
        f(X)


@jax.jit
def helped(x: Any) -> Any:
    return gspmd.annotate(x * 2, "x")


def helper(x: Any) -> Any:
    return helped(x)


@jax.checkpoint
def recomputed(x: Any) -> Any:
    return gspmd.annotate(jnp.sin(x), "x")


def scanned(x: Any) -> Any:
    return jax.lax.scan(lambda c, _: (gspmd.annotate(c + 1, "x"), None), x, None, length=2)[0]


@pytest.mark.parametrize("function", [helper, recomputed, scanned, gspmd.jit(helper)], ids=str)
def test_what_a_helper_annotates_is_of_the_mesh_that_it_is_traced_over(function: Any) -> None:
    for sizes in ({"x": 4, "y": 2}, {"x": 8}, {"x": 2}, {"x": 4, "y": 2}):
        lowered = gspmd.jit(function, mesh=sizes).lower(X)
        mesh = ", ".join(f'"{name}"={size}' for name, size in sizes.items())
        assert lowered.as_text().count(f"sdy.mesh @mesh = <[{mesh}]>") == 1
        assert lowered.partitioned.in_shardings[0].sdy == '<@mesh, [{"x"}, {}]>'
        assert dict(lowered.partitioned.mesh.axes) == sizes


def test_constraints_of_jax() -> None:
    by_name = gspmd.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, P("y", "x")), mesh={"x": 4, "y": 2})
    by_mesh = gspmd.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, NamedSharding(MESH, P("y", "x"))), mesh=MESH)
    assert by_name(X).sharding.spec == by_mesh(X).sharding.spec == P("y", "x")


EXPLICIT = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)


def test_meshes_with_explicit_axes_are_left_to_the_partitioner() -> None:
    x = jax.device_put(X, NamedSharding(EXPLICIT, P("x", "y")))
    assert gspmd.jit(lambda x: x * 2, mesh=EXPLICIT)(x).sharding.spec == P("x", "y")
    f = gspmd.jit(lambda x: gspmd.annotate(x * 2, NamedSharding(EXPLICIT, P(None, "y"))))
    with jax.set_mesh(EXPLICIT):
        assert f(x).sharding.spec == P(None, "y")
    by_name = gspmd.jit(lambda x: jax.lax.with_sharding_constraint(x, P("y")), mesh=EXPLICIT)
    assert by_name(x).sharding.spec == P("y", None)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: jax.lax.with_sharding_constraint(x + 1, NamedSharding(EXPLICIT, P("y", "x"))),
        lambda x: jax.sharding.reshard(x + 1, P("x")),
        lambda x: jax.shard_map(jnp.sin, mesh=EXPLICIT, in_specs=P("x"), out_specs=P("x"))(x) + 1,
    ],
    ids=["constraint", "reshard", "shard_map"],
)
def test_jax_refuses_explicit_axes_inside(f: Any) -> None:
    with pytest.raises(
        gspmd.UsageError, match=r"JAX says: .*gspmd.jit leaves every axis of its mesh to the partitioner"
    ):
        gspmd.jit(f, mesh=EXPLICIT)(X)
