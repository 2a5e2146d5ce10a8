"""numpyro: variational inference, and Hamiltonian Monte Carlo, whose trajectories are trees grown in nested loops."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.one_line import Jit, Place, check

numpyro = pytest.importorskip("numpyro", reason="numpyro does not import")
dist = pytest.importorskip("numpyro.distributions", reason="numpyro does not import")
infer = pytest.importorskip("numpyro.infer", reason="numpyro does not import")

_X = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
_Y = (_X @ np.array([1, -2, 0.5, 0]) > 0).astype(np.float32)


def _regression(x, y=None):
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(4), 1.0).to_event(1))
    bias = numpyro.sample("bias", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=x @ weights + bias), obs=y)


def _data(place: Place):
    return place(_X, "data"), place(_Y, "data")


def test_variational_inference():
    def program(jit: Jit, place: Place):
        guide = infer.autoguide.AutoNormal(_regression)
        svi = infer.SVI(_regression, guide, numpyro.optim.Adam(1e-2), infer.Trace_ELBO())
        data = _data(place)
        state = jit(svi.init)(jax.random.key(0), *data)
        update = jit(svi.update)
        for _ in range(3):
            state, loss = update(state, *data)
        return svi.get_params(state), loss

    check(program)


def test_steps_of_nuts():
    def program(jit: Jit, place: Place):
        data = _data(place)
        kernel = infer.NUTS(_regression, max_tree_depth=4)
        state = kernel.init(jax.random.key(0), 10, None, data, {})
        sample = jit(lambda state, *data: kernel.sample(state, data, {}))
        for _ in range(3):
            state = sample(state, *data)
        return state.z, state.num_steps

    check(program, rtol=1e-3, atol=1e-4)


def test_mcmc():
    def program(jit: Jit, place: Place):
        @jit
        def posterior(key, x, y):
            mcmc = infer.MCMC(
                infer.NUTS(_regression, max_tree_depth=3), num_warmup=4, num_samples=4, progress_bar=False
            )
            mcmc.run(key, x, y)
            return mcmc.get_samples()

        return posterior(jax.random.key(1), *_data(place))

    check(program, rtol=1e-3, atol=1e-4)


def test_predictions():
    def program(jit: Jit, place: Place):
        posterior = {"weights": jnp.ones((7, 4)), "bias": jnp.zeros(7)}
        return jit(infer.Predictive(_regression, posterior))(jax.random.key(0), _data(place)[0])

    check(program)
