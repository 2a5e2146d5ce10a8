"""flax nnx: a model and its optimiser split into a state and merged in the step, in the place of `nnx.jit`."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from support.one_line import MESH, Jit, Place, check, uniform

optax = pytest.importorskip("optax", reason="optax does not import")
nnx = pytest.importorskip("flax.nnx", reason="flax does not import")


class _Model(nnx.Module):
    def __init__(self, rngs):
        def kernel(*names):
            return nnx.with_partitioning(nnx.initializers.lecun_normal(), names)

        self.first = nnx.Linear(32, 64, use_bias=False, kernel_init=kernel(None, "model"), rngs=rngs)
        self.norm = nnx.BatchNorm(64, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.second = nnx.Linear(64, 32, kernel_init=kernel("model", None), rngs=rngs)

    def __call__(self, x):
        return self.second(self.dropout(nnx.relu(self.norm(self.first(x)))))


def _loss(model, x):
    return ((model(x) - x) ** 2).mean()


def test_training():
    def program(jit: Jit, place: Place):
        with jax.set_mesh(MESH):
            model = _Model(nnx.Rngs(0))
            optimizer = nnx.Optimizer(model, optax.adamw(1e-2), wrt=nnx.Param)
        graph, state = nnx.split((model, optimizer))

        @jit
        def step(state, x):
            model, optimizer = nnx.merge(graph, state)
            value, gradients = nnx.value_and_grad(_loss)(model, x)
            optimizer.update(model, gradients)
            return nnx.state((model, optimizer)), value

        for _ in range(3):
            state, value = step(state, place(uniform(16, 32), "data"))
        nnx.update((model, optimizer), state)
        return nnx.state(model), value

    check(program)


def test_initialised_in_shards():
    def program(jit: Jit, place: Place):
        @jit
        def create():
            model = _Model(nnx.Rngs(0))
            state = nnx.state(model)
            return jax.lax.with_sharding_constraint(state, nnx.get_partition_spec(state))

        with jax.set_mesh(MESH):
            return create()

    check(program)


def test_graphs_in_and_out():
    def program(jit: Jit, place: Place):
        with jax.set_mesh(MESH):
            graph, state = nnx.split(_Model(nnx.Rngs(0)))

        @nnx.jit
        def apply(model, x):
            return model(x)

        @jit
        def call(graph, state, x):
            model = nnx.merge(graph, state)
            found = apply(model, x)
            return nnx.split(model), found

        (graph, state), _ = call(graph, state, place(uniform(16, 32), "data"))
        (graph, state), found = call(graph, state, place(uniform(16, 32), "data"))
        return state, found

    check(program)


def test_scanned_layers():
    def program(jit: Jit, place: Place):
        @nnx.split_rngs(splits=3)
        @nnx.vmap(in_axes=0, out_axes=0)
        def make(rngs):
            return nnx.Linear(32, 32, rngs=rngs)

        graph, state = nnx.split(make(nnx.Rngs(0)))

        @jit
        def apply(state, x):
            @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
            def layer(x, linear):
                return nnx.relu(linear(x)) + x

            return layer(x, nnx.merge(graph, state))

        return apply(state, place(uniform(16, 32), "data"))

    check(program)


def test_attention_and_labels():
    def program(jit: Jit, place: Place):
        class Decoder(nnx.Module):
            def __init__(self, rngs):
                self.embedding = nnx.Embed(64, 32, rngs=rngs)
                self.attention = nnx.MultiHeadAttention(4, 32, 32, decode=False, rngs=rngs)

            def __call__(self, tokens):
                x = self.embedding(tokens)
                return self.embedding.attend(x + self.attention(x, mask=nnx.make_causal_mask(tokens)))

        graph, params, rest = nnx.split(Decoder(nnx.Rngs(0)), nnx.Param, ...)

        @jit
        def gradients(params, rest, tokens):
            def loss(params):
                logits = nnx.merge(graph, params, rest)(tokens)
                return optax.softmax_cross_entropy_with_integer_labels(logits, tokens).mean()

            return jax.grad(loss)(params)

        tokens = np.random.default_rng(0).integers(0, 64, (16, 8))
        return gradients(params, rest, place(tokens, "data"))

    check(program)
