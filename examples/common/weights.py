"""Parameters told by the names of their dimensions: their first values and shardings follow from these."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from gspmd.examples.common.recipe import Recipe

Tree = Any


@dataclasses.dataclass(frozen=True)
class Weight:
    """A parameter by the names of its dimensions: normal, of variance 1 / `fan_in`, or filled with `fill`.

    Dimensions in lower case are split as weights, those in upper case as the activations they meet.
    """

    dims: str
    fan_in: str = ""
    fill: float | None = None

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """By the sizes of dimensions, whose names are in lower case."""
        return tuple(sizes[dim] for dim in self.dims.lower())


def init(weights: Tree, sizes: Mapping[str, int], seed: int = 0) -> Tree:
    """float32 arrays for a tree of `Weight`s."""
    leaves, tree = jax.tree.flatten(weights)

    def array(weight: Weight, key: Any) -> Any:
        shape = weight.shape(sizes)
        if weight.fill is not None:
            return jnp.full(shape, weight.fill, jnp.float32)
        fan_in = math.prod(sizes[dim] for dim in weight.fan_in)
        return jax.random.normal(key, shape) / fan_in**0.5

    return jax.tree.unflatten(tree, map(array, leaves, jax.random.split(jax.random.key(seed), len(leaves))))


def stacked(weights: Tree, dim: str) -> Tree:
    """As many of the `Weight`s, in one, as the size of the dimension `dim` says."""
    return jax.tree.map(lambda weight: dataclasses.replace(weight, dims=dim + weight.dims), weights)


def specs(weights: Tree, recipe: Recipe) -> Tree:
    """The `PartitionSpec` of every `Weight`."""
    return jax.tree.map(lambda weight: recipe.spec(weight.dims), weights)


def moment_specs(weights: Tree, sizes: Mapping[str, int], recipe: Recipe) -> Tree:
    """The `PartitionSpec` of the optimizer's state for every `Weight`."""
    return jax.tree.map(lambda weight: recipe.moment_spec(weight.dims, weight.shape(sizes)), weights)
