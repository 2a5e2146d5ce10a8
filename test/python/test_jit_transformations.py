"""JAX's transformations inside `gspmd.jit`, compared with `jax.jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import PartitionSpec as P
from jit_meshes import MESH, counting

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


def test_a_function_inside_is_over_the_same_mesh() -> None:
    inner = gspmd.jit(jnp.sin, mesh={"z": 8})
    with pytest.raises(gspmd.UsageError, match=r"'sin' is for a mesh {'z': 8}, but is called in a function over"):
        gspmd.jit(lambda x: inner(x) + 1, mesh=MESH)(X)


def test_gradients_go_inside() -> None:
    f = gspmd.jit(lambda x: x.sum(), mesh=MESH)
    with pytest.raises(gspmd.UsageError, match=r"outside of gspmd.jit; .* gspmd.jit\(jax.grad\(f\)\)"):
        jax.grad(f)(X)
