"""Parameters told by the names of their dimensions: their first values and shardings follow from these."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

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
    """float32 NumPy arrays for a tree of `Weight`s."""
    rng = np.random.default_rng(seed)

    def array(weight: Weight) -> np.ndarray[Any, Any]:
        shape = weight.shape(sizes)
        if weight.fill is not None:
            return np.full(shape, weight.fill, np.float32)
        fan_in = math.prod(sizes[dim] for dim in weight.fan_in)
        return np.asarray(rng.standard_normal(shape) / np.sqrt(fan_in), np.float32)

    return jax.tree.map(array, weights)


def specs(weights: Tree, recipe: Recipe) -> Tree:
    """The `PartitionSpec` of every `Weight`."""
    return jax.tree.map(lambda weight: recipe.spec(weight.dims), weights)


def moment_specs(weights: Tree, sizes: Mapping[str, int], recipe: Recipe) -> Tree:
    """The `PartitionSpec` of the optimizer's state for every `Weight`."""
    return jax.tree.map(lambda weight: recipe.moment_spec(weight.dims, weight.shape(sizes)), weights)
