"""Programs of two meshes of the same devices in different orders."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from support.jit_meshes import counting, pointers

import gspmd

DEVICES = np.array(jax.devices())
ONE = Mesh(DEVICES.reshape(4, 2), ("x", "y"))
TWO = Mesh(DEVICES[[0, 3, 1, 6, 2, 5, 4, 7]].reshape(4, 2), ("x", "y"))
FLAT = Mesh(DEVICES[::-1], ("all",))
X = counting(16, 8)


def on(mesh: Mesh, *spec: str | None) -> NamedSharding:
    return NamedSharding(mesh, P(*spec))


def kinds(lowered: gspmd.Lowered) -> list[str]:
    return [collective.kind for collective in lowered.partitioned.collectives]


def test_arguments_and_results_have_the_orders_that_they_are_given() -> None:
    f = gspmd.jit(
        lambda a, b: (a + b, a @ b.T),
        mesh=ONE,
        in_shardings=(on(ONE, "x", "y"), on(TWO, "x", "y")),
        out_shardings=(on(TWO, "x", "y"), on(FLAT, "all")),
    )
    total, product = f(X, 2 * X)
    np.testing.assert_array_equal(total, 3 * X)
    np.testing.assert_array_equal(product, X @ (2 * X).T)
    assert total.sharding.devices_indices_map(X.shape) == on(TWO, "x", "y").devices_indices_map(X.shape)
    assert product.sharding.devices_indices_map((16, 16)) == on(FLAT, "all").devices_indices_map((16, 16))


def test_an_array_keeps_the_order_that_it_comes_in() -> None:
    f = gspmd.jit(lambda a: a * 2, mesh=ONE)
    given = jax.device_put(X, on(TWO, "x"))
    lowered = f.lower(given)
    assert kinds(lowered) == []  # all of the program runs in that order
    assert pointers(lowered.compile().executable.place(given)[0].to_jax()) == pointers(given)
    found = f(given)
    np.testing.assert_array_equal(found, 2 * X)
    assert found.sharding.devices_indices_map(X.shape) == given.sharding.devices_indices_map(X.shape)


def test_donated_shards_of_another_order_are_taken() -> None:
    f = gspmd.jit(lambda a, b: (a + 1, a + b), mesh=ONE, donate_argnums=0, out_shardings=(on(TWO, "x"), on(ONE, "x")))
    given, other = jax.device_put(X, on(TWO, "x")), jax.device_put(X, on(ONE, "x"))
    before = pointers(given)
    kept, total = f(given, other)
    assert given.is_deleted()
    assert pointers(kept) == before
    np.testing.assert_array_equal(total, 2 * X)


def test_weights_in_another_order_are_gathered_where_they_are() -> None:
    f = gspmd.jit(lambda x, w: x @ w, mesh=ONE, in_shardings=(on(ONE, "x"), on(TWO, "x")), out_shardings=on(ONE, "x"))
    lowered = f.lower(X, jax.ShapeDtypeStruct((8, 8), jnp.float32))
    assert kinds(lowered) == ["all_gather"]
    np.testing.assert_array_equal(f(X, X[:8]), X @ X[:8])


def test_a_training_step_over_two_orders() -> None:
    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        hidden = gspmd.annotate(jnp.tanh(x @ w), on(TWO, "x", "y"))
        return jnp.mean(hidden * hidden)

    step = gspmd.jit(
        jax.value_and_grad(loss),
        mesh=ONE,
        in_shardings=(on(TWO, None, "y"), on(ONE, "x")),
        out_shardings=(None, on(TWO, None, "y")),
    )
    w = X[:8] / 100
    expected = jax.value_and_grad(loss)(w, X / 100)
    for found, wanted in zip(step(w, X / 100), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)
