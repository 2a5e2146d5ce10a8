"""A Conformer speech encoder that recognizes phonemes: data, tensor, sequence and pipeline parallelism.

Convolution, attention and two half feed-forward layers to a block. Split by its frames, a block's convolution sends the
margins that its taps reach to the neighbours, and attention changes from frames to heads and back; split by layers,
blocks are the stages of a pipeline, where a microbatch goes from one to the next. The number of frames need not divide.

Sources: Gulati et al., arXiv 2005.08100; Zhang et al., arXiv 2109.13226 (BigSSL), where GSPMD's pipeline held it; the
channels are normalized in groups, a frame at a time, so that microbatches do not change what is computed.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gspmd
from gspmd.examples.common.layers import attention, cross_entropy, layer_norm, rotary
from gspmd.examples.common.optimizers import adam
from gspmd.examples.common.program import Program, training
from gspmd.examples.common.recipe import Recipe

Array = Any
Params = dict[str, Any]

# m model, n heads, d head size, h hidden units, c channels of the convolution, k its taps, f features, t taps of the
# input's convolution, v phonemes, r and l layers. In upper case of activations, with B batch, S frames; A, frames
# within attention, and E, the batch after the layers.
_BY_TENSORS = {"n": "y", "h": "y", "c": "y", "N": "y", "H": "y", "C": "y"}
RECIPES = {
    "dp": Recipe("data parallelism: every device holds all weights", {"x": 8}, {"B": "x", "E": "x"}),
    "tp": Recipe(
        "the batch on x; heads, hidden units and channels on y", {"x": 2, "y": 4}, {**_BY_TENSORS, "B": "x", "E": "x"}
    ),
    "sequence": Recipe(
        "the batch on x; frames on y, within attention heads",
        {"x": 2, "y": 4},
        {"B": "x", "E": "x", "S": "y", "N": "y"},
    ),
    "pipeline": Recipe(
        "layers on stage, the batch on x; after the layers, the batch on both",
        {"stage": 4, "x": 2},
        {"l": "stage", "B": "x", "E": ("x", "stage")},
    ),
    "pipeline-tp": Recipe(
        "layers on stage; heads, hidden units and channels on y; after the layers, the batch on stage",
        {"stage": 4, "y": 2},
        {**_BY_TENSORS, "l": "stage", "E": "stage"},
    ),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes, counts of elements. Layers are `repeats` times `layers`; `frames` is what enters, of which half remain.

    In a pipeline of four stages, `repeats` 1 makes neighbouring layers a stage; more make the schedule circular, and
    `layers` is then the number of stages. `microbatches` is for pipelines; `remat` computes layers again in the
    backward pass, `dtype` is what is computed in.
    """

    layers: int = 4
    repeats: int = 1
    model: int = 32
    heads: int = 4
    head_size: int = 8
    hidden: int = 64
    taps: int = 7
    features: int = 20
    phonemes: int = 16
    frames: int = 100
    batch: int = 16
    microbatches: int = 8
    remat: bool = False
    dtype: str = "float32"
    recipe: str = "pipeline"

    @property
    def sizes(self) -> dict[str, int]:
        """Of the dimensions of weights."""
        named = {"m": self.model, "n": self.heads, "d": self.head_size, "h": self.hidden, "c": self.model}
        return {**named, "k": self.taps, "f": self.features, "t": 3, "v": self.phonemes}


def _norm(name: str, dim: str = "M") -> dict[str, str]:
    return {f"{name}_scale": dim, f"{name}_bias": dim}


def _feed_forward(name: str) -> dict[str, str]:
    return {**_norm(name), f"{name}_in": "mh", f"{name}_in_bias": "H", f"{name}_out": "hm", f"{name}_out_bias": "M"}


