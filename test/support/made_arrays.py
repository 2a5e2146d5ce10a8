"""Arrays of numbers that operations are tried on."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def table(shape: tuple[int, ...], seed: int = 0) -> Array:
    """Normal numbers with a NaN, an infinity and zeros of both signs among them."""
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    special = [np.nan, np.inf, -0.0, 0.0]
    places = range(1, min(values.size, 8), 2)
    values.flat[list(places)] = special[: len(places)]
    return values


def indices(shape: tuple[int, ...], rows: int, dtype: type = np.int32, seed: int = 1) -> Array:
    """In range for the most part, with the extremes of the type among them."""
    found = np.random.default_rng(seed).integers(0, rows, shape).astype(dtype)
    limits = np.iinfo(dtype)
    extremes = [0, limits.max, limits.min, min(rows, limits.max), min(rows + 1, limits.max), max(-1, limits.min)]
    found.flat[: len(extremes)] = extremes
    return found


def small_numbers(shape: tuple[int, ...], dtype: str = "float32", seed: int = 5) -> Array:
    """Integers of which sums and products are exact."""
    return np.random.default_rng(seed).integers(1, 4, shape).astype(dtype)
