"""equinox and diffrax: modules as pytrees, filtered transformations, solvers with adjoints and checks of their own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from one_line import Jit, Place, check, uniform

import gspmd

optax = pytest.importorskip("optax", reason="optax does not import")
eqx = pytest.importorskip("equinox", reason="equinox does not import")


def _model():
    model = eqx.nn.MLP(16, 16, 32, 2, activation=jax.nn.gelu, key=jax.random.key(0))
    return eqx.partition(model, eqx.is_array)


def test_training():
    def program(jit: Jit, place: Place):
        params, static = _model()
        optimizer = optax.adamw(1e-2)
        state = optimizer.init(params)

        @jit
        def step(params, state, x):
            def loss(params):
                return (jax.vmap(eqx.combine(params, static))(x) ** 2).mean()

            value, gradients = eqx.filter_value_and_grad(loss)(params)
            updates, state = optimizer.update(gradients, state, params)
            return eqx.apply_updates(params, updates), state, value

        for _ in range(3):
            params, state, value = step(params, state, place(uniform(16, 16), "data"))
        return params, value

    check(program)


def test_filtered_jit_around():
    def program(jit: Jit, place: Place):
        params, static = _model()
        loss = jit(lambda params, x: (jax.vmap(eqx.combine(params, static))(x) ** 2).mean())

        @eqx.filter_jit
        def step(params, x):
            return eqx.filter_value_and_grad(loss)(params, x)

        return step(jax.tree.map(place, params), place(uniform(16, 16), "data"))

    check(program)


def test_check_that_passes_and_one_that_fails():
    def program(jit: Jit, place: Place):
        checked = jit(lambda x: eqx.error_if(x, jnp.any(x < 0), "below zero") * 2)
        return checked(place(uniform(16, 16), "data"))

    check(program)
    alone = gspmd.jit(lambda x: eqx.error_if(x, jnp.any(x < 0), "below zero") * 2, mesh=1)
    with pytest.raises(Exception, match="below zero"):
        jax.block_until_ready(alone(-uniform(4)))


def test_state_of_batch_norm():
    def program(jit: Jit, place: Place):
        model, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(16, "batch", mode="ema")
        params, static = eqx.partition(model, eqx.is_array)

        @jit
        def apply(params, state, x):
            model = eqx.combine(params, static)
            return jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(x, state)

        found, state = apply(params, state, place(uniform(16, 16), "data"))
        return apply(params, state, found)[0]

    check(program)


def _solve(y0, rate, **options):
    diffrax = pytest.importorskip("diffrax", reason="diffrax does not import")
    if "adjoint" in options:
        options["adjoint"] = getattr(diffrax, options["adjoint"])()
    return diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, rate: jnp.sin(t) - rate * y),
        diffrax.Tsit5(),
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
    diffrax = pytest.importorskip("diffrax", reason="diffrax does not import")
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
