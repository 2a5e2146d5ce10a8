"""What the steps of made-up programs compute: each function takes its parameters, then its operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from made_up import fragments
from made_up.step import Step

Numbers = tuple[Any, ...]

_UNARY: Mapping[str, Callable[[Any], Any]] = {
    "tanh": jnp.tanh,
    "logistic": lax.logistic,
    "decay": lambda x: jnp.exp(-jnp.abs(x)),
    "negate": jnp.negative,
    "cosine": jnp.cos,
    "relu": lambda x: lax.max(x, jnp.zeros_like(x)),
}
_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": jnp.add,
    "multiply": jnp.multiply,
    "maximum": jnp.maximum,
    "subtract": jnp.subtract,
}
_REDUCE: Mapping[str, Callable[..., Any]] = {"sum": jnp.sum, "max": jnp.max, "mean": jnp.mean, "min": jnp.min}
_SCAN: Mapping[str, Callable[..., Any]] = {"sum": lax.cumsum, "max": lax.cummax, "logsumexp": lax.cumlogsumexp}


def argument_type(step: Step) -> jax.ShapeDtypeStruct:
    """The type of an argument; of indices, the first number is how many there are to choose from."""
    if step.kind == "ids":
        return jax.ShapeDtypeStruct(step.numbers[1:], jnp.int32)
    return jax.ShapeDtypeStruct(step.numbers, jnp.float32)


def _dot(numbers: Numbers, a: Any, b: Any) -> Any:
    """Numbers are contracted dimensions of both, then batch dimensions of both."""
    contracted = math.prod(a.shape[d] for d in numbers[0])
    return lax.dot_general(a, b, ((numbers[0], numbers[1]), (numbers[2], numbers[3]))) * contracted**-0.5


def _broadcast(numbers: Numbers, a: Any) -> Any:
    """A new dimension of a size at a place."""
    place, size = numbers
    shape = (*a.shape[:place], size, *a.shape[place:])
    return lax.broadcast_in_dim(a, shape, [d + (d >= place) for d in range(a.ndim)])


def _split(numbers: Numbers, a: Any) -> Any:
    dim, parts = numbers
    return a.reshape(*a.shape[:dim], parts, a.shape[dim] // parts, *a.shape[dim + 1 :])


def _merge(numbers: Numbers, a: Any) -> Any:
    (dim,) = numbers
    return a.reshape(*a.shape[:dim], a.shape[dim] * a.shape[dim + 1], *a.shape[dim + 2 :])


def _argmax(numbers: Numbers, a: Any) -> Any:
    return lax.argmax(a, numbers[0], jnp.int32).astype(jnp.float32)


def _slice(numbers: Numbers, a: Any) -> Any:
    dim, start, limit, stride = numbers
    return lax.slice_in_dim(a, start, limit, stride, dim)


def _dynamic_slice(numbers: Numbers, a: Any, start: Any) -> Any:
    dim, size = numbers
    return lax.dynamic_slice_in_dim(a, start, size, dim)


def _dynamic_update_slice(numbers: Numbers, a: Any, update: Any, start: Any) -> Any:
    return lax.dynamic_update_slice_in_dim(a, update, start, numbers[0])


def _pad(numbers: Numbers, a: Any) -> Any:
    dim, low, high, interior = numbers
    return lax.pad(a, jnp.float32(0), [(low, high, interior) if d == dim else (0, 0, 0) for d in range(a.ndim)])


def _sort_pair(numbers: Numbers, a: Any) -> Any:
    """A sort with positions beside the keys, as argsort makes it; gives both, put together."""
    positions = lax.broadcasted_iota(jnp.int32, a.shape, numbers[0])
    keys, order = lax.sort((a, positions), dimension=numbers[0], num_keys=1)
    return keys + order.astype(jnp.float32) * 1e-3


def _top_k(numbers: Numbers, a: Any) -> Any:
    return lax.top_k(a, numbers[0])[0]


def _take(numbers: Numbers, a: Any, ids: Any) -> Any:
    return jnp.take(a, ids, axis=numbers[0], mode="clip")


def _take_along(numbers: Numbers, a: Any, ids: Any) -> Any:
    return jnp.take_along_axis(a, ids, axis=numbers[0], mode="clip")


def _scatter(numbers: Numbers, a: Any, ids: Any, updates: Any) -> Any:
    """Rows along the first dimension, added or written."""
    return a.at[ids].add(updates) if numbers[0] == "add" else a.at[ids].set(updates)


def _window(numbers: Numbers, a: Any) -> Any:
    """Sums or largest elements of windows along one dimension, dilated and strided."""
    name, dim, size, stride, dilation, base, low, high = numbers

    def along(number: int, other: int = 1) -> tuple[int, ...]:
        return tuple(number if d == dim else other for d in range(a.ndim))

    init, function = (-jnp.inf, lax.max) if name == "max" else (0.0, lax.add)
    padding = [(low, high) if d == dim else (0, 0) for d in range(a.ndim)]
    return lax.reduce_window(a, init, function, along(size), along(stride), padding, along(base), along(dilation))


def _convolution(numbers: Numbers, x: Any, kernel: Any) -> Any:
    """Batch first, features last, in one or two spatial dimensions."""
    stride, dilation, base, padding, groups = numbers
    spatial = "HW"[: x.ndim - 2]
    return lax.conv_general_dilated(
        x,
        kernel,
        (stride,) * len(spatial),
        padding,
        (base,) * len(spatial) if base > 1 else None,
        (dilation,) * len(spatial),
        dimension_numbers=(f"N{spatial}C", f"{spatial}IO", f"N{spatial}C"),
        feature_group_count=groups,
    ) * (math.prod(kernel.shape[:-1]) ** -0.5)


def _select(numbers: Numbers, a: Any, b: Any, c: Any) -> Any:
    return lax.select(a > numbers[0], b, c)


def _mask(numbers: Numbers, a: Any) -> Any:
    """Causal, in two dimensions."""
    i, j = (lax.broadcasted_iota(jnp.int32, a.shape, dim) for dim in numbers)
    return jnp.where(i >= j, a, 0.0)


def _iota(numbers: Numbers, a: Any) -> Any:
    return a + lax.broadcasted_iota(jnp.float32, a.shape, numbers[0]) * 1e-2


def _fft(numbers: Numbers, a: Any) -> Any:
    """Transforms of the last dimension; `filter` goes there and back."""
    if numbers[0] == "fft":
        return jnp.real(jnp.fft.fft(a))
    if numbers[0] == "rfft":
        return jnp.imag(jnp.fft.rfft(a))
    return jnp.fft.irfft(jnp.fft.rfft(a) * 0.5, a.shape[-1])


def _one_hot(numbers: Numbers, ids: Any) -> Any:
    return jax.nn.one_hot(ids, numbers[0], dtype=jnp.float32)


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "unary": lambda n, a: _UNARY[n[0]](a),
    "binary": lambda n, a, b: _BINARY[n[0]](a, b),
    "bias": lambda n, a, b: _BINARY[n[0]](a, lax.broadcast_in_dim(b, a.shape, n[1])),
    "dot": _dot,
    "transpose": lambda n, a: lax.transpose(a, n),
    "split": _split,
    "merge": _merge,
    "reshape": lambda n, a: a.reshape(n),
    "broadcast": _broadcast,
    "reduce": lambda n, a: _REDUCE[n[0]](a, axis=n[1]),
    "argmax": _argmax,
    "concatenate": lambda n, *parts: lax.concatenate(parts, n[0]),
    "stack": lambda n, *parts: jnp.stack(parts, n[0]),
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "pad": _pad,
    "reverse": lambda n, a: lax.rev(a, n),
    "roll": lambda n, a: jnp.roll(a, n[1], n[0]),
    "sort": lambda n, a: lax.sort(a, dimension=n[0]),
    "sort_pair": _sort_pair,
    "top_k": _top_k,
    "take": _take,
    "take_along": _take_along,
    "scatter": _scatter,
    "cumulative": lambda n, a: _SCAN[n[0]](a, axis=n[1], reverse=n[2]),
    "window": _window,
    "convolution": _convolution,
    "select": _select,
    "mask": _mask,
    "iota": _iota,
    "fft": _fft,
    "one_hot": _one_hot,
    **fragments.FRAGMENTS,
}
