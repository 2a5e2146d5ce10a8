"""Pieces of one dimension of a per-device value: slices, concatenations, padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes
from gspmd.transforms.emit.emitter import INDEX, Emitter
from gspmd.transforms.exchange.intervals import Ints
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.reducers import Fill
from gspmd.transforms.ir.types import TensorType


def spread_size(size: int, spread: int) -> int:
    """The length of `size` elements that are `spread` positions apart: 5 for 3 elements at distance 2."""
    return (size - 1) * spread + 1 if size else 0


def pad_dim(emit: Emitter, value: Value, dim: int, before: int, after: int, fill: Fill, between: int = 0) -> Value:
    """Pad a dimension with `fill` before, after and between its elements.

    `fill` is a scalar value, or a word or number for `splat`.
    """
    if not before and not after and not between:
        return value
    type_ = value.type
    filler = fill if isinstance(fill, Value) else emit.constant(TensorType((), type_.element), fill)
    amounts = [emit.i64s([n if d == dim else 0 for d in range(type_.rank)]) for n in (before, after, between)]
    return emit.op(
        "stablehlo.pad",
        [value, filler],
        [resized(type_, dim, before + spread_size(type_.shape[dim], between + 1) + after)],
        edge_padding_low=amounts[0],
        edge_padding_high=amounts[1],
        interior_padding=amounts[2],
    )


def cut_at(emit: Emitter, value: Value, dim: int, axes: Axes, starts: Ints, care: Ints, length: int) -> Value:
    """Slice `length` elements of every device's value, with a start per device.

    `starts` has an entry for each device along `axes`, which matters only if `care` is set. A slice may extend beyond
    the value; its elements there are unspecified.
    """
    wanted = starts[care.astype(bool)]
    if not len(wanted):
        starts, wanted = np.zeros_like(starts), np.zeros(1, np.int64)
    before = max(0, -int(wanted.min()))
    after = max(0, int(wanted.max()) + length - value.type.shape[dim])
    value = pad_dim(emit, value, dim, before, after, 0)
    start = lookup(emit, axes, starts + before, care, value.type.shape[dim] - length)
    if isinstance(start, int):
        return slice_dim(emit, value, dim, start, length)
    type_, zero = value.type, emit.constant(INDEX, 0)
    begins = [start if d == dim else zero for d in range(type_.rank)]
    return emit.dynamic_slice(value, begins, resized(type_, dim, length).shape)


def lookup(emit: Emitter, axes: Axes, values: Ints, care: Ints, most: int) -> int | Value:
    """This device's entry of a table, by its position along `axes`, as a number or a scalar value.

    It is a number if it is equal on all devices that `care`; else a scalar, computed without a table if entries are
    linear in the position. Entries that do not `care` may be any number from 0 to `most`. A clamp enforces this range
    for linear entries, because XLA adds the starts of a slice of a slice without clamping the inner one.
    """
    chosen = np.flatnonzero(care)
    if not len(chosen):
        return 0
    first, last = int(chosen[0]), int(chosen[-1])
    slope = (int(values[last]) - int(values[first])) // (last - first) if last > first else 0
    base = int(values[first]) - slope * first
    if np.array_equal(values[chosen], base + slope * chosen):
        if not slope:
            return base
        index = emit.shard_index(axes)
        line = index if slope == 1 else emit.binary("multiply", index, emit.constant(INDEX, slope))
        line = line if not base else emit.binary("add", line, emit.constant(INDEX, base))
        ends = (base, base + slope * (len(values) - 1))
        if min(ends) >= 0 and max(ends) <= most:
            return line
        limits = [emit.constant(INDEX, limit) for limit in (0, most)]
        return emit.op("stablehlo.clamp", [limits[0], line, limits[1]], [INDEX])
    entries = np.where(care, values, values[first]).astype(np.int32)
    table = emit.op(
        "stablehlo.constant",
        [],
        [TensorType((len(entries),), INDEX.element)],
        value=ir.DenseElementsAttr.get(entries, context=emit.context),
    )
    found = emit.op(
        "stablehlo.dynamic_slice",
        [table, emit.shard_index(axes)],
        [TensorType((1,), INDEX.element)],
        slice_sizes=emit.i64s([1]),
    )
    return emit.reshape(found, ())


def join_dim(emit: Emitter, parts: Sequence[Value], dim: int) -> Value:
    """Values concatenated along a dimension; the value itself if there is only one."""
    if len(parts) == 1:
        return parts[0]
    types = [part.type for part in parts]
    result = resized(types[0], dim, sum(t.shape[dim] for t in types))
    return emit.op("stablehlo.concatenate", parts, [result], dimension=emit.i64(dim))


def slice_dim(emit: Emitter, value: Value, dim: int, start: int, length: int, stride: int = 1) -> Value:
    """`length` elements of a dimension from `start`, every `stride`-th."""
    type_ = value.type
    if length == type_.shape[dim]:
        return value
    result = resized(type_, dim, length)
    starts = [start if d == dim else 0 for d in range(type_.rank)]
    steps = [stride if d == dim else 1 for d in range(type_.rank)]
    limits = [a + max((n - 1) * step + 1, 0) for a, n, step in zip(starts, result.shape, steps, strict=True)]
    return emit.op(
        "stablehlo.slice",
        [value],
        [result],
        start_indices=emit.i64s(starts),
        limit_indices=emit.i64s([min(limit, n) for limit, n in zip(limits, type_.shape, strict=True)]),
        strides=emit.i64s(steps),
    )


def resized(type_: TensorType, dim: int, length: int) -> TensorType:
    return TensorType((*type_.shape[:dim], length, *type_.shape[dim + 1 :]), type_.element)
