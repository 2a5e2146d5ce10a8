"""A two-layer perceptron, in three parallelisms.

The model says nothing of devices; a recipe names the mesh axes that each dimension is split over.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from gspmd.examples.common import program as programs
from gspmd.examples.common.optimizers import momentum
from gspmd.examples.common.program import Program
from gspmd.examples.common.recipe import Recipe

Array = Any
Params = dict[str, Any]

_MESH = {"x": 4, "y": 2}
_ALL = ("x", "y", "z")

# i, h, o: input, hidden and output features of the weights; B, H, O: batch and features of activations.
RECIPES = {
    "dp": Recipe("data parallelism: the batch on all devices", _MESH, {"B": _ALL}),
    "tp": Recipe("tensor parallelism: hidden units on y, the batch on x", _MESH, {"h": "y", "H": "y", "B": "x"}),
    "fsdp": Recipe("fully sharded: batch and weights on all devices", _MESH, {"i": _ALL, "h": _ALL, "B": _ALL}),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes (counts of elements) and the parallelism."""

    batch: int = 64
    inputs: int = 64
    hidden: int = 256
    outputs: int = 64
    recipe: str = "fsdp"


# Biases follow the activations.
_WEIGHTS = {"w1": "ih", "b1": "H", "w2": "ho", "b2": "O"}


def init(config: Config, seed: int = 0) -> Params:
    """Weights as NumPy float32 arrays."""
    rng = np.random.default_rng(seed)
    sizes = {"i": config.inputs, "h": config.hidden, "o": config.outputs}

    def weight(dims: str) -> np.ndarray:
        shape = tuple(sizes[d.lower()] for d in dims)
        if len(shape) == 1:
            return np.zeros(shape, np.float32)
        return np.asarray(rng.standard_normal(shape) / np.sqrt(shape[0]), np.float32)

    return {name: weight(dims) for name, dims in _WEIGHTS.items()}


def loss(recipe: Recipe, params: Params, batch: tuple[Array, Array]) -> Array:
    """Mean squared error of float32 `x [batch, inputs]` against `y [batch, outputs]`."""
    x, y = batch
    hidden = jax.nn.gelu(x @ params["w1"] + params["b1"])
    hidden = recipe.split(hidden, "BH")
    output = hidden @ params["w2"] + params["b2"]
    output = recipe.split(output, "BO")
    return jnp.mean(jnp.square(output - y))


def batch(config: Config, step: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A random map to be learned, with inputs drawn anew each step."""
    x = np.random.default_rng(1000 + step).standard_normal((config.batch, config.inputs)).astype(np.float32)
    truth = np.random.default_rng(7).standard_normal((config.inputs, config.outputs)).astype(np.float32)
    return x, np.tanh(x @ truth / np.float32(np.sqrt(config.inputs)))


def program(config: Config, recipe: Recipe) -> Program:
    """Training by gradient descent with momentum."""
    return programs.training(
        loss=lambda params, data: loss(recipe, params, data),
        init=lambda: init(config),
        specs={name: recipe.spec(dims) for name, dims in _WEIGHTS.items()},
        batch=lambda step: batch(config, step),
        batch_specs=(recipe.spec("BI"), recipe.spec("BO")),
        optimizer=momentum(rate=0.1),
    )


def lower(config: Config, mesh: Mesh) -> Any:
    """A step lowered by JAX alone for `mesh`, with the annotations of the configuration's recipe in it."""
    return programs.lower(program(config, RECIPES[config.recipe].on(mesh.shape)), mesh)
