"""A dense decoder-only Transformer language model (LaMDA-like): data, tensor and 2-D parallelism.

The model is written for one device. What makes it parallel is the handful of dimension names given to its weights and
activations, and one table, `RECIPES`, that says which mesh axes each name is split over. Switching between parallelisms
means choosing another row.

Sources: the three 2-D recipes are those of the GSPMD paper (arXiv 2105.04663, section 5.1); the gated linear unit is
LaMDA's (arXiv 2201.08239, from Shazeer, arXiv 2002.05202).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from gspmd.examples.common import program as programs
from gspmd.examples.common.layers import attention, cross_entropy, layer_norm, rotary
from gspmd.examples.common.optimizers import adam, factored, momentum
from gspmd.examples.common.program import DTYPES, Program
from gspmd.examples.common.recipe import Recipe
from gspmd.examples.common.settings import choose

Array = Any
Params = dict[str, Any]

# m model, n heads, d head size, h MLP hidden, v vocabulary, l layers; in upper case of activations, with B batch,
# S sequence, and P, the sequence between two blocks.
_WEIGHTS_2D = {"m": "x", "n": "y", "h": "y", "v": "y"}
_BLOCKS_ON_Y = {"N": "y", "H": "y", "V": "y"}
RECIPES = {
    "2d": Recipe(
        "2-D, finalised: weights on x and y, the batch on x, all activations on y, too",
        {"x": 4, "y": 2},
        {**_WEIGHTS_2D, **_BLOCKS_ON_Y, "B": "x", "M": "y"},
    ),
    "2d-attempt-1": Recipe(
        "2-D, first attempt: weights and activations on x and y, the batch whole",
        {"x": 4, "y": 2},
        {**_WEIGHTS_2D, **_BLOCKS_ON_Y, "M": "x"},
    ),
    "2d-attempt-2": Recipe(
        "2-D, second attempt: the batch on x, activations between blocks whole on y",
        {"x": 4, "y": 2},
        {**_WEIGHTS_2D, **_BLOCKS_ON_Y, "B": "x"},
    ),
    "dp": Recipe("data parallelism: every device holds all weights", {"x": 8}, {"B": "x"}),
    "fsdp": Recipe(
        "fully sharded (ZeRO-3): the batch, weights and optimizer state on x", {"x": 8}, {"m": "x", "B": "x"}
    ),
    "tp": Recipe(
        "tensor parallelism (Megatron): heads and hidden units on y, activations whole between blocks",
        {"y": 8},
        {"n": "y", "h": "y", "v": "y", **_BLOCKS_ON_Y},
    ),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of the model and of its batch (counts of elements), and how it is computed.

    `scan` stacks the layers and loops over them, `remat` computes a layer again in the backward pass, `gated` adds
    GeGLU's gate to the MLP, `dtype` is what is computed in (float32, bfloat16; weights stay float32).
    """

    layers: int = 2
    model: int = 64
    heads: int = 4
    head_size: int = 16
    hidden: int = 256
    vocabulary: int = 128
    sequence: int = 32
    batch: int = 8
    scan: bool = False
    remat: bool = False
    gated: bool = False
    dtype: str = "float32"
    optimizer: str = "adam"
    recipe: str = "2d"


_OPTIMIZERS = {"adam": adam(1e-3), "factored": factored(1e-2), "momentum": momentum(1e-2)}

# Vectors follow the activations they meet.
_OUTER = {"embedding": "vm", "final_scale": "M", "final_bias": "M"}
_LAYER = {
    "query": "mnd",
    "key": "mnd",
    "value": "mnd",
    "output": "ndm",
    "mlp_in": "mh",
    "mlp_in_bias": "H",
    "mlp_out": "hm",
    "mlp_out_bias": "M",
    "attention_scale": "M",
    "attention_bias": "M",
    "mlp_scale": "M",
    "mlp_bias": "M",
}


def _layer_dims(config: Config) -> dict[str, str]:
    return {**_LAYER, "mlp_gate": "mh"} if config.gated else _LAYER


def init(config: Config, seed: int = 0) -> Params:
    """Weights in float32, a list of layers or stacked layers when scanned."""
    keys = iter(jax.random.split(jax.random.key(seed), len(_OUTER) + len(_layer_dims(config)) * config.layers))
    sizes = {"m": config.model, "n": config.heads, "d": config.head_size, "h": config.hidden, "v": config.vocabulary}

    def weight(name: str, dims: str) -> Array:
        shape, key = tuple(sizes[d.lower()] for d in dims), next(keys)
        if len(shape) == 1:
            return jnp.full(shape, name.endswith("scale"), jnp.float32)
        fan_in = shape[0] * shape[1] if name == "output" else shape[0]
        return jax.random.normal(key, shape) / fan_in**0.5

    layers: Any = [{n: weight(n, dims) for n, dims in _layer_dims(config).items()} for _ in range(config.layers)]
    if config.scan:
        layers = {name: jnp.stack([layer[name] for layer in layers]) for name in layers[0]}
    return {**{name: weight(name, dims) for name, dims in _OUTER.items()}, "layers": layers}


