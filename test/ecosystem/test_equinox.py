"""equinox: modules as pytrees, filtered transformations, checks that raise, and states."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from support.one_line import Jit, Place, check, uniform

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
    for mesh in (1, 8):
        f = gspmd.jit(lambda x: eqx.error_if(x, jnp.any(x < 0), "below zero") * 2, mesh=mesh, in_shardings=P("x"))
        with pytest.raises(gspmd.ExecutionError, match="below zero"):
            f(-uniform(16))
        np.testing.assert_array_equal(f(uniform(16)), 2 * uniform(16))


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
