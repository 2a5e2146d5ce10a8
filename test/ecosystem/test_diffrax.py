"""diffrax: solvers with adjoints, steps and checks of their own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from support.one_line import Jit, Place, check, uniform

eqx = pytest.importorskip("equinox", reason="equinox does not import")
diffrax = pytest.importorskip("diffrax", reason="diffrax does not import")


def _solve(y0, rate, **options):
    if "adjoint" in options:
        options["adjoint"] = getattr(diffrax, options["adjoint"])()
    return diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, rate: jnp.sin(t) - rate * y),
        diffrax.Heun(),
        t0=0.0,
        t1=1.0,
        dt0=0.1,
        y0=y0,
        args=rate,
        stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6),
        **options,
    ).ys


@pytest.mark.parametrize("adjoint", ["RecursiveCheckpointAdjoint", "BacksolveAdjoint"])
def test_gradient_of_diffeqsolve(monkeypatch, adjoint):
    monkeypatch.delenv("EQX_ON_ERROR", raising=False)

    def program(jit: Jit, place: Place):
        def loss(y0, rate):
            return (_solve(y0, rate, adjoint=adjoint) ** 2).sum()

        return jit(jax.value_and_grad(loss, (0, 1)))(place(uniform(16, 16), "data"), 2.0)

    check(program)


def test_neural_differential_equations():
    """Each with steps of its own: a loop under vmap goes on until the last is done."""
    params, static = eqx.partition(eqx.nn.MLP(4, 4, 8, 1, key=jax.random.key(0)), eqx.is_array)

    def end(params, y0):
        term = diffrax.ODETerm(lambda t, y, model: model(y))
        controller = diffrax.PIDController(rtol=1e-3, atol=1e-5)
        model = eqx.combine(params, static)
        return diffrax.diffeqsolve(
            term, diffrax.Heun(), 0.0, 1.0, 0.1, y0, args=model, stepsize_controller=controller
        ).ys

    def program(jit: Jit, place: Place):
        loss = jax.value_and_grad(lambda params, y: (jax.vmap(end, (None, 0))(params, y) ** 2).mean())
        return jit(loss)(params, place(uniform(16, 4), "data"))

    check(program)
