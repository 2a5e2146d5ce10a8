"""Optimisers of optax in a step, and L-BFGS, whose line search is a loop in the step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from support.one_line import Jit, Place, check, uniform

optax = pytest.importorskip("optax", reason="optax does not import")

_OPTIMISERS = {
    "adamw": lambda: optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 1e-2, 2, 10)),
    "chain": lambda: optax.chain(optax.clip_by_global_norm(0.1), optax.scale_by_adam(), optax.scale(-1e-2)),
    "multi_steps": lambda: optax.MultiSteps(optax.adam(1e-2), every_k_schedule=2),
    "adafactor": lambda: optax.adafactor(1e-2, min_dim_size_to_factor=4),
    "apply_if_finite": lambda: optax.apply_if_finite(optax.lion(1e-3), 3),
    "by_label": lambda: optax.multi_transform(
        {"fast": optax.adam(1e-2), "frozen": optax.set_to_zero()}, {"in": "fast", "out": "frozen"}
    ),
}


def _loss(params, x, y):
    return ((jnp.tanh(x @ params["in"]) @ params["out"] - y) ** 2).mean()


def _params(place: Place):
    return {
        "in": place(uniform(16, 8) - 0.5, None, "model"),
        "out": place(uniform(8, 4, seed=1) - 0.5, "model"),
    }


def _batch(place: Place):
    return place(uniform(32, 16, seed=2), "data"), place(uniform(32, 4, seed=3), "data")


@pytest.mark.parametrize("make", _OPTIMISERS.values(), ids=_OPTIMISERS)
def test_training(make):
    def program(jit: Jit, place: Place):
        optimizer = make()
        params, batch = _params(place), _batch(place)
        state = jit(optimizer.init)(params)

        @jit
        def step(params, state, x, y):
            value, gradients = jax.value_and_grad(_loss)(params, x, y)
            updates, state = optimizer.update(gradients, state, params)
            return optax.apply_updates(params, updates), state, value

        for _ in range(4):
            params, state, value = step(params, state, *batch)
        return params, state, value

    check(program)


def test_steps_of_lbfgs():
    def program(jit: Jit, place: Place):
        solver = optax.lbfgs()
        params, batch = _params(place), _batch(place)
        state = jit(solver.init)(params)

        @jit
        def step(params, state, x, y):
            def loss(params):
                return _loss(params, x, y)

            value, gradients = optax.value_and_grad_from_state(loss)(params, state=state)
            updates, state = solver.update(gradients, state, params, value=value, grad=gradients, value_fn=loss)
            return optax.apply_updates(params, updates), state, value

        for _ in range(3):
            params, state, value = step(params, state, *batch)
        return params, value

    check(program)


def test_loop_of_lbfgs():
    def program(jit: Jit, place: Place):
        solver = optax.lbfgs()

        @jit
        def fit(params, x, y):
            def loss(params):
                return _loss(params, x, y)

            def step(carry):
                params, state = carry
                value, gradients = optax.value_and_grad_from_state(loss)(params, state=state)
                updates, state = solver.update(gradients, state, params, value=value, grad=gradients, value_fn=loss)
                return optax.apply_updates(params, updates), state

            def goes_on(carry):
                return optax.tree.get(carry[1], "count") < 3

            return jax.lax.while_loop(goes_on, step, (params, solver.init(params)))[0]

        return fit(_params(place), *_batch(place))

    check(program)
