"""JAX's transformations inside `gspmd.jit`, compared with `jax.jit`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from support.jit_meshes import MESH, counting

import gspmd

W = jnp.asarray(np.random.default_rng(0).random((8, 8), np.float32))
X = counting(8, 8) / 64
SPLIT = (P(None, "y"), P("x"))


def check(f: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Results over the mesh against those of `jax.jit`, to 1e-5 of each element."""
    found, expected = gspmd.jit(f, mesh=MESH, **options)(*args), jax.jit(f)(*args)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)


def hidden(w: Any, x: Any) -> Any:
    return jnp.sin(gspmd.annotate(x @ w, "x", "y", mesh=MESH))


def test_gradients() -> None:
    check(jax.value_and_grad(lambda w, x: hidden(w, x).sum(), argnums=(0, 1)), W, X, in_shardings=SPLIT)


def test_a_gradient_is_annotated_as_its_value_is() -> None:
    lowered = gspmd.jit(jax.grad(lambda x: gspmd.annotate(x * x, "x", "y").sum()), mesh=MESH).lower(X)
    assert lowered.as_text().count("sdy.sharding_constraint") >= 1
    assert lowered.partitioned.out_shardings[0].sdy == '<@mesh, [{"x"}, {"y"}]>'


def test_forward_and_second_derivatives() -> None:
    def cube(x: Any) -> Any:
        return gspmd.annotate(x**3, "x", mesh=MESH)

    v = counting(8) / 8
    check(lambda v: jax.jvp(cube, (v,), (v,)), v)
    check(jax.jacfwd(cube), v)
    check(jax.jacrev(cube), v)
    check(jax.hessian(lambda v: cube(v).sum()), v)
    check(lambda v: jax.linearize(cube, v)[1](v), v)


def test_vmap_leaves_its_dimension_open_or_splits_it() -> None:
    def outer(a: Any, b: Any) -> Any:
        return gspmd.annotate(jnp.outer(a, b), "y", mesh=MESH)

    check(jax.vmap(outer), W, X, in_shardings=P("x"))
    check(jax.vmap(outer, in_axes=(0, None)), W, X[0])
    spread = gspmd.jit(jax.vmap(outer, spmd_axis_name="x"), mesh=MESH).lower(W, X)
    assert spread.partitioned.out_shardings[0].sdy == '<@mesh, [{"x"}, {"y"}, {}]>'
    moved = gspmd.jit(jax.vmap(outer, out_axes=2, spmd_axis_name="x"), mesh=MESH).lower(W, X)
    assert moved.partitioned.out_shardings[0].sdy == '<@mesh, [{"y"}, {}, {"x"}]>'


def test_loops_and_branches() -> None:
    def scanned(w: Any, x: Any) -> Any:
        return jax.lax.scan(lambda c, _: (hidden(w, c), c.sum()), x, None, length=3)

    check(scanned, W, X, in_shardings=SPLIT)
    check(jax.grad(lambda w, x: scanned(w, x)[1].sum()), W, X, in_shardings=SPLIT)
    check(
        lambda x: jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x)), X, in_shardings=P("x")
    )
    check(lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c + i, x), X, in_shardings=P("x"))
    check(lambda p, x: jax.lax.cond(p, lambda x: x.T, lambda x: x * 2, x), True, X, in_shardings=(None, P("x")))
    check(lambda i, x: jax.lax.switch(i, [lambda x: x.T, jnp.sin, jnp.cos], x), 2, X, in_shardings=(None, P("x")))


@pytest.mark.parametrize(
    "policy",
    [
        None,
        jax.checkpoint_policies.dots_saveable,
        jax.checkpoint_policies.everything_saveable,
        jax.checkpoint_policies.save_only_these_names("hidden"),
    ],
    ids=["none", "dots", "everything", "names"],
)
def test_rematerialization(policy: Any) -> None:
    def f(w: Any, x: Any) -> Any:
        return (checkpoint_name(hidden(w, x), "hidden") @ w).sum()

    check(jax.grad(jax.checkpoint(f, policy=policy)), W, X, in_shardings=SPLIT)


