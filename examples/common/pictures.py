"""Generated pictures of textured shapes, and their patches."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

Array = Any

SHAPES = ("disc", "square", "cross", "ring")
TEXTURES = ("plain", "rows", "columns", "checks")
CHANNELS = 3


def pictures(rng: np.random.Generator, count: int, size: int) -> tuple[Array, Array, Array]:
    """float32 pictures `[count, size, size, 3]`, and the numbers of each one's shape and texture.

    Place, extent and colour are random, and there is noise.
    """
    shape, texture = rng.integers(0, len(SHAPES), count), rng.integers(0, len(TEXTURES), count)
    extent = rng.uniform(0.25, 0.4, (count, 1, 1)) * size
    centre = rng.uniform(0.4, 0.6, (2, count, 1, 1)) * size
    row, column = np.arange(size)[None, :, None] - centre[0], np.arange(size)[None, None, :] - centre[1]
    distance, far, near = np.hypot(row, column), np.maximum(abs(row), abs(column)), np.minimum(abs(row), abs(column))
    inside = np.choose(
        shape[:, None, None],
        [
            distance < extent,
            far < 0.9 * extent,
            (far < extent) & (near < 0.4 * extent),
            (distance < extent) & (distance > 0.6 * extent),
        ],
    )
    rows, columns = (np.arange(size) // 2 % 2)[None, :, None], (np.arange(size) // 2 % 2)[None, None, :]
    light = np.choose(texture[:, None, None], [1 + 0 * (rows + columns), 1 - rows, 1 - columns, rows ^ columns])
    colour = rng.uniform(0.5, 1.0, (count, 1, 1, CHANNELS))
    made = (inside * light)[..., None] * colour + 0.1 * rng.standard_normal((count, size, size, CHANNELS))
    return made.astype(np.float32), shape, texture


def patches(images: Array, size: int) -> Array:
    """`[b, rows, columns, channels]` as `[b, patches, size * size * channels]`, row by row."""
    batch, rows, columns, channels = images.shape
    cut = images.reshape(batch, rows // size, size, columns // size, size, channels)
    return jnp.transpose(cut, (0, 1, 3, 2, 4, 5)).reshape(batch, -1, size * size * channels)
