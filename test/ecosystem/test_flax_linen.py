"""flax linen: modules with logical axes, scanned and rematerialised layers, TrainState, collections and dropout."""

from __future__ import annotations

import contextlib

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from support.one_line import MESH, Jit, Place, check, uniform

optax = pytest.importorskip("optax", reason="optax does not import")
nn = pytest.importorskip("flax.linen", reason="flax does not import")
train_state = pytest.importorskip("flax.training.train_state", reason="flax does not import")

_RULES = (("batch", "data"), ("embed", None), ("heads", "model"), ("kv", None))


class _Block(nn.Module):
    @nn.compact
    def __call__(self, x, _=None):
        def kernel(*names):
            return nn.with_logical_partitioning(nn.initializers.lecun_normal(), names)

        heads = nn.DenseGeneral((4, 8), kernel_init=kernel("embed", "heads", "kv"))(x)
        heads = nn.with_logical_constraint(nn.gelu(heads), ("batch", None, "heads", "kv"))
        back = nn.DenseGeneral(32, axis=(-2, -1), kernel_init=kernel("heads", "kv", "embed"))(heads)
        return nn.LayerNorm()(x + back), None


class _Stack(nn.Module):
    @nn.compact
    def __call__(self, x):
        layers = nn.scan(
            nn.remat(_Block),
            variable_axes={"params": 0},
            split_rngs={"params": True},
            length=2,
            metadata_params={nn.PARTITION_NAME: "layers"},
        )
        return layers()(x, None)[0]


def _step(state, x, y):
    value, gradients = jax.value_and_grad(lambda p: ((state.apply_fn({"params": p}, x) - y) ** 2).mean())(state.params)
    return state.apply_gradients(grads=gradients), value


@pytest.mark.parametrize("around", [contextlib.nullcontext(), MESH], ids=["no_mesh", "with_mesh"])
def test_logical_axes(around):
    def program(jit: Jit, place: Place):
        model, tx = _Stack(), optax.adamw(1e-2)
        x, y = place(uniform(16, 8, 32), "data"), place(uniform(16, 8, 32, seed=1), "data")

        def init(key, x):
            return train_state.TrainState.create(apply_fn=model.apply, params=model.init(key, x)["params"], tx=tx)

        shapes = jax.eval_shape(init, jax.random.key(0), x)
        shardings = nn.logical_to_mesh_sharding(nn.get_partition_spec(shapes), MESH, _RULES)
        data = NamedSharding(MESH, PartitionSpec("data"))
        state = jit(init, out_shardings=shardings)(jax.random.key(0), x)
        step = jit(_step, in_shardings=(shardings, data, data), out_shardings=(shardings, None), donate_argnums=0)
        for _ in range(2):
            state, value = step(state, x, y)
        return nn.unbox(state.params), value

    with around, nn.logical_axis_rules(_RULES):
        check(program)


class _Convolutions(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.Conv(8, (3, 3), use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not train)(x))
        x = nn.max_pool(x, (2, 2), (2, 2)).reshape(x.shape[0], -1)
        return nn.Dense(10)(nn.Dropout(0.5, deterministic=not train)(x))


class _State(train_state.TrainState):
    batch_stats: dict


def test_batch_statistics_and_dropout():
    def program(jit: Jit, place: Place):
        model = _Convolutions()
        images, labels = place(uniform(16, 4, 4, 3), "data"), place(np.arange(16) % 10, "data")
        variables = jit(model.init, static_argnames="train")(jax.random.key(0), images, train=False)
        tx = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9))
        state = _State.create(
            apply_fn=model.apply, params=variables["params"], batch_stats=variables["batch_stats"], tx=tx
        )

        @jit
        def step(state, images, labels, key):
            def loss(params):
                logits, updates = state.apply_fn(
                    {"params": params, "batch_stats": state.batch_stats},
                    images,
                    train=True,
                    rngs={"dropout": jax.random.fold_in(key, state.step)},
                    mutable=["batch_stats"],
                )
                return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), updates

            (value, updates), gradients = jax.value_and_grad(loss, has_aux=True)(state.params)
            return state.apply_gradients(grads=gradients, batch_stats=updates["batch_stats"]), value

        for _ in range(2):
            state, value = step(state, images, labels, jax.random.key(1))
        return state.params, state.batch_stats, value

    check(program)


def test_cache_of_decoding():
    def program(jit: Jit, place: Place):
        attention = nn.MultiHeadDotProductAttention(num_heads=4, qkv_features=32, decode=True)
        tokens = uniform(16, 8, 32)
        variables = attention.init(jax.random.key(0), tokens)

        @jit
        def decode(params, cache, token):
            found, updates = attention.apply({"params": params, "cache": cache}, token, mutable=["cache"])
            return found, updates["cache"]

        cache, found = variables["cache"], []
        for i in range(3):
            one, cache = decode(variables["params"], cache, place(tokens[:, i : i + 1], "data"))
            found.append(one)
        return found, cache

    check(program)
