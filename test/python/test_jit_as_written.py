"""What results say of themselves: the mesh, specs, memory and types that the user wrote, and one device where that is all."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P
from jit_meshes import MESH, counting

import gspmd
from gspmd.dialect.diagnostic import Diagnostic, telling

DEVICES = np.array(jax.devices())
X = counting(8, 8)
EXPLICIT = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)


def doubled(x: Any) -> Any:
    return x * 2


@pytest.mark.parametrize("spec", [P("x"), P("x", None), P(None, "y"), P(("x", "y")), P(), P(None, None)], ids=str)
def test_a_step_returns_its_state_as_it_came(spec: P) -> None:
    f = gspmd.jit(lambda state, batch: {"w": state["w"] - batch.sum(), "n": state["n"] + 1})
    where = NamedSharding(MESH, spec)
    state = {"w": jax.device_put(X, where), "n": jnp.int32(0)}
    state = f(state, X)
    assert state["w"].sharding == where
    assert f(state, X)["w"].sharding == where


@pytest.mark.parametrize("spec", [P(None, "model"), P("data", "model"), P("model"), P(("data", "model"))], ids=str)
def test_axes_of_size_one_stay(spec: P) -> None:
    mesh = Mesh(DEVICES.reshape(8, 1), ("data", "model"))
    found = gspmd.jit(doubled)(jax.device_put(X, NamedSharding(mesh, spec)))
    assert found.sharding == NamedSharding(mesh, spec)


def test_a_mesh_of_one_device_stays() -> None:
    mesh = Mesh(DEVICES[:1], ("x",))
    a = gspmd.jit(doubled)(jax.device_put(X, NamedSharding(mesh, P("x"))))
    assert a.sharding == NamedSharding(mesh, P("x"))
    with jax.set_mesh(mesh):
        np.testing.assert_array_equal(a + gspmd.jit(doubled)(X), 4 * X)


@pytest.mark.parametrize(
    "f", [lambda x: x.T + 0, lambda x: x[None] + 0, lambda x: x.sum(0), lambda x: x @ x], ids=["T", "None", "sum", "@"]
)
@pytest.mark.parametrize("spec", [P("x"), P(None, "y"), P("x", "y")], ids=str)
def test_results_of_which_nothing_is_said_have_short_specs(f: Any, spec: P) -> None:
    found = gspmd.jit(f)(jax.device_put(X, NamedSharding(MESH, spec)))
    assert found.sharding.mesh == MESH
    entries = found.sharding.spec.partitions
    assert not entries or entries[-1] is not None
    np.testing.assert_allclose(found, f(X))


def test_compiled_functions_say_shardings_as_results_have_them() -> None:
    mesh = Mesh(DEVICES.reshape(8, 1), ("data", "model"))
    where = NamedSharding(mesh, P("data", "model"))
    compiled = gspmd.jit(doubled, in_shardings=where).lower(X).compile()
    assert compiled.in_shardings == ((where,), {})
    assert compiled.out_shardings == compiled(X).sharding == where


# ---- types ----


def placed(spec: P) -> jax.Array:
    return jax.device_put(X, NamedSharding(EXPLICIT, spec))


def test_results_are_reduced_as_their_types_say() -> None:
    w = placed(P(None, None, reduced={"x"}))
    assert gspmd.jit(doubled)(w).sharding == NamedSharding(EXPLICIT, P(None, None, reduced={"x"}))


def test_gradients_of_reduced_weights_are_unreduced() -> None:
    x, w = placed(P("x", None)), placed(P(None, None, reduced={"x"}))
    gradient = gspmd.jit(jax.grad(lambda w: jnp.sin(x @ w).sum()))(w)
    assert gradient.sharding == NamedSharding(EXPLICIT, P(None, None, unreduced={"x"}))
    expected = jax.grad(lambda w: jnp.sin(X @ w).sum())(X)
    with jax.set_mesh(EXPLICIT):
        np.testing.assert_allclose(gspmd.jit(lambda g: jax.reshard(g, P()))(gradient), expected, rtol=1e-4, atol=1e-3)


# ---- one device ----


def remarks_of(call: Any) -> tuple[Any, list[Diagnostic]]:
    said: list[Diagnostic] = []
    with telling(said.append):
        return call(), said


def test_a_function_without_a_mesh_is_left_to_jax_and_says_so_once() -> None:
    def lonely(x: Any) -> Any:
        return x * 2

    f = gspmd.jit(lonely)
    found, said = remarks_of(lambda: [f(X), f(X[:3]), gspmd.jit(lonely)(X)])
    assert [str(each) for each in said] == ["gspmd: remark: 'lonely' has no mesh, so JAX compiles it, for one device"]
    assert all(isinstance(each.sharding, SingleDeviceSharding) for each in found)
    np.testing.assert_array_equal(found[0], 2 * X)


@pytest.mark.parametrize("f", [lambda: jnp.ones(3), lambda: jax.random.key(1)], ids=["ones", "key"])
def test_a_function_without_arguments(f: Any) -> None:
    assert gspmd.jit(f)().sharding == jax.jit(f)().sharding


def test_the_device_is_jax_s() -> None:
    f = gspmd.jit(doubled)
    assert f(jax.device_put(X, DEVICES[3])).devices() == {DEVICES[3]}
    with jax.default_device(DEVICES[2]):
        assert f(X).devices() == {DEVICES[2]}
    assert f(X).devices() == {DEVICES[0]}
    mesh = gspmd.jit(doubled)(jax.device_put(X, NamedSharding(MESH, P("x"))))
    assert mesh.sharding == NamedSharding(MESH, P("x"))


def test_lowered_without_a_mesh() -> None:
    lowered = gspmd.jit(doubled).lower(jax.ShapeDtypeStruct((8, 8), jnp.float32))
    np.testing.assert_array_equal(lowered.compile()(X), 2 * X)
    for asked in ("partitioned", "cost", "explain", "plan", "report"):
        with pytest.raises(gspmd.UsageError, match="there is no mesh; give one"):
            getattr(lowered, asked)


def test_an_array_on_one_device_and_a_mesh_inside() -> None:
    """JAX refuses it: the array is on a device, and the constraint is over others."""
    f = gspmd.jit(lambda x: jax.lax.with_sharding_constraint(x, NamedSharding(MESH, P("x"))))
    with pytest.raises(ValueError, match="incompatible devices"):
        f(jax.device_put(X, DEVICES[3]))
    assert f(X).sharding == NamedSharding(MESH, P("x"))
