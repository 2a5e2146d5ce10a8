"""What results say of themselves: the mesh, specs and types that the user wrote, and one device where that is all."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P
from support.jit_meshes import MESH, counting

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


@pytest.mark.parametrize("spec", [P("x", "y"), P("y"), P("y", "x"), P(None, "x"), P()], ids=str)
@pytest.mark.parametrize("came", [P("x"), P(None, "y"), P()], ids=str)
@pytest.mark.parametrize("loop", ["while", "scan"])
def test_what_a_loop_carries_lies_as_a_constraint_behind_its_body_says(loop: str, came: P, spec: P) -> None:
    def body(x: Any) -> Any:
        return jax.lax.with_sharding_constraint(jnp.sin(x), NamedSharding(MESH, spec))

    def looped(x: Any) -> Any:
        if loop == "while":
            return jax.lax.fori_loop(0, 3, lambda _, x: body(x), x)
        return jax.lax.scan(lambda x, _: (body(x), x.sum()), x, None, length=3)[0]

    found = gspmd.jit(looped)(jax.device_put(X, NamedSharding(MESH, came)))
    assert found.sharding.is_equivalent_to(NamedSharding(MESH, spec), 2)
    np.testing.assert_allclose(found, np.sin(np.sin(np.sin(X))), rtol=1e-5)


def test_what_branches_give_lies_as_constraints_in_all_of_them_say() -> None:
    where = NamedSharding(MESH, P("y", "x"))

    def branch(f: Any) -> Any:
        return lambda x: jax.lax.with_sharding_constraint(f(x), where)

    f = gspmd.jit(lambda p, x: jax.lax.cond(p, branch(jnp.sin), branch(jnp.cos), x))
    for p in (True, False):
        assert f(p, jax.device_put(X, NamedSharding(MESH, P("x")))).sharding == where


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


X_SPLIT, W_REDUCED = placed(P("x", None)), placed(P(None, None, reduced={"x"}))


def scaled(a: Any) -> Any:
    return a / 64


def loss(w: Any, x: Any) -> Any:
    return jnp.sin(scaled(x) @ w).sum()


def scanned(w: Any, x: Any) -> Any:
    return jax.grad(lambda w: jax.lax.scan(lambda c, _: (jnp.sin(scaled(c) @ w), None), x, length=3)[0].sum())(w)


def accumulated(w: Any, x: Any) -> Any:
    zero = jax.reshard(jnp.zeros((8, 8)), P(None, None, unreduced={"x"}))
    return jax.lax.scan(lambda g, k: (g + jax.grad(loss)(w, x * k), None), zero, jnp.arange(1.0, 4.0))[0]


def branches(w: Any, x: Any) -> Any:
    return jax.lax.cond(x.sum() > 0, lambda: jax.grad(loss)(w, x), lambda: jax.grad(loss)(w, 2 * x))


def manual(w: Any, x: Any) -> Any:
    def mapped(w: Any) -> Any:
        in_specs = (P("x"), P(None, None, reduced={"x"}))
        return jax.shard_map(lambda x, w: jnp.sin(scaled(x) @ w), in_specs=in_specs, out_specs=P("x"))(x, w).sum()

    return jax.grad(mapped)(w)


def manual_summands(w: Any, x: Any) -> Any:
    def summed(gradient: Any) -> Any:
        return jax.lax.psum(gradient, "x")

    return jax.shard_map(summed, in_specs=P(None, None, unreduced={"x"}), out_specs=P())(jax.grad(loss)(w, x))


@jax.custom_vjp
def product(w: Any, x: Any) -> Any:
    return scaled(x) @ w


def _backward(kept: Any, given: Any) -> Any:
    w, x = kept
    unreduced = P(None, None, unreduced={"x"})
    return jnp.einsum("bi,bo->io", scaled(x), given, out_sharding=unreduced), scaled(given @ jax.reshard(w, P()).T)


product.defvjp(lambda w, x: (product(w, x), (w, x)), _backward)


def custom(w: Any, x: Any) -> Any:
    return jax.grad(lambda w: jnp.sin(product(w, x)).sum())(w)


def remade(w: Any, x: Any) -> Any:
    return jax.grad(jax.checkpoint(loss))(w, x)


def reshards(w: Any, x: Any) -> Any:
    return jax.reshard(jax.reshard(jax.grad(loss)(w, x), P("x")), P(None, "y")) * 2


WITH_TYPES = [scanned, accumulated, branches, manual, manual_summands, custom, remade, reshards]


@pytest.mark.parametrize("f", WITH_TYPES, ids=lambda f: f.__name__)
def test_reduced_and_unreduced_values(f: Any) -> None:
    """Results are typed as those of JAX, and what their summands add up to is as JAX computes it."""
    with jax.set_mesh(EXPLICIT):
        expected, found = jax.jit(f)(W_REDUCED, X_SPLIT), gspmd.jit(f)(W_REDUCED, X_SPLIT)
        assert found.sharding == expected.sharding
        whole = [np.asarray(jax.reshard(each, P())) for each in (expected, found)]
    np.testing.assert_allclose(whole[1], whole[0], rtol=1e-4, atol=1e-3)


def test_gradients_of_microbatches_are_summed_once() -> None:
    with jax.set_mesh(EXPLICIT):
        lowered = gspmd.jit(lambda w, x: jax.reshard(accumulated(w, x), P("x"))).lower(W_REDUCED, X_SPLIT)
    assert [each.kind for each in lowered.partitioned.collectives] == ["reduce_scatter"]


@pytest.mark.parametrize("f", [manual, custom, remade, accumulated, branches], ids=lambda f: f.__name__)
def test_summands_leave_without_a_collective(f: Any) -> None:
    with jax.set_mesh(EXPLICIT):
        collectives = gspmd.jit(f).lower(W_REDUCED, X_SPLIT).partitioned.collectives
    # The sum that says which branch is taken is wanted by all.
    assert [each.bytes for each in collectives] == ([6.0] if f is branches else [])


ONE_AXIS = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
SUMMANDS = P(None, None, unreduced={"x"})


def over_batches(batches: Any) -> Any:
    zero = jax.reshard(jnp.zeros((64, 64)), SUMMANDS)
    return jax.lax.scan(lambda c, x: (c + jnp.dot(x.T, x, out_sharding=SUMMANDS), None), zero, batches)[0]


def while_loop(batches: Any) -> Any:
    zero = jax.reshard(jnp.zeros((64, 64)), SUMMANDS)
    x = batches[0]
    return jax.lax.fori_loop(0, 4, lambda i, c: c + jnp.dot(x.T, x * i, out_sharding=SUMMANDS), zero)


@pytest.mark.parametrize("f", [over_batches, while_loop], ids=lambda f: f.__name__)
def test_large_sums_of_loops_leave_without_a_collective(f: Any) -> None:
    """What the types say of the zeros that a loop begins with is not what they become."""
    with jax.set_mesh(ONE_AXIS):
        batches = jax.device_put(np.ones((4, 512, 64), np.float32), P(None, "x"))
        lowered = gspmd.jit(f).lower(batches)
        assert lowered.partitioned.collectives == ()
        found = jax.reshard(lowered.compile()(batches), P())
    np.testing.assert_array_equal(found, np.full((64, 64), 2048 if f is over_batches else 3072))


def scanned_layers(w: Any, x: Any) -> Any:
    return jax.lax.scan(lambda c, layer: (jnp.sin(scaled(c) @ layer), None), x, w)[0].sum()


def stacked(w: Any, batches: Any) -> Any:
    return jax.grad(scanned_layers)(w, batches[0])


def stacked_over_batches(w: Any, batches: Any) -> Any:
    zero = jax.reshard(jnp.zeros_like(w), P(None, None, None, unreduced={"x"}))
    return jax.lax.scan(lambda g, x: (g + jax.grad(scanned_layers)(w, x), None), zero, batches)[0]


@pytest.mark.parametrize("f", [stacked, stacked_over_batches], ids=lambda f: f.__name__)
def test_gradients_of_scanned_layers_are_summed_once_where_they_are_used(f: Any) -> None:
    def summed(w: Any, batches: Any) -> Any:
        return jax.reshard(f(w, batches), P())

    with jax.set_mesh(ONE_AXIS):
        w = jax.device_put(np.full((3, 64, 64), 0.01, np.float32), P(None, None, None, reduced={"x"}))
        batches = jax.device_put(np.ones((4, 1024, 64), np.float32), P(None, "x"))
        assert gspmd.jit(f).lower(w, batches).partitioned.collectives == ()
        jitted = gspmd.jit(summed)
        (collective,) = jitted.lower(w, batches).partitioned.collectives
        assert (collective.kind, collective.bytes) == ("all_reduce", 3 * 64 * 64 * 4 * 2 * 7 / 8)
        np.testing.assert_allclose(jitted(w, batches), jax.jit(summed)(w, batches), rtol=1e-4)


MIXED = Mesh(DEVICES.reshape(4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))


def test_auto_axes_beside_explicit_ones_are_the_partitioner_s() -> None:
    x = jax.device_put(X, NamedSharding(MIXED, P("x")))
    with jax.set_mesh(MIXED):
        f = gspmd.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, P("y")))
        assert f(x).sharding == NamedSharding(MIXED, P(("x", "y")))
        assert gspmd.jit(doubled)(x).sharding == NamedSharding(MIXED, P("x", None))


def test_the_innermost_types_of_axes_count() -> None:
    def inner(x: Any) -> Any:
        assert jax.typeof(x).sharding.spec == P(None, None)
        return x * 2

    with jax.set_mesh(EXPLICIT):
        found = jax.sharding.auto_axes(gspmd.jit(inner), out_sharding=P("x", "y"))(placed(P("x", "y")))
    assert found.sharding == NamedSharding(EXPLICIT, P("x", "y"))


def test_types_have_axes_of_size_one() -> None:
    mesh = Mesh(DEVICES.reshape(8, 1), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)

    def f(x: Any) -> Any:
        assert jax.typeof(x).sharding.spec == P("x", "y")
        return x * 2

    found = gspmd.jit(f)(jax.device_put(X, NamedSharding(mesh, P("x", "y"))))
    assert found.sharding == NamedSharding(mesh, P("x", "y"))


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


def test_arrays_and_results_over_axes_of_other_types_keep_them() -> None:
    explicit = jax.make_mesh((8,), ("x",))
    auto = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    values = np.arange(16.0, dtype=np.float32)
    one = jax.device_put(values, NamedSharding(explicit, P("x")))
    other = jax.device_put(values, NamedSharding(auto, P("x")))

    def within(x: Any) -> Any:
        with jax.sharding.use_abstract_mesh(auto.abstract_mesh):
            return jax.sharding.reshard(x, P(None))

    with jax.set_mesh(explicit):
        for f in (jax.jit, gspmd.jit):
            results = (*f(lambda x, y: (x, y))(one, other), f(within)(one))
            assert [r.sharding.mesh.axis_types[0] for r in results] == [AxisType.Explicit, AxisType.Auto, AxisType.Auto]
        np.testing.assert_array_equal(gspmd.jit(lambda x, y: x + y)(one, other), 2 * values)


@pytest.mark.parametrize("came", [P(), P("x"), P("x", "y"), P(None, "y"), P(("x", "y"))], ids=str)
@pytest.mark.parametrize(
    "wanted",
    [P(None, None, unreduced={"x"}), P(None, "y", unreduced={"x"}), P(None, None, unreduced={"x", "y"})],
    ids=["summands along x", "summands along x, columns along y", "summands along both"],
)
def test_a_value_becomes_unreduced_as_jax_has_it(came: P, wanted: P) -> None:
    """What is whole is on the first device along the axis, what is split where it belongs; the others have zeros."""
    with jax.set_mesh(EXPLICIT):
        x = jax.device_put(X, came)
        expected = jax.jit(lambda x: x, out_shardings=wanted)(x)
        f = gspmd.jit(lambda x: x, out_shardings=wanted)
        found = f(x)
        assert found.sharding == expected.sharding
        whole = jax.reshard(found, P())
        np.testing.assert_array_equal(whole, X)
    if "y" in wanted.unreduced or came in (P(), P("x")):
        assert not f.lower(x).partitioned.collectives
    if came in (P(), P("x")):  # of values split over both axes, XLA gets some wrong
        for one, other in zip(found.addressable_shards, expected.addressable_shards, strict=True):
            np.testing.assert_array_equal(one.data, other.data)
