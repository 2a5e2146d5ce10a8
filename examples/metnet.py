"""A weather model like MetNet-2: it forecasts rain some hours ahead, from an area far larger than the forecast's.

Rain travels far in hours, so the network sees a large square of past radar frames and forecasts its centre. It is
convolutions throughout, whose dilation doubles from block to block; context is split over devices in space,
and each block exchanges halos as wide as its dilation. The lead time scales and shifts channels in every
block. The centre is cut out of all devices' parts and spread over all of them again; each pixel's rain falls into one
of some bins. The data are storms that move with one wind per example, so where to look is in the frames.

Source: MetNet-2 (arXiv 2111.07470), at a fraction of its size, without its ensemble and weather model inputs.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from gspmd.examples.common.convolution import conv, conv_up, kernel
from gspmd.examples.common.optimizers import adam
from gspmd.examples.common.program import Program, training
from gspmd.examples.common.recipe import Recipe

Array = Any
Params = dict[str, Any]

# B batch, H height, W width, C channels of images.
RECIPES: dict[str, Recipe] = {
    "spatial": Recipe("height and width of the images", {"x": 4, "y": 2}, {"H": "x", "W": "y"}),
    "batch+spatial": Recipe("the batch, height and width", {"z": 2, "x": 2, "y": 2}, {"B": "z", "H": "x", "W": "y"}),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes (counts of elements, pixels) and the parallelism. The network works at half the context's resolution."""

    batch: int = 4
    frames: int = 4
    context: int = 60
    target: int = 28
    channels: int = 16
    dilations: tuple[int, ...] = (1, 2, 4)
    stacks: int = 2
    leads: int = 4
    bins: int = 4
    storms: int = 12
    rate: float = 5e-3
    recipe: str = "spatial"


def init(config: Config, seed: int = 0) -> Params:
    """Float32 kernels `[height, width, inputs, outputs]`; `lead` holds scales and shifts `[leads, 2, channels]`."""
    rng = np.random.default_rng(seed)
    width = config.channels

    def block() -> Params:
        return {
            "first": kernel(rng, (3, 3), width, width),
            "second": 0.5 * kernel(rng, (3, 3), width, width),
            "lead": np.asarray(0.1 * rng.standard_normal((config.leads, 2, width)), np.float32),
            "scale": np.ones(width, np.float32),
        }

    return {
        "stem": kernel(rng, (3, 3), config.frames + 2, width),
        "blocks": [block() for _ in range(config.stacks * len(config.dilations))],
        "up": kernel(rng, (2, 2), width, width),
        "head": kernel(rng, (1, 1), width, config.bins),
        "bias": np.zeros(config.bins, np.float32),
    }


def _normalised(x: Array) -> Array:
    """Every pixel's channels to mean 0 and variance 1."""
    mean = jnp.mean(x, -1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(jnp.mean(jnp.square(x - mean), -1, keepdims=True) + 1e-5)


def _placed(frames: Array) -> Array:
    """Frames `[batch, height, width, n]` and two channels more: where a pixel is, from -1 to 1."""
    height, width = frames.shape[1:3]
    row = jnp.broadcast_to(jnp.linspace(-1, 1, height)[:, None, None], (height, width, 1))
    column = jnp.broadcast_to(jnp.linspace(-1, 1, width)[None, :, None], (height, width, 1))
    place = jnp.broadcast_to(jnp.concatenate([row, column], -1), (*frames.shape[:3], 2))
    return jnp.concatenate([frames, place], -1)


def logits(config: Config, recipe: Recipe, params: Params, frames: Array, lead: Array) -> Array:
    """Scores `[batch, target, target, bins]` of frames `[batch, context, context, n]` and lead times `[batch]`."""
    when = jax.nn.one_hot(lead, config.leads)

    def block(x: Array, p: Params, dilation: int) -> Array:
        scale, shift = jnp.moveaxis(jnp.einsum("bl,lkc->bkc", when, p["lead"])[:, :, None, None], 1, 0)
        y = jax.nn.relu(_normalised(conv(x, p["first"], dilation=dilation)) * (p["scale"] + scale) + shift)
        return recipe.split(x + conv(y, p["second"], dilation=dilation), "BHWC")

    x = recipe.split(jax.nn.relu(conv(_placed(frames), params["stem"], stride=2)), "BHWC")
    for i, p in enumerate(params["blocks"]):
        x = block(x, p, config.dilations[i % len(config.dilations)])
    inner = config.target // 2
    start = (x.shape[1] - inner) // 2
    x = recipe.split(x[:, start : start + inner, start : start + inner], "BHWC")
    x = jax.nn.relu(conv_up(_normalised(x), params["up"], (config.target, config.target)))
    return recipe.split(conv(x, params["head"]) + params["bias"], "BHWC")


def loss(config: Config, recipe: Recipe, params: Params, batch: Params) -> tuple[Array, Params]:
    """Mean cross-entropy of every pixel's bin, and the part of pixels whose likeliest bin is right."""
    scores = logits(config, recipe, params, batch["frames"], batch["lead"])
    right = jax.nn.one_hot(batch["rain"], config.bins)
    entropy = -jnp.mean(jnp.sum(right * jax.nn.log_softmax(scores), -1))
    return entropy, {"accuracy": jnp.mean(jnp.argmax(scores, -1) == batch["rain"])}


def weather(config: Config, step: int = 0) -> dict[str, np.ndarray]:
    """Round storms that move with the wind.

    `frames` float32 `[batch, context, context, frames]`, the last is now; `lead` int32 `[batch]`, how many frames
    ahead minus one; `rain` int32 `[batch, target, target]`, the bin of the rain then.
    """
    rng = np.random.default_rng(1000 + step)
    batch, size = config.batch, config.context
    lead = rng.integers(0, config.leads, batch).astype(np.int32)
    centre = rng.uniform(-0.5 * size, 1.5 * size, (batch, config.storms, 2))
    wind = rng.uniform(-0.04 * size, 0.04 * size, (batch, 1, 2))
    radius = rng.uniform(0.08 * size, 0.2 * size, (batch, config.storms))
    pixel = np.arange(size)

    def rain(time: Any) -> Any:
        """`[batch, size, size]` at frame `time` `[batch]` after now."""
        moved = centre + wind * np.reshape(time, (-1, 1, 1))
        along = [np.exp(-np.square((pixel - moved[..., d, None]) / radius[..., None])) for d in (0, 1)]
        return np.einsum("bsh,bsw->bhw", *along)

    frames = np.stack([rain(np.full(batch, t)) for t in range(1 - config.frames, 1)], -1)
    margin = (size - config.target) // 2
    later = rain(lead + 1)[:, margin : margin + config.target, margin : margin + config.target]
    edges = np.geomspace(0.1, 0.8, config.bins - 1)
    return {"frames": frames.astype(np.float32), "lead": lead, "rain": np.digitize(later, edges).astype(np.int32)}


def program(config: Config, recipe: Recipe) -> Program:
    """The training step: only images are split, weights are everywhere."""
    params = functools.partial(init, config)
    return training(
        functools.partial(loss, config, recipe),
        params,
        jax.tree.map(lambda _: PartitionSpec(), jax.eval_shape(params)),
        functools.partial(weather, config),
        {"frames": recipe.spec("BHWC"), "lead": recipe.spec("B"), "rain": recipe.spec("BHW")},
        adam(config.rate),
    )
