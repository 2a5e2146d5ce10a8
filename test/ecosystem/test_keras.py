"""keras on JAX: training steps of stateless calls, as its guide to custom training loops has them."""

from __future__ import annotations

import os

import jax
import numpy as np
import pytest
from support.one_line import Jit, Place, check, uniform

os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras", reason="keras does not import")
if keras.backend.backend() != "jax":
    pytest.skip("keras runs on another backend", allow_module_level=True)

_LABELS = np.arange(32) % 5


def _train(make, x, jit: Jit, place: Place):
    keras.utils.set_random_seed(0)
    model, optimizer = make(), keras.optimizers.Adam(1e-2)
    optimizer.build(model.trainable_variables)
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    accuracy = keras.metrics.SparseCategoricalAccuracy()

    def loss(trainable, others, metric, x, y):
        logits, others = model.stateless_call(trainable, others, x, training=True)
        return entropy(y, logits), (others, accuracy.stateless_update_state(metric, y, logits))

    @jit
    def step(state, data):
        trainable, others, slots, metric = state
        (value, (others, metric)), gradients = jax.value_and_grad(loss, has_aux=True)(trainable, others, metric, *data)
        trainable, slots = optimizer.stateless_apply(slots, gradients, trainable)
        return value, (trainable, others, slots, metric)

    variables = (model.trainable_variables, model.non_trainable_variables, optimizer.variables, accuracy.variables)
    state = jax.tree.map(lambda variable: place(variable.value), variables)
    for _ in range(3):
        value, state = step(state, (place(x, "data"), place(_LABELS, "data")))
    for variable, array in zip(model.trainable_variables, state[0], strict=True):
        variable.assign(array)
    return value, state


def _dense():
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((20,)),
            layers.Dense(32, activation="relu", use_bias=False),
            layers.BatchNormalization(),
            layers.Dropout(0.2),
            layers.Dense(5),
        ]
    )


def _convolutions():
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(8, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.SeparableConv2D(8, 2),
            layers.GlobalAveragePooling2D(),
            layers.Dense(5),
        ]
    )


def _recurrent():
    layers = keras.layers
    return keras.Sequential(
        [keras.Input((6, 4)), layers.LSTM(8, return_sequences=True), layers.GRU(8), layers.Dense(5)]
    )


def _attention():
    layers = keras.layers
    tokens = keras.Input((8,), dtype="int32")
    x = layers.Embedding(64, 16)(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 8)(x, x, use_causal_mask=True))
    return keras.Model(tokens, layers.Dense(5)(layers.GlobalAveragePooling1D()(x)))


_TOKENS = np.random.default_rng(0).integers(0, 64, (32, 8))


@pytest.mark.parametrize(
    ("make", "x"),
    [
        (_dense, uniform(32, 20)),
        (_convolutions, uniform(32, 8, 8, 3)),
        (_recurrent, uniform(32, 6, 4)),
        (_attention, _TOKENS),
    ],
    ids=["dense", "convolutions", "recurrent", "attention"],
)
def test_training(make, x):
    check(lambda jit, place: _train(make, x, jit, place), rtol=1e-3, atol=1e-4)
