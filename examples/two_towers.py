"""A multimodal model of two towers, pictures and captions, each with a parallelism of its own.

A Vision Transformer and a text Transformer map pictures and captions to vectors; those of a pair are to be closer than
all others of the batch. The towers share the devices: pictures can be split over all of them while captions are over
one axis and the text tower's weights over the other. Between the towers only the vectors move.

Sources: the contrastive loss of CLIP (arXiv 2103.00020); parallelism per tower, arXiv 2105.04663, section 3.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gspmd.examples.common import transformer, weights
from gspmd.examples.common.optimizers import adam
from gspmd.examples.common.pictures import CHANNELS, SHAPES, TEXTURES, patches, pictures
from gspmd.examples.common.program import Program, training
from gspmd.examples.common.recipe import Recipe
from gspmd.examples.common.weights import Weight

Array = Any
Params = dict[str, Any]

# The text tower has the dimensions of common/transformer.py, and v its vocabulary; e are the elements of the vectors.
# The same of the image tower: I batch, P patches, W model, J heads, K hidden units.
IMAGE = {"B": "I", "S": "P", "M": "W", "N": "J", "H": "K", "m": "w", "n": "j", "h": "k"}
RECIPES = {
    "towers": Recipe(
        "pictures over all devices; captions on x, the text tower's heads and hidden units on y",
        {"x": 4, "y": 2},
        {"I": ("x", "y"), "B": "x", "n": "y", "h": "y", "N": "y", "H": "y"},
    ),
    "swapped": Recipe(
        "captions over all devices; pictures on x, the image tower's heads and hidden units on y",
        {"x": 4, "y": 2},
        {"B": ("x", "y"), "I": "x", "j": "y", "k": "y", "J": "y", "K": "y"},
    ),
    "dp": Recipe("data parallel: every device holds both towers", {"x": 8}, {"I": "x", "B": "x"}),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes: first of both towers, then of the image tower, then of the text tower."""

    layers: int = 2
    vector: int = 32
    batch: int = 32
    image_model: int = 64
    image_heads: int = 4
    image_hidden: int = 128
    image: int = 32
    patch: int = 4
    text_model: int = 48
    text_heads: int = 4
    text_hidden: int = 96
    sequence: int = 6
    head_size: int = 16
    recipe: str = "towers"

    @property
    def image_sizes(self) -> dict[str, int]:
        """Of the dimensions of the image tower's weights."""
        shared = {"d": self.head_size, "e": self.vector, "i": self.patch**2 * CHANNELS}
        tokens = (self.image // self.patch) ** 2
        return {**shared, "m": self.image_model, "n": self.image_heads, "h": self.image_hidden, "s": tokens}

    @property
    def text_sizes(self) -> dict[str, int]:
        """Of the dimensions of the text tower's weights."""
        shared = {"d": self.head_size, "e": self.vector, "v": WORDS}
        return {**shared, "m": self.text_model, "n": self.text_heads, "h": self.text_hidden, "s": self.sequence}


def tower(config: Config, tokens: Weight) -> Params:
    """Weights of a tower, in its own names of dimensions; `tokens` makes what is put in into tokens."""
    return {
        "tokens": tokens,
        "positions": Weight("SM", fan_in="m"),
        "layers": [transformer.LAYER for _ in range(config.layers)],
        "norm": transformer.NORM,
        "vector": Weight("Me", fan_in="m"),
    }


def vectors(recipe: Recipe, w: Params, x: Array) -> Array:
    """Tokens `x [b, s, m]` through a tower: vectors `[b, e]` of length 1."""
    x = recipe.split(x + w["positions"], "BSM")
    for layer in w["layers"]:
        x = transformer.layer(recipe, layer, x)
    x = jnp.mean(transformer.norm(w["norm"], x), axis=1)
    x = recipe.split(jnp.einsum("bm,me->be", x, w["vector"]), "BE")
    return x * jax.lax.rsqrt(jnp.sum(x * x, axis=-1, keepdims=True) + 1e-6)


def loss(config: Config, recipe: Recipe, params: Params, batch: Params) -> tuple[Array, Params]:
    """How badly pictures and captions are told to belong together, and how likely each picture is given its caption.

    `batch` has `images [b, rows, columns, 3]` and int32 `captions [b, s]`. Every picture of the whole batch is compared
    with every caption: rows of the table of similarities are split as pictures are.
    """
    cut = patches(batch["images"], config.patch)
    of_images = recipe.renamed(IMAGE)
    image = vectors(of_images, params["image"], jnp.einsum("bsi,im->bsm", cut, params["image"]["tokens"]))
    text = vectors(recipe, params["text"], params["text"]["tokens"][batch["captions"]])
    scale = jnp.exp(params["scale"])
    similarity = of_images.split(scale * jnp.einsum("be,ce->bc", image, text), "BC")
    pairs = scale * jnp.sum(image * of_images.split(text, "BE"), axis=-1)
    either = jax.nn.logsumexp(similarity, axis=1), jax.nn.logsumexp(similarity, axis=0)
    found = jnp.mean(jnp.exp(pairs - either[0]))  # several pictures may have one caption
    return sum(map(jnp.mean, either)) / 2 - jnp.mean(pairs), {"found": found}


SYNONYMS = 2
WORDS = 1 + SYNONYMS * (len(SHAPES) + len(TEXTURES))  # word 0 means nothing


def data(config: Config, step: int) -> Params:
    """Pictures, and captions that name texture and shape by one of two words each, somewhere in this order."""
    rng = np.random.default_rng(1000 + step)
    images, shape, texture = pictures(rng, config.batch, config.image)
    named = np.stack([len(SHAPES) + texture, shape], axis=1)
    words = 1 + SYNONYMS * named + rng.integers(0, SYNONYMS, named.shape)
    places = np.sort(rng.permuted(np.tile(np.arange(config.sequence), (config.batch, 1)), axis=1)[:, :2], axis=1)
    captions = np.zeros((config.batch, config.sequence), np.int32)
    np.put_along_axis(captions, places, words.astype(np.int32), axis=1)
    return {"images": images, "captions": captions}


def program(config: Config, recipe: Recipe) -> Program:
    """Steps of training with Adam."""
    image, text = tower(config, Weight("im", fan_in="i")), tower(config, Weight("vm", fan_in="m"))
    scale = Weight("", fill=math.log(5.0))

    def init() -> Params:
        first, second = weights.init(image, config.image_sizes), weights.init(text, config.text_sizes, seed=1)
        return {"image": first, "text": second, "scale": weights.init(scale, {})}

    of_images = recipe.renamed(IMAGE)
    specs = {"image": weights.specs(image, of_images), "text": weights.specs(text, recipe), "scale": recipe.spec("")}
    batch_specs = {"images": of_images.spec("B"), "captions": recipe.spec("BS")}
    return training(
        functools.partial(loss, config, recipe), init, specs, functools.partial(data, config), batch_specs, adam(3e-3)
    )