def test_custom_derivatives() -> None:
    @jax.custom_vjp
    def f(x: Any) -> Any:
        return gspmd.annotate(jnp.sin(x), "x", mesh=MESH)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (gspmd.annotate(g * jnp.cos(x) * 2, "y", mesh=MESH),))

    @jax.custom_jvp
    def h(x: Any) -> Any:
        return jnp.sin(x)

    h.defjvp(lambda p, t: (h(*p), 3 * t[0]))
    check(jax.grad(lambda x: f(x).sum()), X)
    check(jax.grad(lambda x: h(x).sum()), X, in_shardings=P("x"))


@pytest.mark.parametrize("options", [{"mesh": MESH}, {}], ids=["its mesh", "the mesh around"])
def test_shard_map_regions(options: dict[str, Any]) -> None:
    def f(x: Any) -> Any:
        rows = jax.shard_map(lambda part: jax.lax.psum(part, "x"), in_specs=P("x"), out_specs=P(), **options)
        return rows(x * 2) + 1

    expected = (X * 2).reshape(4, 2, 8).sum(0) + 1
    for mesh in (MESH, {"x": 4, "y": 2}):
        np.testing.assert_allclose(gspmd.jit(f, mesh=mesh, in_shardings=P("x"))(X), expected, rtol=1e-6)
    gradient = gspmd.jit(jax.grad(lambda x: f(x).sum()), mesh=MESH)(X)
    np.testing.assert_array_equal(gradient, np.full((8, 8), 2.0))


def test_shard_map_over_one_axis_with_annotations_inside() -> None:
    def f(x: Any) -> Any:
        def rows(part: Any) -> Any:
            return jax.lax.psum(gspmd.annotate(part, None, "y"), "x")

        return jax.shard_map(rows, in_specs=P("x"), out_specs=P(), axis_names={"x"})(x)

    np.testing.assert_allclose(gspmd.jit(f, mesh=MESH)(X), X.reshape(4, 2, 8).sum(0), rtol=1e-6)


def test_functions_of_gspmd_jit_inside_one_another() -> None:
    inner = gspmd.jit(lambda x, n: x * n, mesh=MESH, static_argnums=1, in_shardings=P("x"), out_shardings=P("y"))
    outer = gspmd.jit(lambda x: inner(x, 2) + 1, mesh=MESH)
    text = outer.lower(X).as_text()
    assert text.count("sdy.sharding_constraint") == 2
    np.testing.assert_array_equal(outer(X), X * 2 + 1)
    constant = gspmd.jit(lambda x: inner(np.ones((8, 8), np.float32), 2) + x, mesh=MESH)  # host values are traced, too
    np.testing.assert_array_equal(constant(X), X + 2)


def test_a_function_inside_is_over_as_many_devices() -> None:
    inner = gspmd.jit(jnp.sin, mesh={"z": 8}, in_shardings=P("z"))
    np.testing.assert_allclose(gspmd.jit(lambda x: inner(x) + 1, mesh=MESH)(X), np.sin(X) + 1, rtol=1e-6)
    inner = gspmd.jit(jnp.sin, mesh={"z": 4})
    with pytest.raises(gspmd.UsageError, match=r"'sin' is for a mesh {'z': 4}, but is called in a function over"):
        gspmd.jit(lambda x: inner(x) + 1, mesh=MESH)(X)


# ---- gspmd.jit where jax.jit may stand ----


@functools.partial(gspmd.jit, mesh=MESH, in_shardings=P("x"), out_shardings=P("x", "y"))
def sine(x: Any) -> Any:
    return gspmd.annotate(jnp.sin(x), "y", "x")


@functools.partial(gspmd.jit, mesh=MESH, in_shardings=P("x"), out_shardings=P("x"))
def uneven_sine(x: Any) -> Any:
    return jnp.sin(x)


WITHIN: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "jit": lambda f: jax.jit(f)(X),
    "grad": lambda f: jax.grad(lambda x: f(x).sum())(X),
    "value_and_grad": lambda f: jax.value_and_grad(lambda x: (f(x) * x).sum())(X),
    "jvp": lambda f: jax.jvp(f, (X,), (X,)),
    "vjp": lambda f: jax.vjp(f, X)[1](X),
    "linearize": lambda f: jax.linearize(f, X)[1](X),
    "hessian": lambda f: jax.hessian(lambda x: f(x).sum())(X),
    "vmap": lambda f: jax.vmap(f)(jnp.stack([X, X])),
    "scan": lambda f: jax.lax.scan(lambda c, _: (f(c), c.sum()), X, None, length=3),
    "while": lambda f: jax.lax.fori_loop(0, 3, lambda i, c: f(c), X),
    "cond": lambda f: jax.lax.cond(True, f, jnp.cos, X),
    "checkpoint": lambda f: jax.grad(lambda x: jax.checkpoint(f)(x).sum())(X),
    "map": lambda f: jax.lax.map(f, jnp.stack([X, X])),
    "twice": lambda f: jax.grad(lambda x: f(f(x)).sum())(X),
    "another": lambda f: gspmd.jit(lambda x: f(x) * 2, mesh=MESH)(X) / 2,
    "another, with grad": lambda f: gspmd.jit(jax.grad(lambda x: f(x).sum()), mesh=MESH)(X),
    "grad of another": lambda f: jax.grad(lambda x: gspmd.jit(lambda x: f(x) * 2, mesh=MESH)(x).sum())(X),
    "set_mesh": lambda f: _in_mesh(lambda: jax.jit(f)(X)),
}


