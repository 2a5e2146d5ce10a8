"""Layers in NumPy to compare programs of other frameworks with. Images are `[batch, channels, height, width]`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Pairs = tuple[tuple[int, int], tuple[int, int]]


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def gelu(x: Array) -> Array:
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def windows(x: Array, size: int, stride: int) -> Array:
    """Square windows of the two last dimensions: `[..., rows, columns, size, size]`."""
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), (-2, -1))[..., ::stride, ::stride, :, :]


def convolved(x: Array, kernel: Array, padding: Pairs, stride: int = 1) -> Array:
    """With a kernel `[outputs, inputs, size, size]`."""
    padded = np.pad(x, ((0, 0), (0, 0), *padding))
    return np.einsum("bcrsij,ocij->bors", windows(padded, kernel.shape[-1], stride), kernel)


def pooled(x: Array) -> Array:
    """Maxima of windows of 2 x 2; a last row or column of its own is left out."""
    return np.asarray(windows(x, 2, 2).max((-1, -2)))
