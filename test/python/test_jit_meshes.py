"""Meshes of all kinds, and what is annotated by name in functions traced over several of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P
from support.jit_meshes import MESH, counting

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
        assert f(X).sharding == NamedSharding(MESH, P("x"))
        # A mesh of the function's own may be of another size.
        assert gspmd.jit(lambda x: x * 2, mesh={"q": 2}, in_shardings=P("q"))(X).sharding.mesh.shape == {"q": 2}
    with jax.set_mesh(part):
        assert f(X).sharding == NamedSharding(part, P("x"))
    with pytest.raises(gspmd.UsageError, match="there is no mesh"):
        f(X)  # which annotates by names


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


HELPERS = {"helper": helper, "recomputed": recomputed, "scanned": scanned, "jitted": gspmd.jit(helper)}


@pytest.mark.parametrize("function", HELPERS.values(), ids=HELPERS)
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


EXPLICIT = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
ON_BOTH = jax.device_put(X, NamedSharding(EXPLICIT, P("x", "y")))


def test_explicit_axes_split_by_type() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append(jax.typeof(x).sharding.spec)
        gram = jnp.einsum("ij,kj->ik", x, x, out_sharding=P("x", None))
        seen.append(jax.typeof(gram).sharding.spec)
        return jax.reshard(gram, P(None, "y"))

    with jax.set_mesh(EXPLICIT):
        around, expected = gspmd.jit(f)(ON_BOTH), jax.jit(f)(ON_BOTH)
    assert around.sharding.spec == expected.sharding.spec
    for found in (around, gspmd.jit(f, mesh=EXPLICIT)(ON_BOTH)):
        np.testing.assert_allclose(found, X @ X.T)
        assert found.sharding == NamedSharding(EXPLICIT, P(None, "y"))
    for jit in (jax.jit, gspmd.jit):
        with pytest.raises(ValueError, match="when you are not under a mesh context"):
            jit(f)(ON_BOTH)
    assert {*seen} == {P("x", "y"), P("x", None)}


def test_explicit_axes_and_annotations() -> None:
    assert gspmd.jit(lambda x: x * 2, mesh=EXPLICIT)(ON_BOTH).sharding.spec == P("x", "y")
    f = gspmd.jit(lambda x: gspmd.annotate(x * 2, NamedSharding(EXPLICIT, P(None, "y"))))
    with jax.set_mesh(EXPLICIT):
        assert f(ON_BOTH).sharding.spec == P(None, "y")
    by_name = gspmd.jit(lambda x: jax.lax.with_sharding_constraint(x, P("x", "y")), mesh=EXPLICIT)
    assert by_name(ON_BOTH).sharding.spec == P("x", "y")


def test_arguments_that_types_cannot_split_are_left_to_the_partitioner() -> None:
    """Over axes of type Explicit, JAX refuses shards that are not even."""
    f = gspmd.jit(lambda x: x @ x.T, mesh=EXPLICIT, in_shardings=P("x"), out_shardings=P("y"))
    np.testing.assert_allclose(np.asarray(f(X[:7])), X[:7] @ X[:7].T)


def _halved(x: Any) -> Any:
    """A branch whose results are of other types than the other's, in what they say of shardings alone."""
    return jax.lax.cond(x.sum() > 0, lambda: jnp.zeros_like(x), lambda: jnp.zeros(x.shape, x.dtype)) + x / 2


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x @ x.T,
        lambda x: (x.T @ x) @ x.T,
        lambda x: x[jnp.arange(3)],
        lambda x: jnp.broadcast_to(x, x.shape) + x.reshape(-1)[: x.size].reshape(x.shape),
        lambda x: jax.lax.scan(lambda c, _: (c + x, None), jnp.zeros(x.shape), length=3)[0],
        lambda x: jax.lax.while_loop(lambda c: c.sum() < 1e4, lambda c: c + x, jnp.ones(x.shape)),
        lambda x: jnp.linalg.qr(x).R ** 2,
        _halved,
    ],
    ids=["contraction", "products", "gather", "reshape", "carry", "while", "qr", "branches"],
)
def test_what_jax_refuses_over_explicit_axes_is_refused(f: Any) -> None:
    with jax.set_mesh(EXPLICIT):
        expected = refused(jax.jit(f), ON_BOTH)
        assert expected is not None
        assert refused(gspmd.jit(f), ON_BOTH) == expected
    assert refused(gspmd.jit(f, mesh=EXPLICIT), ON_BOTH) == expected
    # What does not take the mesh of its arguments is fine where none is around.
    assert refused(gspmd.jit(f), ON_BOTH) == refused(jax.jit(f), ON_BOTH)


