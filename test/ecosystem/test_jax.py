"""Solvers of JAX itself: loops of loops, whose conditions are results of the program."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.ode import odeint
from jax.scipy.optimize import minimize
from jax.scipy.sparse.linalg import bicgstab, cg, gmres
from support.one_line import Jit, Place, check, uniform

_MATRIX = uniform(32, 32) + 8 * np.eye(32, dtype=np.float32)


def _decay(y, t, rate):
    return -rate * y + jnp.sin(t)


def test_gradient_of_odeint():
    def program(jit: Jit, place: Place):
        def loss(y, rate):
            return odeint(_decay, y, jnp.linspace(0.0, 1.0, 3), rate).sum()

        return jit(jax.value_and_grad(loss, (0, 1)))(place(uniform(16), "data"), 2.0)

    check(program)


def test_vmap_of_odeint():
    def program(jit: Jit, place: Place):
        return jit(jax.vmap(lambda y: odeint(_decay, y, jnp.linspace(0.0, 1.0, 3), 2.0)))(place(uniform(16, 3), "data"))

    check(program)


@pytest.mark.parametrize("method", ["batched", "incremental"])
def test_gmres(method):
    def program(jit: Jit, place: Place):
        solve = jit(lambda a, b: gmres(a, b, restart=5, maxiter=5, solve_method=method)[0])
        return solve(place(_MATRIX, "data", "model"), place(uniform(32), "data"))

    check(program)


@pytest.mark.parametrize("solver", [cg, bicgstab])
def test_gradient_of_a_linear_solver(solver):
    symmetric = (_MATRIX + _MATRIX.T) / 16

    def program(jit: Jit, place: Place):
        gradient = jit(jax.grad(lambda a, b: solver(a, b)[0].sum(), (0, 1)))
        return gradient(place(symmetric, "data", "model"), place(uniform(32), "data"))

    check(program)


def test_minimize():
    def program(jit: Jit, place: Place):
        def fit(target):
            return minimize(
                lambda x: jnp.sum((x - target) ** 2), jnp.zeros(16), method="BFGS", options={"maxiter": 8}
            ).x

        return jit(fit)(place(uniform(16), "data"))

    check(program)