_OUTER = {"input": "tfm", "input_bias": "M", "output": "mv", "output_bias": "V"}
_LAYER = {
    **_feed_forward("first"),
    **_norm("attention"),
    "query": "mnd",
    "key": "mnd",
    "value": "mnd",
    "mixed": "ndm",
    **_norm("convolution"),
    "channels": "mc",
    "gate": "mc",
    "depthwise": "kc",
    **_norm("channel", "C"),
    "channels_out": "cm",
    **_feed_forward("second"),
    **_norm("final"),
}
_FAN_IN = {"input": "tf", "mixed": "nd"}


def init(config: Config, seed: int = 0) -> Params:
    """Weights in float32; those of layers stacked, [repeats, layers, ...]."""
    keys = iter(jax.random.split(jax.random.key(seed), len(_OUTER) + len(_LAYER)))
    sizes = config.sizes

    def weight(name: str, dims: str, lead: tuple[int, ...]) -> Array:
        shape, key = (*lead, *(sizes[dim.lower()] for dim in dims)), next(keys)
        if len(dims) == 1:
            return jnp.full(shape, name.endswith("scale"), jnp.float32)
        fan_in = math.prod(sizes[dim] for dim in _FAN_IN.get(name, dims[0]))
        return jax.random.normal(key, shape) / fan_in**0.5

    lead = (config.repeats, config.layers)
    layers = {name: weight(name, dims, lead) for name, dims in _LAYER.items()}
    return {**{name: weight(name, dims, ()) for name, dims in _OUTER.items()}, "layers": layers}


def specs(recipe: Recipe) -> Params:
    """A `PartitionSpec` for every weight, in the structure of `init`."""
    layers = {name: recipe.spec("rl" + dims) for name, dims in _LAYER.items()}
    return {**{name: recipe.spec(dims) for name, dims in _OUTER.items()}, "layers": layers}


def layer(config: Config, recipe: Recipe, w: Params, x: Array) -> Array:
    """One block on `x [batch, frames, model]`."""
    split = recipe.split

    def normed(name: str) -> Array:
        return layer_norm(x, w[f"{name}_scale"], w[f"{name}_bias"])

    def feed_forward(name: str) -> Array:
        hidden = jnp.einsum("bsm,mh->bsh", normed(name), w[f"{name}_in"]) + w[f"{name}_in_bias"]
        out = jnp.einsum("bsh,hm->bsm", jax.nn.swish(split(hidden, "BSH")), w[f"{name}_out"])
        return split(out + w[f"{name}_out_bias"], "BSM")

    x = x + 0.5 * feed_forward("first")
    x = x + split(_attention(recipe, w, normed("attention")), "BSM")
    x = x + split(_convolution(config, recipe, w, normed("convolution")), "BSM")
    x = x + 0.5 * feed_forward("second")
    return normed("final")


def _attention(recipe: Recipe, w: Params, x: Array) -> Array:
    """Every frame attends to all; heads may be split where frames are not."""
    positions = jnp.arange(x.shape[1])

    def heads(name: str) -> Array:
        return recipe.split(recipe.split(jnp.einsum("bsm,mnd->bsnd", x, w[name]), "BSND"), "BAND")

    query, key, value = heads("query"), heads("key"), heads("value")
    mixed = recipe.split(attention(rotary(query, positions), rotary(key, positions), value), "BAND")
    return jnp.einsum("bsnd,ndm->bsm", recipe.split(mixed, "BSND"), w["mixed"])


def _convolution(config: Config, recipe: Recipe, w: Params, x: Array) -> Array:
    """A gated linear unit, then a filter of its own along the frames for every channel."""
    channels, gate = (recipe.split(jnp.einsum("bsm,mc->bsc", x, w[name]), "BSC") for name in ("channels", "gate"))
    x = jax.lax.conv_general_dilated(
        channels * jax.nn.sigmoid(gate),
        w["depthwise"][:, None],
        window_strides=(1,),
        padding="SAME",
        dimension_numbers=("NWC", "WIO", "NWC"),
        feature_group_count=config.model,
    )
    groups = (*x.shape[:2], config.heads, -1)
    scale, bias = (w[f"channel_{name}"].reshape(config.heads, -1) for name in ("scale", "bias"))
    x = layer_norm(recipe.split(x, "BSC").reshape(groups), scale, bias).reshape(x.shape)
    return jnp.einsum("bsc,cm->bsm", jax.nn.swish(recipe.split(x, "BSC")), w["channels_out"])