def refused(f: Any, *args: Any) -> tuple[type[Exception], str] | None:
    """The class of what a call raises, and the first line of what that says; None if it is not refused."""
    try:
        f(*args)
    except Exception as error:  # noqa: BLE001 - JAX's ShardingTypeError is not public, and derives from this alone
        return type(error), str(error).splitlines()[0]
    return None


def test_mistakes_over_explicit_axes_are_the_user_s() -> None:
    with pytest.raises(ValueError, match="Incompatible shapes for broadcasting"):
        gspmd.jit(lambda x: x + jnp.ones(5), mesh=EXPLICIT)(ON_BOTH)
    with pytest.raises(TypeError, match="carry"):
        gspmd.jit(lambda x: jax.lax.scan(lambda c, _: (c[0], None), x, length=3)[0], mesh=EXPLICIT)(X)


def test_reshards_of_explicit_axes() -> None:
    found = gspmd.jit(lambda x: jax.sharding.reshard(x + 1, P("x")), mesh=EXPLICIT)(X)
    np.testing.assert_array_equal(found, X + 1)
    assert found.sharding.spec == P("x", None)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: jax.lax.with_sharding_constraint(x + 1, NamedSharding(EXPLICIT, P("y", "x"))),
        lambda x: jax.shard_map(jnp.sin, mesh=EXPLICIT, in_specs=P("x"), out_specs=P("x"))(x) + 1,
    ],
    ids=["constraint", "shard_map"],
)
def test_what_jax_says_of_explicit_axes_is_told(f: Any) -> None:
    with pytest.raises((AssertionError, ValueError), match="shard"):
        gspmd.jit(f, mesh=EXPLICIT)(X)


def doubled(x: Any) -> Any:
    return x * 2


def annotated(x: Any) -> Any:
    return gspmd.annotate(x * 2, "x", mesh=MESH)


def constrained(x: Any) -> Any:
    return jax.lax.with_sharding_constraint(x * 2, NamedSharding(MESH, P("x")))


def mapped(x: Any) -> Any:
    return jax.shard_map(doubled, mesh=MESH, in_specs=P("x"), out_specs=P("x"))(x)


ON_X = NamedSharding(MESH, P("x"))


@pytest.mark.parametrize(
    ("function", "options", "argument"),
    [
        (doubled, {"in_shardings": ON_X}, X),
        (doubled, {"out_shardings": ON_X}, X),
        (doubled, {}, jax.device_put(X, ON_X)),
        (annotated, {}, X),
        (constrained, {}, X),
        (mapped, {}, X),
    ],
    ids=["in_shardings", "out_shardings", "argument", "annotation", "constraint", "shard_map"],
)
def test_the_mesh_is_found(function: Any, options: Any, argument: Any) -> None:
    f = gspmd.jit(function, **options)
    for _ in range(2):
        found = f(argument)
        np.testing.assert_array_equal(found, 2 * X)
        assert found.sharding.is_equivalent_to(ON_X, 2)
    assert dict(f.lower(argument).partitioned.mesh.axes) == {"x": 4, "y": 2}


def test_the_mesh_of_an_uneven_array_is_found() -> None:
    uneven = gspmd.jit(doubled, mesh=MESH, in_shardings=P("x"), out_shardings=P("x"))(np.arange(7.0, dtype=np.float32))
    np.testing.assert_array_equal(np.asarray(gspmd.jit(doubled)(uneven)), 4 * np.arange(7.0))


def test_the_mesh_of_a_with_block_is_found() -> None:
    f = gspmd.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, P("y")))
    with pytest.warns(DeprecationWarning, match="with mesh"), MESH:
        assert f(X).sharding.spec == P("y")


