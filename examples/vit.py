"""A Vision Transformer that classifies textured shapes.

A picture is cut into patches, which are the tokens; one further token, at place 0, is where the class is read. Beside
data parallelism and the sharding of a Transformer in two dimensions, the patches themselves can be split, which the
further token makes uneven: 65 tokens over four devices. Each device then attends from its own tokens to those of all.

Source: arXiv 2010.11929; as a benchmark of the GSPMD paper's partitioner: arXiv 2105.04663, section 5.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from gspmd.examples.common import layers, transformer, weights
from gspmd.examples.common.optimizers import adam
from gspmd.examples.common.pictures import CHANNELS, SHAPES, TEXTURES, patches, pictures
from gspmd.examples.common.program import Program, training
from gspmd.examples.common.recipe import Recipe
from gspmd.examples.common.weights import Weight

Array = Any
Params = dict[str, Any]

# Beside those of common/transformer.py, where S are the tokens: i elements of a patch, c classes.
RECIPES = {
    "2d": Recipe(
        "weights on both axes; the batch on x, heads, hidden units and activations between layers on y",
        {"x": 4, "y": 2},
        {"m": "x", "n": "y", "h": "y", "B": "x", "M": "y", "N": "y", "H": "y"},
    ),
    "dp": Recipe("data parallel: every device holds all weights", {"x": 8}, {"B": "x"}),
    "patches": Recipe("tokens on x, the batch on y", {"x": 4, "y": 2}, {"B": "y", "S": "x"}),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes. Images and patches are squares of `image` and `patch` elements a side."""

    layers: int = 2
    model: int = 64
    heads: int = 4
    head_size: int = 16
    hidden: int = 128
    image: int = 32
    patch: int = 4
    batch: int = 32
    recipe: str = "patches"

    @property
    def tokens(self) -> int:
        return (self.image // self.patch) ** 2 + 1

    @property
    def classes(self) -> int:
        return len(SHAPES) * len(TEXTURES)

    @property
    def sizes(self) -> dict[str, int]:
        """Of the dimensions of weights."""
        named = {"m": self.model, "n": self.heads, "d": self.head_size, "h": self.hidden}
        return {**named, "i": self.patch**2 * CHANNELS, "s": self.tokens, "c": self.classes}


def model(config: Config) -> Params:
    return {
        "patch": Weight("im", fan_in="i"),
        "positions": Weight("SM", fan_in="m"),
        "layers": [transformer.LAYER for _ in range(config.layers)],
        "norm": transformer.NORM,
        "head": Weight("Mc", fan_in="m"),
        "head_bias": Weight("c", fill=0.0),
    }


def loss(config: Config, recipe: Recipe, params: Params, batch: Params) -> tuple[Array, Params]:
    """Mean cross-entropy of the classes, and the share of pictures put into the right one.

    `batch` has `images [b, rows, columns, 3]` and int32 `classes [b]`.
    """
    # The class token is empty but for its position, so that one pad makes place for it in every shard.
    cut = jnp.pad(patches(batch["images"], config.patch), ((0, 0), (1, 0), (0, 0)))
    x = jnp.einsum("bsi,im->bsm", recipe.split(cut, "BSI"), params["patch"])
    x = recipe.split(x + params["positions"], "BSM")
    for w in params["layers"]:
        x = transformer.layer(recipe, w, x)
    x = transformer.norm(params["norm"], recipe.split(x[:, 0], "BM"))
    logits = recipe.split(jnp.einsum("bm,mc->bc", x, params["head"]) + params["head_bias"], "BC")
    right = jnp.mean((jnp.argmax(logits, axis=-1) == batch["classes"]).astype(jnp.float32))
    return layers.cross_entropy(logits, batch["classes"]), {"right": right}


def data(config: Config, step: int) -> Params:
    """Pictures; each combination of a shape and a texture is a class."""
    images, shape, texture = pictures(np.random.default_rng(1000 + step), config.batch, config.image)
    return {"images": images, "classes": (shape * len(TEXTURES) + texture).astype(np.int32)}


def program(config: Config, recipe: Recipe) -> Program:
    """Steps of training with Adam."""
    described = model(config)
    return training(
        functools.partial(loss, config, recipe),
        lambda: weights.init(described, config.sizes),
        weights.specs(described, recipe),
        functools.partial(data, config),
        recipe.spec("B"),
        adam(2e-3),
    )