def encode(config: Config, recipe: Recipe, layers: Params, x: Array) -> Array:
    """All layers on `x [batch, frames, model]`: one after the other, or as a pipeline where the recipe splits them."""

    def one(w: Params, x: Array) -> Array:
        return layer(config, recipe, w, x)

    axis = recipe.table.get("l")
    if not isinstance(axis, str) or axis not in recipe.mesh:
        step = jax.checkpoint(one) if config.remat else one
        flat = jax.tree.map(lambda w: w.reshape(-1, *w.shape[2:]), layers)
        return jax.lax.scan(lambda x, w: (step(w, x), None), x, flat)[0]
    if config.repeats > 1:
        stages = gspmd.pipeline(
            one,
            config.layers,
            config.microbatches,
            schedule="circular",
            circular_repeats=config.repeats,
            axis=axis,
            remat=config.remat,
        )
        return stages(layers, x)
    # Of every stage the first layer, the second, and so on: apart, their gradients are summed over the batch once.
    count = recipe.mesh[axis]
    stacked = jax.tree.map(lambda w: w[0].reshape(count, -1, *w.shape[2:]), layers)
    apart = [jax.tree.map(lambda w, i=i: w[:, i], stacked) for i in range(config.layers // count)]

    def several(params: list[Params], x: Array) -> Array:
        return functools.reduce(lambda x, w: one(w, x), params, x)

    return gspmd.pipeline(several, count, config.microbatches, axis=axis, remat=config.remat)(apart, x)


def loss(config: Config, recipe: Recipe, params: Params, batch: Params) -> tuple[Array, Params]:
    """Cross-entropy of the frames' phonemes, and how many are right.

    `batch["sound"]` is [batch, frames, features], `batch["phonemes"]` [batch, frames / 2].
    """
    x = jax.lax.conv_general_dilated(
        batch["sound"].astype(params["input"].dtype),
        params["input"],
        (2,),
        "SAME",
        dimension_numbers=("NWC", "WIO", "NWC"),
    )
    x = recipe.split(jax.nn.swish(x + params["input_bias"]), "BSM")
    x = recipe.split(encode(config, recipe, params["layers"], x), "ESM")
    logits = recipe.split(jnp.einsum("bsm,mv->bsv", x, params["output"]) + params["output_bias"], "ESV")
    right = jnp.mean(jnp.argmax(logits, axis=-1) == batch["phonemes"])
    return cross_entropy(logits, batch["phonemes"]), {"right": right}


def batch(config: Config, step: int = 0) -> Params:
    """Made-up speech: phonemes of random length, each a spectrum that sways, with noise, as loud as another speaker."""
    rng = np.random.default_rng(1000 + step)
    spectra = np.random.default_rng(7).standard_normal((config.phonemes, config.features))
    half = -(-config.frames // 2)
    starts = rng.random((config.batch, half)) < 0.2
    which = np.cumsum(starts, axis=1, dtype=np.int64)
    spoken = rng.integers(0, config.phonemes, (config.batch, half + 1))
    phonemes = np.take_along_axis(spoken, which, axis=1)
    loudness = rng.uniform(0.5, 1.5, (config.batch, 1, 1))
    clean = np.repeat(spectra[phonemes], 2, axis=1)[:, : config.frames]
    sound = loudness * clean + rng.standard_normal(clean.shape)
    return {"sound": sound.astype(np.float32), "phonemes": phonemes.astype(np.int32)}


def program(config: Config, recipe: Recipe) -> Program:
    """Training."""
    return training(
        loss=lambda params, data: loss(config, recipe, params, data),
        init=lambda: init(config),
        specs=specs(recipe),
        batch=lambda step: batch(config, step),
        batch_specs={"sound": recipe.spec("BS."), "phonemes": recipe.spec("ES")},
        optimizer=adam(3e-3),
        dtype=config.dtype,
    )
