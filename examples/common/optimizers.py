"""Optimizers as pairs of pure functions, with the sharding of their state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

Tree = Any


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """`update(gradient, moments, params, step)` gives params and moments; `specs` splits moments as params are."""

    init: Callable[[Tree], Tree]
    update: Callable[[Tree, Tree, Tree, Any], tuple[Tree, Tree]]
    specs: Callable[[Tree], Tree]


def adam(rate: float = 1e-3, beta1: float = 0.9, beta2: float = 0.99, epsilon: float = 1e-8) -> Optimizer:
    """Source: Kingma and Ba, arXiv 1412.6980."""

    def init(params: Tree) -> Tree:
        return {"mean": jax.tree.map(jnp.zeros_like, params), "square": jax.tree.map(jnp.zeros_like, params)}

    def update(gradient: Tree, moments: Tree, params: Tree, step: Any) -> tuple[Tree, Tree]:
        count = step.astype(jnp.float32) + 1
        mean = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, moments["mean"], gradient)
        square = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, moments["square"], gradient)
        scale = rate * jnp.sqrt(1 - beta2**count) / (1 - beta1**count)
        moved = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + epsilon), params, mean, square)
        return moved, {"mean": mean, "square": square}

    return Optimizer(init, update, lambda specs: {"mean": specs, "square": specs})


def momentum(rate: float = 1e-2, decay: float = 0.9) -> Optimizer:
    """Gradient descent with momentum."""

    def init(params: Tree) -> Tree:
        return jax.tree.map(jnp.zeros_like, params)

    def update(gradient: Tree, moments: Tree, params: Tree, step: Any) -> tuple[Tree, Tree]:
        velocity = jax.tree.map(lambda v, g: decay * v + g, moments, gradient)
        return jax.tree.map(lambda p, v: p - rate * v, params, velocity), velocity

    return Optimizer(init, update, lambda specs: specs)


def factored(rate: float = 1e-2, decay: float = 0.99, epsilon: float = 1e-30, clip: float = 1.0) -> Optimizer:
    """Second moments of matrices as a row and a column: state of m + n elements for m x n weights.

    The last two dimensions are factored; vectors and scalars keep whole moments.

    Source: Shazeer and Stern, arXiv 1804.04235 (Adafactor), with a constant decay and rate.
    """

    def init(params: Tree) -> Tree:
        return jax.tree.map(lambda p: tuple(jnp.zeros(shape, p.dtype) for shape in _moment_shapes(p.shape)), params)

    def update(gradient: Tree, moments: Tree, params: Tree, step: Any) -> tuple[Tree, Tree]:
        made = jax.tree.map(lambda g, m: _factored_step(g, m, decay, epsilon, clip), gradient, moments)
        moved = jax.tree.map(lambda p, change: p - rate * change[0], params, made)
        return moved, jax.tree.map(lambda _, change: change[1], params, made)

    def specs(param_specs: Tree) -> Tree:
        return jax.tree.map(_moment_specs, param_specs, is_leaf=lambda spec: isinstance(spec, PartitionSpec))

    return Optimizer(init, update, specs)


def _moment_shapes(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    return (shape,) if len(shape) < 2 else (shape[:-1], (*shape[:-2], shape[-1]))


def _moment_specs(spec: PartitionSpec) -> tuple[PartitionSpec, ...]:
    """Specs must have an entry for every dimension: how many there are is not told otherwise."""
    entries = tuple(spec)
    if len(entries) < 2:
        return (spec,)
    return PartitionSpec(*entries[:-1]), PartitionSpec(*entries[:-2], entries[-1])


def _factored_step(gradient: Any, moments: Any, decay: float, epsilon: float, clip: float) -> tuple[Any, Any]:
    """The change, of root mean square 1 at most, and the new moments."""
    square = gradient * gradient + epsilon
    kept: tuple[Any, ...]
    if len(moments) == 1:
        kept = (decay * moments[0] + (1 - decay) * square,)
        change = gradient * jax.lax.rsqrt(kept[0])
    else:
        row = decay * moments[0] + (1 - decay) * jnp.mean(square, axis=-1)
        column = decay * moments[1] + (1 - decay) * jnp.mean(square, axis=-2)
        kept = (row, column)
        scale = jax.lax.rsqrt(row / jnp.mean(row, axis=-1, keepdims=True))
        change = gradient * scale[..., None] * jax.lax.rsqrt(column)[..., None, :]
    size = jnp.sqrt(jnp.mean(change * change))
    return change / jnp.maximum(1.0, size / clip), kept