def _in_mesh(call: Callable[[], Any]) -> Any:
    with jax.set_mesh(MESH):
        return call()


@pytest.mark.parametrize("ours", [sine, uneven_sine], ids=["annotated inside", "plain"])
@pytest.mark.parametrize("way", WITHIN)
def test_it_stands_where_jit_does(way: str, ours: Any) -> None:
    expected, found = WITHIN[way](jnp.sin), WITHIN[way](ours)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)


def test_shapes_and_jaxprs() -> None:
    assert jax.eval_shape(sine, X) == jax.eval_shape(jnp.sin, X)
    assert sine.eval_shape(X) == jax.jit(jnp.sin, out_shardings=NamedSharding(MESH, P("x", "y"))).eval_shape(X)
    assert "sin" in str(jax.make_jaxpr(sine)(X))
    assert "sin" in str(sine.trace(X).jaxpr)


def test_uneven_shards_within_other_functions() -> None:
    x = counting(7) / 7
    np.testing.assert_allclose(jax.jit(uneven_sine)(x), np.sin(x), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda x: uneven_sine(x).sum())(x), np.cos(x), rtol=1e-6)


def test_within_jit_it_is_split_as_it_says() -> None:
    assert jax.jit(sine)(X).sharding.is_equivalent_to(NamedSharding(MESH, P("x", "y")), 2)


def test_exported() -> None:
    exported = jax.export.export(sine)(X)
    assert exported.nr_devices == 8
    np.testing.assert_allclose(gspmd.jit(exported.call, mesh=MESH)(X), np.sin(X), rtol=1e-6)


def test_calls_of_exported_functions() -> None:
    for_eight = jax.export.export(jax.jit(jnp.sin, in_shardings=NamedSharding(MESH, P("x"))))(X)
    check(lambda x: for_eight.call(x) + 1 if jax.sharding.get_abstract_mesh().size == 8 else jnp.sin(x) + 1, X)
    for_one = jax.export.export(jax.jit(jnp.sin))(X)
    check(lambda x: for_one.call(x) + 1, X, in_shardings=P("x"))
    shape = jax.export.symbolic_shape("b, 8")
    for_many = jax.export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct(shape, jnp.float32))
    check(lambda x: for_many.call(x) + 1, X, in_shardings=P("x"))


def _written(x: Any, changed: Any, start: float) -> Any:
    """A loop that writes a sum over devices into an array, beside what it reads of the one before."""

    def body(i: Any, kept: Any) -> Any:
        before = jax.lax.dynamic_slice(kept, (jnp.maximum(i - 1, 0), 0, 0), (1, 4, 4))
        return jax.lax.dynamic_update_slice(kept, (x.T @ x * (i + 1))[None] + changed(before), (i, 0, 0))

    return jax.lax.fori_loop(0, 4, body, jnp.full((4, 4, 4), start, x.dtype))


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize(
    "changed", [lambda v: v, lambda v: v * v, lambda v: jnp.flip(v, 0)], ids=["as is", "square", "flip"]
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_sums_that_a_loop_writes_and_reads(changed: Any, start: float, dtype: Any) -> None:
    x = np.arange(32).reshape(8, 4)
    x = (x / 30 if dtype is np.float32 else x % 3).astype(dtype)
    found = gspmd.jit(lambda x: _written(x, changed, start), mesh={"x": 4, "y": 2}, in_shardings=P("x", "y"))(x)
    np.testing.assert_allclose(found, jax.jit(lambda x: _written(x, changed, start))(x), rtol=1e-5)
