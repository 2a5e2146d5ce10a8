"""A two-layer perceptron and its training step, in three parallelisms.

The model says nothing of devices; a recipe names the mesh axes that each dimension is split over.
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

# i, h, o: input, hidden and output features of the weights; B, H, O: batch and features of activations.
# "x" stands for the mesh's first axis, "y" for its second; "*" for all axes together.
RECIPES: dict[str, dict[str, str]] = {
    "dp": {"B": "*"},
    "tp": {"h": "y", "H": "y", "B": "x"},
    "fsdp": {"i": "*", "h": "*", "B": "*"},
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes (counts of elements) and the parallelism."""

    batch: int = 64
    inputs: int = 64
    hidden: int = 256
    outputs: int = 64
    recipe: str = "fsdp"


_DIMS = {"w1": "ih", "b1": "h", "w2": "ho", "b2": "o"}


def partition_spec(config: Config, dims: str, mesh: Any) -> PartitionSpec:
    """The sharding of a tensor with these dimension names, each axis once; biases follow the activations."""
    if len(dims) == 1:
        dims = dims.upper()
    names = tuple(mesh.axis_names)
    meaning = {"x": names[:1], "y": names[-1:], "*": names}
    table = RECIPES[config.recipe]
    entries: list[tuple[str, ...] | None] = []
    used: set[str] = set()
    for d in dims:
        axes = tuple(a for a in meaning.get(table.get(d, ""), ()) if a not in used)
        used.update(axes)
        entries.append(axes or None)
    return PartitionSpec(*entries)


def init(config: Config, seed: int = 0) -> Params:
    """Weights as NumPy float32 arrays."""
    rng = np.random.default_rng(seed)
    sizes = {"i": config.inputs, "h": config.hidden, "o": config.outputs}

    def weight(dims: str) -> np.ndarray:
        shape = tuple(sizes[d] for d in dims)
        if len(shape) == 1:
            return np.zeros(shape, np.float32)
        return np.asarray(rng.standard_normal(shape) / np.sqrt(shape[0]), np.float32)

    return {name: weight(dims) for name, dims in _DIMS.items()}


def loss(config: Config, mesh: Any, params: Params, x: Array, y: Array) -> Array:
    """Mean squared error of float32 `x [batch, inputs]` against `y [batch, outputs]`."""

    def split(value: Array, dims: str) -> Array:
        spec = partition_spec(config, dims, mesh)
        return jax.lax.with_sharding_constraint(value, NamedSharding(mesh, spec))

    hidden = split(jax.nn.gelu(x @ params["w1"] + params["b1"]), "BH")
    output = split(hidden @ params["w2"] + params["b2"], "BO")
    return jnp.mean(jnp.square(output - y))


def train_step(config: Config, mesh: Any, state: Params, x: Array, y: Array) -> tuple[Params, Array]:
    """One step of gradient descent with momentum."""
    value, gradient = jax.value_and_grad(functools.partial(loss, config, mesh))(state["params"], x, y)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], gradient)
    params = jax.tree.map(lambda p, m: p - 0.1 * m, state["params"], momentum)
    return {"params": params, "momentum": momentum}, value


def init_state(config: Config, seed: int = 0) -> Params:
    params = init(config, seed)
    return {"params": params, "momentum": jax.tree.map(np.zeros_like, params)}


def batch(config: Config, step: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A random linear map to be learned, with inputs drawn anew each step."""
    x = np.random.default_rng(1000 + step).standard_normal((config.batch, config.inputs)).astype(np.float32)
    truth = np.random.default_rng(7).standard_normal((config.inputs, config.outputs)).astype(np.float32)
    return x, np.tanh(x @ truth / np.float32(np.sqrt(config.inputs)))


def lower(config: Config, mesh: Any) -> Any:
    """The training step lowered by JAX for `mesh`, with the recipe's annotations in it."""

    def sharding(dims: str) -> NamedSharding:
        return NamedSharding(mesh, partition_spec(config, dims, mesh))

    weights = {name: sharding(dims) for name, dims in _DIMS.items()}
    state = {"params": weights, "momentum": weights}
    data = (sharding("BI"), sharding("BO"))
    shapes = jax.eval_shape(lambda: init_state(config))
    x, y = (jax.ShapeDtypeStruct((config.batch, n), jnp.float32) for n in (config.inputs, config.outputs))
    step = jax.jit(
        functools.partial(train_step, config, mesh),
        in_shardings=(state, *data),
        out_shardings=(state, NamedSharding(mesh, PartitionSpec())),
        donate_argnums=0,
    )
    return step.lower(shapes, x, y)
