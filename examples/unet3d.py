"""A 3-D U-Net that segments volumes, split in space: neighbours exchange halos, and no device holds an image.

Volumes are too large for one device: it is the image that is split, along depth, along depth and height, or along
depth beside the batch. Kernels are on every device. Convolutions need what is around a shard, which is
exchanged with neighbours; normalisation takes its statistics over the whole image, which are summed over all shards.
Sizes need not divide by devices, and at the lower levels they hardly ever do.

Sources: the 3-D U-Net (arXiv 1606.06650), group normalisation in place of its batch normalisation (arXiv 1803.08494),
the Dice loss (arXiv 1606.04797), spatial partitioning as in GSPMD (arXiv 2105.04663, section 5.6).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from gspmd.examples.common.convolution import conv, conv_up, group_norm, kernel
from gspmd.examples.common.optimizers import adam
from gspmd.examples.common.program import Program, training
from gspmd.examples.common.recipe import Recipe

Array = Any
Params = dict[str, Any]

# B batch, D depth, H height, W width, C channels of images.
RECIPES: dict[str, Recipe] = {
    "depth": Recipe("slabs of depth", {"x": 8}, {"D": "x"}),
    "depth+height": Recipe("depth and height", {"x": 4, "y": 2}, {"D": "x", "H": "y"}),
    "dp+depth": Recipe("the batch, and slabs of depth", {"x": 2, "y": 4}, {"B": "x", "D": "y"}),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes (counts of elements) and the parallelism; `channels` doubles with every level."""

    batch: int = 2
    depth: int = 20
    height: int = 16
    width: int = 16
    levels: int = 3
    channels: int = 8
    groups: int = 4
    classes: int = 3
    blobs: int = 6
    rate: float = 1e-2
    recipe: str = "depth"

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.depth, self.height, self.width


def init(config: Config, seed: int = 0) -> Params:
    """Float32 kernels `[depth, height, width, inputs, outputs]`, scales and biases."""
    rng = np.random.default_rng(seed)

    def normed(inputs: int, outputs: int, window: int = 3) -> Params:
        one, zero = np.ones(outputs, np.float32), np.zeros(outputs, np.float32)
        return {"kernel": kernel(rng, (window,) * 3, inputs, outputs), "scale": one, "bias": zero}

    widths = [config.channels << level for level in range(config.levels)]
    pairs = list(itertools.pairwise(widths))
    return {
        "stem": normed(1, widths[0]),
        "encoder": [normed(n, n) for n in widths],
        "down": [normed(small, large) for small, large in pairs],
        "up": [normed(large, small, window=2) for small, large in pairs],
        "decoder": [normed(2 * small, small) for small, _ in pairs],
        "head": {"kernel": kernel(rng, (1, 1, 1), widths[0], config.classes)},
    }


def logits(config: Config, recipe: Recipe, params: Params, image: Array) -> Array:
    """Scores `[batch, depth, height, width, classes]` for float32 images `[batch, depth, height, width, 1]`."""

    def activated(x: Array, p: Params) -> Array:
        normed = group_norm(x, p["scale"], p["bias"], config.groups)
        return recipe.split(jax.nn.relu(normed), "BDHWC")

    def block(x: Array, p: Params, stride: int = 1) -> Array:
        return activated(conv(x, p["kernel"], stride), p)

    x = block(image, params["stem"])
    skipped = []
    for level, p in enumerate(params["encoder"]):
        if level:
            skipped.append(x)
            x = block(x, params["down"][level - 1], stride=2)
        x = block(x, p)
    for skip, up, p in reversed(list(zip(skipped, params["up"], params["decoder"], strict=True))):
        x = activated(conv_up(x, up["kernel"], skip.shape[1:-1]), up)
        x = block(jnp.concatenate([skip, x], axis=-1), p)
    return conv(x, params["head"]["kernel"])


def loss(config: Config, recipe: Recipe, params: Params, batch: Params) -> tuple[Array, Params]:
    """Cross-entropy plus one minus the mean Dice overlap of the classes; that overlap is a metric, too."""
    scores = logits(config, recipe, params, batch["image"])
    truth = jax.nn.one_hot(batch["label"], config.classes)
    log_probability = jax.nn.log_softmax(scores)
    entropy = -jnp.mean(jnp.sum(truth * log_probability, -1))
    probability, space = jnp.exp(log_probability), (1, 2, 3)
    overlap = 2 * jnp.sum(truth * probability, space)
    dice = jnp.mean((overlap + 1) / (jnp.sum(truth, space) + jnp.sum(probability, space) + 1))
    return entropy + 1 - dice, {"dice": dice}


def volumes(config: Config, step: int = 0) -> dict[str, np.ndarray]:
    """Ellipsoids in noise: those of class 1 are bright, of class 2 dark, of random places and radii.

    `image` float32 `[batch, depth, height, width, 1]`, `label` int32 without the last dimension.
    """
    rng = np.random.default_rng(1000 + step)
    places = np.ogrid[tuple(slice(size) for size in config.sizes)]
    label = np.zeros((config.batch, *config.sizes), np.int32)
    for volume in label:
        for _ in range(config.blobs):
            centre = rng.uniform(0, config.sizes)
            radius = rng.uniform(0.1, 0.25, 3) * config.sizes
            distance = sum(np.square((p - c) / r) for p, c, r in zip(places, centre, radius, strict=True))
            volume[distance < 1] = rng.integers(1, config.classes)
    brightness = np.array([0, *np.linspace(1, -1, config.classes - 1)])
    image = brightness[label] + 0.5 * rng.standard_normal(label.shape)
    return {"image": image[..., None].astype(np.float32), "label": label}


def program(config: Config, recipe: Recipe) -> Program:
    """The training step: only images are split, weights are everywhere."""
    params = functools.partial(init, config)
    return training(
        functools.partial(loss, config, recipe),
        params,
        jax.tree.map(lambda _: PartitionSpec(), jax.eval_shape(params)),
        functools.partial(volumes, config),
        {"image": recipe.spec("BDHWC"), "label": recipe.spec("BDHW")},
        adam(config.rate),
    )
