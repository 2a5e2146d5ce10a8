"""A dense decoder-only Transformer language model and its training step.

The model is written for one device. What makes it parallel is the handful of dimension
names given to its weights and activations, and one table, `RECIPES`, that says which mesh axes
each name is split over. Switching between parallelisms means choosing another row.

Source of the recipes: the dense Transformer of the GSPMD paper (arXiv 2105.04663, section 5.1).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

Array = Any
Params = dict[str, Any]

# Dimension names: b batch, s sequence, m model, n heads, d head size, h MLP hidden, v vocabulary.
# Names in upper case belong to activations, so that weights can be split differently.
RECIPES: dict[str, dict[str, str | None]] = {
    # The paper's finalised 2-D sharding: weights on both axes, batch on x, heads and hidden on y.
    "2d": {"m": "x", "n": "y", "h": "y", "v": "y", "B": "x", "M": "y", "N": "y", "H": "y", "V": "y"},
    # Data parallelism: every device holds all weights.
    "dp": {"B": "x"},
    # Fully sharded data parallelism (ZeRO-3): weights and optimizer state are split, batch too.
    "fsdp": {"m": "x", "B": "x"},
    # Megatron's tensor parallelism: heads and hidden on y, activations replicated between blocks.
    "tp": {"n": "y", "h": "y", "v": "y", "N": "y", "H": "y", "V": "y"},
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of the model and of its batch (counts of elements)."""

    layers: int = 2
    model: int = 64
    heads: int = 4
    head_size: int = 16
    hidden: int = 256
    vocabulary: int = 128
    sequence: int = 32
    batch: int = 8
    scan: bool = False
    recipe: str = "2d"


_WEIGHT_DIMS = {
    "embedding": "vm",
    "query": "mnd",
    "key": "mnd",
    "value": "mnd",
    "output": "ndm",
    "mlp_in": "mh",
    "mlp_in_bias": "h",
    "mlp_out": "hm",
    "mlp_out_bias": "m",
    "attention_scale": "m",
    "attention_bias": "m",
    "mlp_scale": "m",
    "mlp_bias": "m",
    "final_scale": "m",
    "final_bias": "m",
}


def _sizes(config: Config) -> dict[str, int]:
    return {
        "m": config.model,
        "n": config.heads,
        "d": config.head_size,
        "h": config.hidden,
        "v": config.vocabulary,
    }


def partition_spec(config: Config, dims: str, mesh: Any) -> PartitionSpec:
    """The sharding of a tensor with these dimension names; weight vectors follow the activations they meet."""
    table = RECIPES[config.recipe]
    if len(dims) == 1:
        dims = dims.upper()
    axes = [table.get(d) for d in dims]
    return PartitionSpec(*(a if a in mesh.axis_names else None for a in axes))


def init(config: Config, seed: int = 0) -> Params:
    """Weights as NumPy float32 arrays, a list of layers or stacked layers when scanned."""
    rng = np.random.default_rng(seed)
    sizes = _sizes(config)

    def weight(name: str) -> np.ndarray:
        shape = tuple(sizes[d] for d in _WEIGHT_DIMS[name])
        if name.endswith("scale"):
            return np.ones(shape, np.float32)
        if name.endswith("bias"):
            return np.zeros(shape, np.float32)
        fan_in = {"output": shape[0] * shape[-2]}.get(name, shape[0])
        return np.asarray(rng.standard_normal(shape) / np.sqrt(fan_in), np.float32)

    outer = ("embedding", "final_scale", "final_bias")
    inner = [name for name in _WEIGHT_DIMS if name not in outer]
    layers: Any = [{name: weight(name) for name in inner} for _ in range(config.layers)]
    if config.scan:
        layers = {name: np.stack([layer[name] for layer in layers]) for name in inner}
    return {**{name: weight(name) for name in outer}, "layers": layers}


def weight_shardings(config: Config, mesh: Any) -> Params:
    """A `NamedSharding` for every weight, in the structure of `init`."""
    outer = ("embedding", "final_scale", "final_bias")

    def sharding(name: str, stacked: bool) -> NamedSharding:
        spec = partition_spec(config, _WEIGHT_DIMS[name], mesh)
        return NamedSharding(mesh, PartitionSpec(None, *spec) if stacked else spec)

    inner = {n: sharding(n, config.scan) for n in _WEIGHT_DIMS if n not in outer}
    layers: Any = inner if config.scan else [dict(inner) for _ in range(config.layers)]
    return {**{name: sharding(name, False) for name in outer}, "layers": layers}


def _layer_norm(x: Array, scale: Array, bias: Array) -> Array:
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-6) * scale + bias


