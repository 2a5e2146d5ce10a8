"""Loops in loops with values shared between levels, as libraries of solvers and samplers write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.ode import odeint
from jax.scipy.sparse.linalg import cg, gmres
from jax.sharding import PartitionSpec as P

import gspmd

Array = Any
NUMBERS = np.random.default_rng(0).random(8, np.float32)
ROWS, ODD = NUMBERS, NUMBERS[:7]


def shared_constants(y: Array) -> Array:
    """A while in a scan, with constants and values that both levels use."""
    y = 1e-3 + 1e-3 * y

    def body(c: Array, t: Array) -> tuple[Array, Array]:
        c = lax.while_loop(lambda c: c.sum() < 1e-3, lambda c: 1e-3 + 1e-3 * c, c)
        return c, jnp.polyval(jnp.stack([c] * 5), t)

    return lax.scan(body, y, jnp.arange(4.0))[1]


def ode(y: Array) -> Array:
    return odeint(lambda y, t, k: -k * y + jnp.sin(t), y, jnp.linspace(0.0, 1.0, 4), 0.5)


def _system(rows: int) -> tuple[Array, Array]:
    matrix = jnp.eye(rows) * 4 + jnp.sin(jnp.arange(rows * rows, dtype=jnp.float32)).reshape(rows, rows) * 0.3
    return matrix, (matrix + matrix.T) / 2


def batched_gmres(b: Array) -> Array:
    matrix, _ = _system(b.shape[0])
    return gmres(lambda x: matrix @ x, b, solve_method="batched", restart=4, maxiter=3)[0]


def conjugate_gradients(b: Array) -> Array:
    _, matrix = _system(b.shape[0])
    return cg(lambda x: matrix @ x, b, maxiter=10)[0]


def no_u_turn(z: Array) -> Array:
    """A chain of samples, each a tree that doubles until it turns, each doubling some leapfrog steps."""
    step, mass = 0.1, jnp.full(z.shape, 2.0)

    def leapfrog(state: Any) -> Any:
        q, p = state
        p = p - 0.5 * step * q
        q = q + step * p / mass
        return q, p - 0.5 * step * q

    def tree(key: Array, q: Array) -> Array:
        p = jax.random.normal(key, q.shape) * 0.1 + mass * 0.2
        start = (jnp.int32(0), q, p, jnp.bool_(False))

        def grows(state: Any) -> Array:
            depth, _, _, turning = state
            return (depth < 4) & ~turning

        def double(state: Any) -> Any:
            depth, a, b, _ = state
            a, b = lax.fori_loop(0, 2**depth, lambda _, s: leapfrog(s), (a, b))
            kept = lax.cond(depth > 1, lambda: (a - q) @ b, lambda: (a + mass) @ b)
            return depth + 1, a, b, kept < 0

        return lax.while_loop(grows, double, start)[1]

    def sample(carry: Any, _: None) -> tuple[Any, Array]:
        key, q = carry
        key, mine = jax.random.split(key)
        q = tree(mine, q)
        return (key, q), q

    return lax.scan(sample, (jax.random.key(0), z), None, length=3)[1]


def rollout(positions: Array) -> Array:
    """An episode that ends and begins again: in each step of it, steps of physics that iterate on contacts."""
    gravity, limit = jnp.float32(-0.1), jnp.arange(positions.shape[0], dtype=jnp.float32) * 0.01

    def contacts(x: Array) -> Array:
        def body(state: Any) -> Any:
            i, x = state
            return i + 1, jnp.maximum(x, limit) * 0.9 + 0.1 * x.mean() + gravity

        return lax.while_loop(lambda s: (s[0] < 3) & (s[1].min() < 1.0), body, (0, x))[1]

    def step(x: Array, action: Array) -> tuple[Array, Array]:
        x = lax.scan(lambda x, _: (contacts(x + action * gravity), None), x, None, length=2)[0]
        done = x.sum() < 0
        return jnp.where(done, positions, x), (x.mean(), done)

    def episode(state: Any) -> Any:
        i, x, total = state
        x, (rewards, dones) = lax.scan(step, x, jnp.linspace(0.0, 1.0, 3))
        return i + 1, x, total + jnp.where(dones, 0, rewards).sum()

    _, x, total = lax.while_loop(lambda s: s[0] < 3, episode, (0, positions, jnp.float32(0)))
    return x + total


def checkpointed_gradient(w: Array) -> Array:
    """The gradient of a scan with a fixed point in each step, found by a while, that is recomputed on the way back."""

    @jax.custom_vjp
    def fixed(w: Array, x: Array) -> Array:
        start = (jnp.int32(0), jnp.zeros_like(x))
        return lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, jnp.tanh(w * s[1] + x)), start)[1]

    def forward(w: Array, x: Array) -> Any:
        y = fixed(w, x)
        return y, (w, x, y)

    def backward(kept: Any, g: Array) -> Any:
        w, x, y = kept
        pull = jax.vjp(lambda w, x, y: jnp.tanh(w * y + x), w, x, y)[1]
        last = lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, g + pull(s[1])[2]), (jnp.int32(0), g))[1]
        return pull(last)[:2]

    fixed.defvjp(forward, backward)

    def loss(w: Array) -> Array:
        step = jax.checkpoint(lambda x, t: (fixed(w, x) + 0.1 * t, (x * w).sum()))
        last, sums = lax.scan(step, jnp.ones_like(w), jnp.arange(3.0))
        return last.sum() + sums.sum()

    return jax.grad(loss)(w)


PROGRAMS: dict[str, Callable[[Array], Array]] = {
    f.__name__: f
    for f in (
        shared_constants,
        ode,
        batched_gmres,
        conjugate_gradients,
        no_u_turn,
        rollout,
        checkpointed_gradient,
    )
}


EVEN = ("shared_constants", "no_u_turn", "rollout")


@pytest.mark.parametrize(
    ("name", "argument"),
    [*((name, ODD) for name in PROGRAMS), *((name, ROWS) for name in EVEN)],
    ids=[*PROGRAMS, *(f"{name}_even" for name in EVEN)],
)
def test_nested_loops_compute_what_they_do_on_one_device(name: str, argument: Array) -> None:
    function = PROGRAMS[name]
    expected = jax.jit(function)(argument)
    actual = gspmd.jit(function, mesh={"x": 8}, in_shardings=P("x"))(argument)
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=2e-4, atol=2e-5)