def test_meshes_are_found_in_order() -> None:
    """What is given goes before `jax.set_mesh`, that before shardings, and these before arrays."""
    flat = jax.sharding.Mesh(np.array(jax.devices()), ("z",))
    array = jax.device_put(X, NamedSharding(flat, P("z")))

    def axes(**options: Any) -> dict[str, int]:
        return dict(gspmd.jit(doubled, **options).lower(array).partitioned.mesh.axes)

    assert axes() == {"z": 8}
    assert axes(out_shardings=ON_X) == {"x": 4, "y": 2}
    with jax.set_mesh(flat):
        assert axes(out_shardings=P("z")) == {"z": 8}
        assert axes(mesh=MESH) == {"x": 4, "y": 2}


def test_one_device() -> None:
    device = jax.devices()[3]
    for options in ({"device": device}, {"in_shardings": SingleDeviceSharding(device)}):
        assert gspmd.jit(doubled, **options)(X).devices() == {device}
    assert gspmd.jit(doubled)(jax.device_put(X, device)).devices() == {device}
    assert gspmd.jit(doubled, backend="cpu")(X).devices() == {jax.devices()[0]}
    assert gspmd.jit(doubled, backend="cpu", mesh=8, in_shardings=P("x"))(X).sharding.num_devices == 8


def test_libraries_that_annotate_wherever_there_is_a_mesh() -> None:
    """Such an annotation fits no mesh: the function is traced as where there is none, which JAX does, too."""

    def f(x: Any) -> Any:
        if not jax.sharding.get_abstract_mesh().empty:
            x = jax.lax.with_sharding_constraint(x, P("x", None, "y"))
        return x * 2

    np.testing.assert_array_equal(gspmd.jit(f, mesh=MESH, in_shardings=P("x"))(X), 2 * X)


OTHERS = {
    "fewer devices": (jax.sharding.Mesh(np.array(jax.devices()[:4]), ("x",)), P("x")),
    "the last devices": (jax.sharding.Mesh(np.array(jax.devices()[4:]), ("x",)), P("x")),
    "other names": (jax.sharding.Mesh(np.array(jax.devices()), ("z",)), P("z")),
    "another order": (jax.sharding.Mesh(np.array(jax.devices()[::-1]).reshape(4, 2), ("x", "y")), P("x")),
}


def _within(mesh: jax.sharding.Mesh, spec: P) -> dict[str, Any]:
    """Functions that double, and say of it what they say over another mesh."""
    where = NamedSharding(mesh, spec)
    return {
        "constraint": lambda x: jax.lax.with_sharding_constraint(x * 2, where),
        "annotation": lambda x: gspmd.annotate(x * 2, where),
        "shard_map": jax.shard_map(doubled, mesh=mesh, in_specs=spec, out_specs=spec),
        "jit": jax.jit(doubled, in_shardings=where),
    }


@pytest.mark.parametrize("what", ["constraint", "annotation", "shard_map", "jit"])
@pytest.mark.parametrize("other", OTHERS)
def test_what_is_said_over_another_mesh(other: str, what: str) -> None:
    f = _within(*OTHERS[other])[what]
    found = gspmd.jit(lambda x: f(x) + 1, mesh=MESH, in_shardings=P("x"))(X)
    np.testing.assert_array_equal(found, 2 * X + 1)


@pytest.mark.parametrize("other", OTHERS)
def test_arrays_over_another_mesh(other: str) -> None:
    where = NamedSharding(*OTHERS[other])
    array = jax.device_put(X, where)
    np.testing.assert_array_equal(gspmd.jit(doubled, mesh=MESH)(array), 2 * X)
    found = gspmd.jit(doubled)(array)
    np.testing.assert_array_equal(found, 2 * X)
    assert found.sharding.device_set == where.device_set
    np.testing.assert_array_equal(gspmd.jit(lambda x: x + array, mesh=MESH, in_shardings=P("x"))(X), 2 * X)


def test_axes_of_any_name() -> None:
    f = gspmd.jit(lambda x: x @ x.T, mesh={"x{a": 4, 'b"c\\ d': 2}, in_shardings=P("x{a", 'b"c\\ d'))
    np.testing.assert_array_equal(f(X), X @ X.T)
