"""Random programs of one operation, or of two that belong together, annotated at both ends: `losses.py --single`.

Where `made_up` has many operations that are partly annotated, here everything is annotated, so that nothing but the
operation itself and what it is exchanged for decides what is sent. Sizes are such that bytes count, and not latencies.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

Array = Any
Function = Callable[..., Array]

_ROWS, _COLUMNS = 1024, 512
_MESHES = ((2,), (4,), (8,), (2, 2), (2, 4), (4, 2), (2, 2, 2), (4, 4), (16, 4))
DEVICES = 64  # of the largest


class Single(NamedTuple):
    """What is computed, of arguments of which shapes, and in words."""

    text: str
    function: Function
    shapes: Sequence[tuple[int, ...]] = ((_ROWS, _COLUMNS),)


def made(seed: int, number: int) -> tuple[str, str]:
    """What a program is about, and its text; the same for the same numbers."""
    draw = random.Random(seed * 1_000_003 + number)
    sizes = draw.choice(_MESHES)
    mesh = AbstractMesh(sizes, ("x", "y", "z")[: len(sizes)], axis_types=(AxisType.Auto,) * len(sizes))
    single = draw.choice(_KINDS)(draw)
    arguments = [
        jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, _spec(draw, shape, mesh)))
        for shape in single.shapes
    ]
    result = jax.eval_shape(single.function, *arguments)
    out = NamedSharding(mesh, _spec(draw, result.shape, mesh))
    traced = jax.jit(single.function, out_shardings=out).trace(*arguments)
    specs = ", ".join(str(argument.sharding.spec) for argument in arguments)
    text = str(traced.lower(lowering_platforms=("cpu",)).compiler_ir())
    return f"{single.text} of {specs} into {out.spec}", text


def _spec(draw: random.Random, shape: Sequence[int], mesh: AbstractMesh) -> PartitionSpec:
    """Most of the axes on some of the dimensions, in any order, so that all shards are even."""
    while True:
        dims: list[tuple[str, ...]] = [()] * len(shape)
        for axis in draw.sample(mesh.axis_names, len(mesh.axis_names)):
            if dims and draw.random() < 0.8:
                dim = draw.randrange(len(shape))
                dims[dim] = (*dims[dim], axis)
        counts = [math.prod(mesh.shape[axis] for axis in dim) for dim in dims]
        if all(size % count == 0 for size, count in zip(shape, counts, strict=True)):
            return PartitionSpec(*[dim or None for dim in dims])


# ---- shifts and cuts ----


def _reversal(draw: random.Random) -> Single:
    dims = draw.choice(((0,), (1,), (0, 1)))
    return Single(f"reversal along {dims}", lambda a: lax.rev(a, dims))


def _roll(draw: random.Random) -> Single:
    count, dim = draw.choice((1, 5, 16, 300)), draw.choice((0, 1))
    return Single(f"roll by {count} along {dim}", lambda a: jnp.roll(a, count, dim))


def _padding(draw: random.Random) -> Single:
    low, high, interior = draw.choice((-2, 0, 1, 3)), draw.choice((-2, 0, 1, 3)), draw.choice((0, 1, 2))
    words = f"padding by {low}, {high}, {interior}"
    return Single(words, lambda a: lax.pad(a, jnp.float32(0), [(low, high, interior), (0, 0, 0)]))


def _padding_cut(draw: random.Random) -> Single:
    low, start = draw.choice((1, 8, 100)), draw.choice((0, 2, 50))
    words = f"padding by {low} and a slice from {start}"
    return Single(words, lambda a: lax.pad(a, jnp.float32(0), [(low, 8, 0), (0, 0, 0)])[start : start + _ROWS])


def _slice(draw: random.Random) -> Single:
    start, step = draw.randrange(_ROWS // 2), draw.choice((1, 1, 2, 3))
    limit = draw.randrange(start + 1, _ROWS + 1)
    return Single(f"slice {start}:{limit}:{step}", lambda a: a[start:limit:step])


def _concatenation(draw: random.Random) -> Single:
    rows = draw.choice((_ROWS // 2, _ROWS, 384))
    return Single("concatenation", lambda a, b: jnp.concatenate([a, b]), ((_ROWS, _COLUMNS), (rows, _COLUMNS)))


def _twice(draw: random.Random) -> Single:
    start = draw.choice((0, 100, _ROWS // 2))
    return Single("concatenation with itself, cut", lambda a: jnp.concatenate([a, a])[start : start + _ROWS])


def _update(draw: random.Random) -> Single:
    rows, start = draw.choice((1, 64, 256)), draw.choice((0, 100, 512))
    shapes = ((_ROWS, _COLUMNS), (rows, _COLUMNS))
    return Single(f"update of {rows} rows at {start}", lambda a, b: a.at[start : start + rows].set(b), shapes)


def _rows(draw: random.Random) -> Single:
    rows = jnp.array(sorted(draw.sample(range(_ROWS), draw.choice((1, 8, 64)))))
    return Single(f"{len(rows)} rows taken", lambda a: a[rows])


# ---- windows ----


def _image(draw: random.Random) -> tuple[int, int, int]:
    return draw.choice(((8, 1024, 32), (16, 512, 64), (8, 2048, 16)))


_NAMES = ("NHC", "HIO", "NHC")


def _convolution(draw: random.Random) -> Single:
    image, window = _image(draw), draw.choice((1, 2, 3, 4, 5))
    stride, dilated, spread = draw.choice((1, 1, 2, 3)), draw.choice((1, 2, 2, 3)), draw.choice((1, 1, 2, 3))
    padding = draw.choice(((0, 0), (1, 1), (window - 1, 0), (window * spread, window), (2, 3)))

    def function(a: Array, w: Array) -> Array:
        return lax.conv_general_dilated(a, w, (stride,), [padding], (dilated,), (spread,), dimension_numbers=_NAMES)

    words = f"convolution with {window} taps {spread} apart, stride {stride}, image {dilated} apart, padding {padding}"
    return Single(words, function, (image, (window, image[2], 16)))


def _convolution_gradient(draw: random.Random) -> Single:
    image, window, stride = _image(draw), draw.choice((2, 3, 4)), draw.choice((1, 2))
    padding, of = draw.choice(("SAME", "VALID")), draw.choice((0, 1))

    def loss(a: Array, w: Array) -> Array:
        return jnp.sum(lax.conv_general_dilated(a, w, (stride,), padding, dimension_numbers=_NAMES) ** 2)

    words = (
        f"gradient by {('the image', 'the kernel')[of]} of a convolution with {window} taps, stride {stride}, {padding}"
    )
    return Single(words, jax.grad(loss, of), (image, (window, image[2], 16)))


def _transposed_convolution(draw: random.Random) -> Single:
    image, window, stride = _image(draw), draw.choice((2, 3, 4)), draw.choice((2, 3))
    padding = draw.choice(("SAME", "VALID"))

    def function(a: Array, w: Array) -> Array:
        return lax.conv_transpose(a, w, (stride,), padding, dimension_numbers=_NAMES)

    words = f"transposed convolution with {window} taps, stride {stride}, {padding}"
    return Single(words, function, (image, (window, image[2], 16)))


def _pooling(draw: random.Random) -> Single:
    window, stride, apart = draw.choice((2, 3)), draw.choice((1, 2)), draw.choice((1, 2))
    dilated, padding = draw.choice((1, 2, 3)), draw.choice(((0, 0), (1, 1), (2, 0)))

    def function(a: Array) -> Array:
        edges = (padding, (0, 0))
        return lax.reduce_window(a, -jnp.inf, lax.max, (window, 1), (stride, 1), edges, (dilated, 1), (apart, 1))

    words = f"maxima of {window} rows {apart} apart, stride {stride}, of rows {dilated} apart, padding {padding}"
    return Single(words, function)


def _pooling_gradient(draw: random.Random) -> Single:
    window, stride = draw.choice((2, 3)), draw.choice((1, 2))
    combine, start = draw.choice(((lax.add, 0.0), (lax.max, -math.inf)))

    def loss(a: Array) -> Array:
        return jnp.sum(lax.reduce_window(a, start, combine, (window, 1), (stride, 1), "SAME") ** 2)

    return Single(f"gradient of {combine.__name__} of {window} rows, stride {stride}", jax.grad(loss))


# ---- what goes along a dimension ----


def _along(words: str, function: Callable[[Array, int], Array]) -> Callable[[random.Random], Single]:
    def kind(draw: random.Random) -> Single:
        dim = draw.choice((0, 1))
        return Single(f"{words} along {dim}", lambda a: function(a, dim))

    return kind


def _largest(draw: random.Random) -> Single:
    count = draw.choice((1, 16, 256))
    return Single(f"the {count} largest", lambda a: lax.top_k(a, count)[0])


# ---- shapes and products ----


def _reshape(draw: random.Random) -> Single:
    whole, heads = (_ROWS, _COLUMNS), (_ROWS, 16, _COLUMNS // 16)
    before, after = draw.choice(
        (
            (whole, (_ROWS * _COLUMNS,)),
            (whole, heads),
            (heads, whole),
            (whole, (32, 32, _COLUMNS)),
            (whole, whole[::-1]),
        )
    )
    return Single(f"reshape of {before} to {after}", lambda a: a.reshape(after), (before,))


def _broadcast(draw: random.Random) -> Single:
    shape = draw.choice(((_COLUMNS,), (1, _COLUMNS), (_ROWS, 1)))
    return Single(f"broadcast of {shape}", lambda a: jnp.broadcast_to(a, (_ROWS, _COLUMNS)), (shape,))


def _product(draw: random.Random) -> Single:
    columns = draw.choice((256, 1024))
    return Single("product", lambda a, b: a @ b, ((_ROWS, _COLUMNS), (_COLUMNS, columns)))


_KINDS: tuple[Callable[[random.Random], Single], ...] = (
    *(_reversal, _roll, _padding, _padding_cut, _slice, _concatenation, _twice, _update, _rows),
    *(_convolution, _convolution, _convolution_gradient, _transposed_convolution, _pooling, _pooling_gradient),
    _along("sort", lambda a, dim: jnp.sort(a, axis=dim)),
    _along("running sum", lambda a, dim: jnp.cumsum(a, axis=dim)),
    _along("place of the largest", lambda a, dim: jnp.argmax(a, axis=dim)),
    _along("sum", lambda a, dim: jnp.sum(a, axis=dim)),
    _along("Fourier transform, absolute", lambda a, dim: jnp.abs(jnp.fft.fft(a, axis=dim))),
    _along("Fourier transform and back", lambda a, dim: jnp.fft.irfft(2 * jnp.fft.rfft(a, axis=dim), axis=dim)),
    *(_largest, _reshape, _broadcast, _product),
)
