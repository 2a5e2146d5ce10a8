"""Layers of convolutional networks, for any number of spatial dimensions: images `[batch, *space, channels]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = Any


def kernel(rng: np.random.Generator, window: Sequence[int], inputs: int, outputs: int) -> Array:
    """A float32 kernel `[*window, inputs, outputs]` that keeps the size of values through a ReLU.

    Source: He et al., arXiv 1502.01852.
    """
    shape = (*window, inputs, outputs)
    return np.asarray(rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[:-1])), np.float32)


def conv(x: Array, weight: Array, stride: int = 1, dilation: int = 1) -> Array:
    """`[batch, *space, inputs]` with `[*window, inputs, outputs]`; ceil(size / stride) of each dimension are left."""
    space = x.ndim - 2
    return jax.lax.conv_general_dilated(
        x, weight, (stride,) * space, "SAME", rhs_dilation=(dilation,) * space, dimension_numbers=_dimensions(space)
    )


def conv_up(x: Array, weight: Array, sizes: Sequence[int]) -> Array:
    """A transposed convolution of stride 2 and window 2, to images of `sizes`: twice those of `x`, or one less."""
    space = x.ndim - 2
    padding = [(1, size - 2 * small + 1) for size, small in zip(sizes, x.shape[1:-1], strict=True)]
    return jax.lax.conv_general_dilated(
        x, weight, (1,) * space, padding, lhs_dilation=(2,) * space, dimension_numbers=_dimensions(space)
    )


def group_norm(x: Array, scale: Array, bias: Array, groups: int) -> Array:
    """Normalised by mean and variance of the whole image and a group of channels; `scale`, `bias` `[channels]`.

    Source: Wu and He, arXiv 1803.08494.
    """
    grouped = x.reshape(*x.shape[:-1], groups, -1)
    axes = (*range(1, x.ndim - 1), x.ndim)
    mean = jnp.mean(grouped, axes, keepdims=True)
    variance = jnp.mean(jnp.square(grouped - mean), axes, keepdims=True)
    return ((grouped - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape) * scale + bias


def _dimensions(space: int) -> tuple[str, str, str]:
    letters = "DHW"[-space:]
    return f"N{letters}C", f"{letters}IO", f"N{letters}C"
