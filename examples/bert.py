"""A BERT-like bidirectional encoder that guesses masked words.

Some words of each sentence are hidden, and predicted from both sides. Data parallelism comes in two kinds, told apart
by one word of the recipe: with the whole state of the optimizer on every device, and with that state in shards, where
each device reduces its part of the gradients, updates its part of the weights, and gathers the rest. Layers are
normalised before, not after, as is easier to train.

Sources: BERT (arXiv 1810.04805); sharded weight updates (arXiv 2004.13336) and 2-D sharding, as in submissions to
MLPerf (arXiv 1909.09756; arXiv 2105.04663, section 5.1).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gspmd.examples.common import layers, transformer, weights
from gspmd.examples.common.optimizers import adam, factored
from gspmd.examples.common.program import Program, training
from gspmd.examples.common.recipe import Recipe
from gspmd.examples.common.settings import choose
from gspmd.examples.common.weights import Weight

Array = Any
Params = dict[str, Any]

_OPTIMIZERS = {"adam": adam(3e-3), "factored": factored(1e-2)}
MASK = 0  # the token that stands for a hidden word

# Beside those of common/transformer.py: v and V vocabulary, P predictions, c the head's inner dimension.
RECIPES = {
    "dp": Recipe("data parallel: every device holds and updates all weights", {"x": 8}, {"B": "x"}),
    "dp+update": Recipe(
        "data parallel, with weight-update sharding: the optimizer's state is split",
        {"x": 8},
        {"B": "x"},
        moments="x",
    ),
    "2d": Recipe(
        "weights on both axes; the batch on x, heads, hidden units and activations between layers on y",
        {"x": 4, "y": 2},
        {"m": "x", "n": "y", "h": "y", "v": "y", "c": "y", "B": "x", "M": "y", "N": "y", "H": "y", "V": "y", "C": "y"},
    ),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of the model and its data, and how it is computed.

    `masked_percent` of the words are to be guessed; each topic has its share of the vocabulary. `scan` stacks the
    layers and loops over them, `remat` computes a layer again in the backward pass, `dtype` is what is computed in.
    """

    layers: int = 2
    model: int = 64
    heads: int = 4
    head_size: int = 16
    hidden: int = 256
    vocabulary: int = 65
    topics: int = 8
    sequence: int = 32
    masked_percent: int = 15
    batch: int = 32
    scan: bool = False
    remat: bool = False
    dtype: str = "float32"
    optimizer: str = "adam"
    recipe: str = "dp+update"

    @property
    def predictions(self) -> int:
        """Words to be guessed in a sentence."""
        return max(1, self.sequence * self.masked_percent // 100)

    @property
    def sizes(self) -> dict[str, int]:
        """Of the dimensions of weights."""
        named = {"m": self.model, "n": self.heads, "d": self.head_size, "h": self.hidden}
        return {**named, "v": self.vocabulary, "s": self.sequence, "c": self.model, "l": self.layers}


def model(config: Config) -> Params:
    return {
        "embedding": Weight("vm", fan_in="m"),
        "positions": Weight("SM", fan_in="m"),
        "embedding_norm": transformer.NORM,
        "layers": weights.stacked(transformer.LAYER, "l") if config.scan else [transformer.LAYER] * config.layers,
        "norm": transformer.NORM,
        "head": Weight("mc", fan_in="m"),
        "head_bias": Weight("C", fill=0.0),
        "head_norm": {"scale": Weight("C", fill=1.0), "bias": Weight("C", fill=0.0)},
        "output_bias": Weight("V", fill=0.0),
    }


def loss(config: Config, recipe: Recipe, params: Params, batch: Params) -> tuple[Array, Params]:
    """Mean cross-entropy of the hidden words, and the share of them that is guessed.

    `batch` has int32 `tokens [b, s]`, and `positions` and `labels [b, p]` of the hidden words.
    """
    x = recipe.split(params["embedding"][batch["tokens"]] + params["positions"], "BSM")
    x = transformer.norm(params["embedding_norm"], x)
    x = transformer.stack(recipe, params["layers"], x, remat=config.remat)
    x = transformer.norm(params["norm"], x)
    hidden = recipe.split(jnp.take_along_axis(x, batch["positions"][..., None], axis=1), "BPM")
    hidden = recipe.split(jnp.einsum("bpm,mc->bpc", hidden, params["head"]) + params["head_bias"], "BPC")
    hidden = transformer.norm(params["head_norm"], jax.nn.gelu(hidden))
    logits = recipe.split(jnp.einsum("bpc,vc->bpv", hidden, params["embedding"]) + params["output_bias"], "BPV")
    guessed = jnp.mean((jnp.argmax(logits, axis=-1) == batch["labels"]).astype(jnp.float32))
    return layers.cross_entropy(logits, batch["labels"]), {"guessed": guessed}


def data(config: Config, step: int) -> Params:
    """Sentences, each of words on one topic in their order, some hidden.

    Of the words to be guessed, eight in ten are masked, one is replaced by another, and one left as it is.
    """
    rng = np.random.default_rng(1000 + step)
    words = (config.vocabulary - 1) // config.topics
    topic = rng.integers(0, config.topics, (config.batch, 1))
    order = rng.integers(0, words, (config.batch, 1)) + np.arange(config.sequence)
    tokens = (1 + topic * words + order % words).astype(np.int32)
    shuffled = rng.permuted(np.tile(np.arange(config.sequence), (config.batch, 1)), axis=1)
    positions = np.sort(shuffled[:, : config.predictions], axis=1).astype(np.int32)
    labels = np.take_along_axis(tokens, positions, axis=1)
    fate = rng.random(labels.shape)
    other = rng.integers(1, config.vocabulary, labels.shape)
    shown = np.where(fate < 0.8, MASK, np.where(fate < 0.9, other, labels)).astype(np.int32)
    np.put_along_axis(tokens, positions, shown, axis=1)
    return {"tokens": tokens, "positions": positions, "labels": labels}


def program(config: Config, recipe: Recipe) -> Program:
    """Steps of training with Adam."""
    described = model(config)
    return training(
        functools.partial(loss, config, recipe),
        lambda: weights.init(described, config.sizes),
        weights.specs(described, recipe),
        functools.partial(data, config),
        recipe.spec("BS"),
        choose("optimizer", config.optimizer, _OPTIMIZERS),
        weights.moment_specs(described, config.sizes, recipe),
        config.dtype,
    )
