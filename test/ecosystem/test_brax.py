"""brax: a batch of simulated worlds, split over devices, stepped in a scan."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from support.one_line import Jit, Place, check

pytestmark = pytest.mark.filterwarnings("ignore:Brax System")
envs = pytest.importorskip("brax.envs", reason="brax does not import")


def _keys(place: Place):
    return place(jax.random.split(jax.random.key(0), 8), "data")


def test_gradient_through_a_rollout():
    def program(jit: Jit, place: Place):
        env = envs.get_environment("inverted_pendulum", backend="spring")

        def loss(weights, keys):
            def step(state, _):
                state = jax.vmap(env.step)(state, jnp.tanh(state.obs @ weights))
                return state, (state.reward, state.obs)

            _, (rewards, seen) = jax.lax.scan(jax.checkpoint(step), jax.vmap(env.reset)(keys), length=3)
            return (seen**2).sum() - rewards.sum()

        return jit(jax.value_and_grad(loss))(jnp.full((4, 1), 0.1), _keys(place))

    check(program, rtol=1e-3)
