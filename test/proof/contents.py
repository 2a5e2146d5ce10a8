"""What arguments are filled with: whole numbers, of which sums and products are exact, and the worst there is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gspmd.runtime.dtypes import integer_limits, is_integer, numpy_dtype

Array = np.ndarray[Any, Any]
_RANGE = 4


def fill(shape: tuple[int, ...], element: str, content: str, seed: int) -> Array:
    """Values of an argument, which depend on nothing else.

    `numbers`: whole numbers of -4 to 4; `hostile`: with NaN, infinities, -0.0 and the extremes of integers among
    them; `extreme`: the same without NaN; `positive`: 1 to 4; `zero`; `lowest`: minus infinity; `index N`: from 2 below
    0 to 2 above N, and the extremes; `distinct N`: such numbers, no two alike; `below N`: 0 to N - 1; `definite`:
    symmetric positive definite matrices; `solvable`: with a diagonal of ones; `bits`: anything; `groups N`: sizes of
    consecutive groups of at most N in all.
    """
    kind, _, number = content.partition(" ")
    generator = np.random.default_rng([seed, *shape])
    values = _FILLERS[kind](shape, numpy_dtype(element), generator, int(number or 0))
    return np.asarray(values).astype(numpy_dtype(element))


def _numbers(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator, _: int) -> Array:
    if dtype.kind == "b":
        return rng.integers(0, 2, shape)
    if dtype.kind == "c":
        return rng.integers(-_RANGE, _RANGE, shape, endpoint=True) + 1j * rng.integers(-_RANGE, _RANGE, shape)
    low = 0 if is_integer(dtype) and integer_limits(dtype)[0] == 0 else -_RANGE
    high = min(_RANGE, integer_limits(dtype)[1]) if is_integer(dtype) else _RANGE
    return rng.integers(max(low, integer_limits(dtype)[0]) if is_integer(dtype) else low, high, shape, endpoint=True)


def _hostile(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator, _: int) -> Array:
    values = np.asarray(_numbers(shape, dtype, rng, 0)).astype(dtype)
    if dtype.kind == "b" or not values.size:
        return values
    special: list[Any] = list(integer_limits(dtype)) if is_integer(dtype) else [math.nan, math.inf, -math.inf, -0.0]
    for place in rng.permutation(values.size)[: max(1, values.size // 4)]:
        values.flat[place] = special[rng.integers(len(special))]
    return values


def _extreme(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator, _: int) -> Array:
    values = _hostile(shape, dtype, rng, 0)
    return values if is_integer(dtype) or dtype.kind == "b" else np.where(np.isnan(values), 1, values)


def _positive(shape: tuple[int, ...], _: np.dtype[Any], rng: np.random.Generator, __: int) -> Array:
    return rng.integers(1, _RANGE, shape, endpoint=True)


def _zero(shape: tuple[int, ...], dtype: np.dtype[Any], _: np.random.Generator, __: int) -> Array:
    return np.zeros(shape, dtype)


def _lowest(shape: tuple[int, ...], _: np.dtype[Any], __: np.random.Generator, ___: int) -> Array:
    return np.full(shape, -np.inf)


def _index(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator, most: int) -> Array:
    low, high = integer_limits(dtype)
    values = rng.integers(-2, most + 2, shape, endpoint=True)
    extreme = rng.random(shape) < 0.1
    picked = np.where(rng.random(shape) < 0.5, low, min(high, 2**63 - 1))
    return np.where(extreme, picked, np.clip(values, max(low, -(2**63)), min(high, 2**63 - 1)))


def _distinct(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator, most: int) -> Array:
    size = math.prod(shape)
    low = max(-2, integer_limits(dtype)[0])
    return (rng.permutation(max(size, most + 4))[:size] + low).reshape(shape)


def _below(shape: tuple[int, ...], _: np.dtype[Any], rng: np.random.Generator, most: int) -> Array:
    return rng.integers(0, max(most, 1), shape)


def _definite(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator, _: int) -> Array:
    half = np.asarray(_numbers(shape, dtype, rng, 0))
    return half @ np.conj(np.swapaxes(half, -1, -2)) + 8 * np.eye(shape[-1])


def _solvable(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator, _: int) -> Array:
    values = np.asarray(_numbers(shape, dtype, rng, 0)) / 4
    return np.where(np.eye(shape[-1], dtype=bool), 1, values)


def _bits(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator, _: int) -> Array:
    return np.frombuffer(rng.bytes(math.prod(shape) * dtype.itemsize), dtype).reshape(shape)


def _groups(shape: tuple[int, ...], _: np.dtype[Any], rng: np.random.Generator, most: int) -> Array:
    cuts = np.sort(rng.integers(0, most, shape[0], endpoint=True))
    return np.diff(cuts, prepend=0)


_FILLERS = {
    "numbers": _numbers,
    "hostile": _hostile,
    "extreme": _extreme,
    "positive": _positive,
    "zero": _zero,
    "lowest": _lowest,
    "index": _index,
    "distinct": _distinct,
    "below": _below,
    "definite": _definite,
    "solvable": _solvable,
    "bits": _bits,
    "groups": _groups,
}


def as_text(array: Array) -> str:
    """The array as the comment of a program that needs it."""
    return " ".join(np.array2string(np.asarray(array), threshold=200, separator=",").split())