def specs(config: Config, recipe: Recipe) -> Params:
    """A `PartitionSpec` for every weight, in the structure of `init`."""
    stacked = "l" if config.scan else ""
    layer = {name: recipe.spec(stacked + dims) for name, dims in _layer_dims(config).items()}
    layers: Any = layer if config.scan else [layer] * config.layers
    return {**{name: recipe.spec(dims) for name, dims in _OUTER.items()}, "layers": layers}


Attend = Callable[[Array, Array, Array], tuple[Array, Any]]
Blocks = Callable[[Config, Recipe, Array, Any], Array]


def layer(recipe: Recipe, x: Array, w: Params, positions: Array, attend: Attend) -> tuple[Array, Any]:
    """One layer on `x [batch, sequence, model]` at `positions [sequence]`, and what `attend` keeps.

    `attend` is given query, key and value `[batch, sequence, heads, head size]`. Computed in the type of `x`.
    """
    split = recipe.split
    w = {name: weight.astype(x.dtype) for name, weight in w.items()}
    normed = layer_norm(x, w["attention_scale"], w["attention_bias"])
    query = split(jnp.einsum("bsm,mnd->bsnd", normed, w["query"]), "BSND")
    key = split(jnp.einsum("bsm,mnd->bsnd", normed, w["key"]), "BSND")
    value = split(jnp.einsum("bsm,mnd->bsnd", normed, w["value"]), "BSND")
    mixed, kept = attend(rotary(query, positions), rotary(key, positions), value)
    x = x + split(jnp.einsum("bsnd,ndm->bsm", split(mixed, "BSND"), w["output"]), "BPM")
    return x + split(_mlp(recipe, w, layer_norm(x, w["mlp_scale"], w["mlp_bias"])), "BPM"), kept


def _mlp(recipe: Recipe, w: Params, x: Array) -> Array:
    hidden = jax.nn.gelu(recipe.split(jnp.einsum("bsm,mh->bsh", x, w["mlp_in"]) + w["mlp_in_bias"], "BSH"))
    if "mlp_gate" in w:
        hidden = hidden * recipe.split(jnp.einsum("bsm,mh->bsh", x, w["mlp_gate"]), "BSH")
    return jnp.einsum("bsh,hm->bsm", hidden, w["mlp_out"]) + w["mlp_out_bias"]


def embed(config: Config, recipe: Recipe, params: Params, tokens: Array) -> Array:
    """`[batch, sequence, model]` in the type that is computed in."""
    table = params["embedding"].astype(choose("dtype", config.dtype, DTYPES))
    return recipe.split(table[tokens], "BPM")


def logits(recipe: Recipe, params: Params, x: Array) -> Array:
    """`[batch, sequence, vocabulary]`, in the type of `x`."""
    x = layer_norm(x, params["final_scale"], params["final_bias"])
    return recipe.split(jnp.einsum("bsm,vm->bsv", x, params["embedding"].astype(x.dtype)), "BSV")


def blocks(config: Config, recipe: Recipe, x: Array, layers: Any) -> Array:
    """All `layers`, a list or stacked, on `x [batch, sequence, model]`, each position attending to those before."""
    positions = jnp.arange(config.sequence)
    causal = positions[:, None] >= positions

    def one(x: Array, w: Params) -> tuple[Array, None]:
        return layer(recipe, x, w, positions, lambda q, k, v: (attention(q, k, v, causal), None))

    step = jax.checkpoint(one) if config.remat else one
    if config.scan:
        return jax.lax.scan(step, x, layers)[0]
    for w in layers:
        x, _ = step(x, w)
    return x


def loss(config: Config, recipe: Recipe, params: Params, tokens: Array, run: Blocks = blocks) -> Array:
    """Mean cross-entropy of predicting `tokens[:, 1:]`; tokens are int32 `[batch, sequence + 1]`."""
    x = embed(config, recipe, params, tokens[:, :-1])
    x = run(config, recipe, x, params["layers"])
    return cross_entropy(logits(recipe, params, x), tokens[:, 1:])


def batch(config: Config, step: int = 0) -> np.ndarray:
    """Tokens that can be learned: arithmetic progressions modulo the vocabulary."""
    rng = np.random.default_rng(1000 + step)
    start = rng.integers(0, config.vocabulary, (config.batch, 1))
    stride = rng.integers(1, 4, (config.batch, 1))
    return ((start + stride * np.arange(config.sequence + 1)) % config.vocabulary).astype(np.int32)


def program(config: Config, recipe: Recipe, run: Blocks = blocks) -> Program:
    """Training. Raises UsageError for settings that there are not."""
    choose("dtype", config.dtype, DTYPES)
    return programs.training(
        loss=lambda params, tokens: loss(config, recipe, params, tokens, run),
        init=lambda: init(config),
        specs=specs(config, recipe),
        batch=lambda step: batch(config, step),
        batch_specs=recipe.spec("BS"),
        optimizer=choose("optimizer", config.optimizer, _OPTIMIZERS),
    )


def lower(config: Config, mesh: Mesh) -> Any:
    """A step lowered by JAX alone for `mesh`, with the annotations of the configuration's recipe in it."""
    return programs.lower(program(config, RECIPES[config.recipe].on(mesh.shape)), mesh)