def _rotary(x: Array) -> Array:
    """Rotary position embedding of `[batch, sequence, heads, head_size]`."""
    half = x.shape[-1] // 2
    frequency = jnp.exp(-jnp.log(10000.0) * jnp.arange(half) / half)
    angle = jnp.arange(x.shape[1])[:, None] * frequency[None, :]
    cosine, sine = jnp.cos(angle)[None, :, None, :], jnp.sin(angle)[None, :, None, :]
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def loss(config: Config, mesh: Any, params: Params, tokens: Array) -> Array:
    """Mean cross-entropy of predicting `tokens[:, 1:]`; tokens are int32 `[batch, sequence + 1]`."""

    def split(x: Array, dims: str) -> Array:
        spec = partition_spec(config, dims, mesh)
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec))

    def attention(w: Params, x: Array) -> Array:
        query = split(_rotary(jnp.einsum("bsm,mnd->bsnd", x, w["query"])), "BSND")
        key = split(_rotary(jnp.einsum("bsm,mnd->bsnd", x, w["key"])), "BSND")
        value = split(jnp.einsum("bsm,mnd->bsnd", x, w["value"]), "BSND")
        score = jnp.einsum("bqnd,bknd->bnqk", query, key) / np.sqrt(config.head_size)
        causal = jnp.tril(jnp.ones((config.sequence, config.sequence), bool))
        weight = jax.nn.softmax(jnp.where(causal, score, -1e9), axis=-1)
        mixed = split(jnp.einsum("bnqk,bknd->bqnd", weight, value), "BSND")
        return jnp.einsum("bsnd,ndm->bsm", mixed, w["output"])

    def mlp(w: Params, x: Array) -> Array:
        hidden = split(jnp.einsum("bsm,mh->bsh", x, w["mlp_in"]) + w["mlp_in_bias"], "BSH")
        return jnp.einsum("bsh,hm->bsm", jax.nn.gelu(hidden), w["mlp_out"]) + w["mlp_out_bias"]

    def layer(x: Array, w: Params) -> Array:
        x = x + split(attention(w, _layer_norm(x, w["attention_scale"], w["attention_bias"])), "BSM")
        return x + split(mlp(w, _layer_norm(x, w["mlp_scale"], w["mlp_bias"])), "BSM")

    x = split(params["embedding"][tokens[:, :-1]], "BSM")
    if config.scan:
        x, _ = jax.lax.scan(lambda x, w: (layer(x, w), None), x, params["layers"])
    else:
        for w in params["layers"]:
            x = layer(x, w)
    x = _layer_norm(x, params["final_scale"], params["final_bias"])
    logits = split(jnp.einsum("bsm,vm->bsv", x, params["embedding"]), "BSV")
    log_probability = jax.nn.log_softmax(logits)
    picked = jnp.take_along_axis(log_probability, tokens[:, 1:, None], axis=-1)
    return -jnp.mean(picked)


def train_step(config: Config, mesh: Any, state: Params, tokens: Array) -> tuple[Params, Array]:
    """One step of Adam. `state` holds `params`, first and second moments, and the step count."""
    rate, beta1, beta2, epsilon = 1e-3, 0.9, 0.99, 1e-8
    value, gradient = jax.value_and_grad(functools.partial(loss, config, mesh))(state["params"], tokens)
    step = state["step"] + 1
    mean = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, state["mean"], gradient)
    square = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, state["square"], gradient)
    scale = rate * jnp.sqrt(1 - beta2**step) / (1 - beta1**step)
    params = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + epsilon), state["params"], mean, square)
    return {"params": params, "mean": mean, "square": square, "step": step}, value


def init_state(config: Config, seed: int = 0) -> Params:
    """The training state before the first step, as NumPy arrays."""
    params = init(config, seed)
    return {
        "params": params,
        "mean": jax.tree.map(np.zeros_like, params),
        "square": jax.tree.map(np.zeros_like, params),
        "step": np.float32(0),
    }


def state_shardings(config: Config, mesh: Any) -> Params:
    """Optimizer state is split as the weights are."""
    weights = weight_shardings(config, mesh)
    scalar = NamedSharding(mesh, PartitionSpec())
    return {"params": weights, "mean": weights, "square": weights, "step": scalar}


def batch(config: Config, step: int = 0) -> np.ndarray:
    """Tokens that can be learned: arithmetic progressions modulo the vocabulary."""
    rng = np.random.default_rng(1000 + step)
    start = rng.integers(0, config.vocabulary, (config.batch, 1))
    stride = rng.integers(1, 4, (config.batch, 1))
    return ((start + stride * np.arange(config.sequence + 1)) % config.vocabulary).astype(np.int32)


def lower(config: Config, mesh: Any) -> Any:
    """The training step lowered by JAX for `mesh`, with the recipe's annotations in it."""
    state = jax.eval_shape(lambda: init_state(config))
    shardings = state_shardings(config, mesh)
    tokens = jax.ShapeDtypeStruct((config.batch, config.sequence + 1), jnp.int32)
    tokens_sharding = NamedSharding(mesh, partition_spec(config, "BS", mesh))
    scalar = NamedSharding(mesh, PartitionSpec())
    step = jax.jit(
        functools.partial(train_step, config, mesh),
        in_shardings=(shardings, tokens_sharding),
        out_shardings=(shardings, scalar),
        donate_argnums=0,
    )
    return step.lower(state, tokens)
