"""Windows of a split dimension: what each device needs beyond its own shard comes from its neighbours.

Source: halo exchange, arXiv 2105.04663, section 4.4 and appendix A.2.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from gspmd.dialect.axes import Axes, size_of
from gspmd.transforms.support.builder import read_type
from gspmd.transforms.support.collective_builder import Cause
from gspmd.transforms.support.emitter import INDEX, Emitter
from gspmd.transforms.support.groups import replica_groups
from gspmd.transforms.support.indices import compare
from gspmd.transforms.support.op_info import TensorType


@dataclasses.dataclass(frozen=True, slots=True)
class Windows:
    """One window for every shard of a dimension of `size` elements: shard i wants

    [start + step * i, start + step * i + length). Windows may reach out of the dimension and be apart.
    """

    size: int
    start: int
    step: int
    length: int

    def ranges(self, count: int) -> list[tuple[int, int, int]]:
        """Shard, begin and end of the part inside the dimension, of the shards whose window has one."""
        found = []
        for shard in range(count):
            begin = self.start + self.step * shard
            low, high = max(begin, 0), min(begin + self.length, self.size)
            if low < high:
                found.append((shard, low, high))
        return found


def take_windows(emit: Emitter, value: Any, dim: int, axes: Axes, windows: Windows, fill: Any, cause: Cause) -> Any:
    """Each device's window of a dimension split over `axes`; its length replaces the shard's.

    Elements outside the dimension become `fill`, a scalar value or a word for `splat`; None leaves them unknown.
    """
    count, local = size_of(axes), read_type(value).shape[dim]
    wanted = windows.ranges(count)
    left = max((local * shard - low for shard, low, _ in wanted), default=0)
    right = max((high - local * (shard + 1) for shard, _, high in wanted), default=0)
    left, right = max(left, 0), max(right, 0)
    extended = _exchange(emit, value, dim, axes, left, right, cause)
    # Where windows begin in the extended shard; what they lack there is outside the dimension.
    begins = [left + windows.start + (windows.step - local) * shard for shard, _, _ in wanted] or [0]
    before = max(0, -min(begins))
    after = max(0, max(begins) + windows.length - left - local - right)
    extended = pad_dim(emit, extended, dim, before, after, 0)
    found = _cut(emit, extended, dim, axes, before + left + windows.start, windows.step - local, windows.length)
    return found if fill is None else _fill_outside(emit, found, dim, axes, windows, fill)


def pad_interior(emit: Emitter, value: Any, dim: int, amount: int, fill: Any) -> Any:
    """`amount` elements after every element of a dimension, so that shards stay in proportion.

    `fill` is a scalar value or a number.
    """
    if not amount:
        return value
    type_ = read_type(value)
    scalar = emit.constant(TensorType((), type_.element), fill) if isinstance(fill, int | float) else fill
    amounts = emit.i64s([amount if d == dim else 0 for d in range(type_.rank)])
    return emit.op(
        "stablehlo.pad",
        [value, scalar],
        [_resized(type_, dim, type_.shape[dim] * (amount + 1))],
        edge_padding_low=emit.i64s([0] * type_.rank),
        edge_padding_high=amounts,
        interior_padding=amounts,
    )


def _exchange(emit: Emitter, value: Any, dim: int, axes: Axes, left: int, right: int, cause: Cause) -> Any:
    """The shard with `left` elements of those before and `right` elements of those after it.

    Beyond the first and the last shard there are zeros.
    """
    type_ = read_type(value)
    local = type_.shape[dim]
    groups = replica_groups(emit.mesh, axes)
    parts = [value]
    for distance in range(1, -(-left // local) + 1):
        amount = min(left - (distance - 1) * local, local)
        tail = _slice(emit, value, dim, local - amount, amount)
        pairs = np.stack([groups[:, :-distance], groups[:, distance:]], axis=-1).reshape(-1, 2)
        parts.insert(0, emit.collective_permute(tail, pairs, axes, cause))
    for distance in range(1, -(-right // local) + 1):
        amount = min(right - (distance - 1) * local, local)
        head = _slice(emit, value, dim, 0, amount)
        pairs = np.stack([groups[:, distance:], groups[:, :-distance]], axis=-1).reshape(-1, 2)
        parts.append(emit.collective_permute(head, pairs, axes, cause))
    if len(parts) == 1:
        return value
    result = _resized(type_, dim, local + left + right)
    return emit.op("stablehlo.concatenate", parts, [result], dimension=emit.i64(dim))


def pad_dim(emit: Emitter, value: Any, dim: int, before: int, after: int, fill: Any) -> Any:
    """A dimension extended on both sides by `fill`, which is as `splat` reads it."""
    if not before and not after:
        return value
    type_ = read_type(value)
    zeros = [0] * type_.rank
    return emit.op(
        "stablehlo.pad",
        [value, emit.constant(TensorType((), type_.element), fill)],
        [_resized(type_, dim, type_.shape[dim] + before + after)],
        edge_padding_low=emit.i64s([before if d == dim else 0 for d in range(type_.rank)]),
        edge_padding_high=emit.i64s([after if d == dim else 0 for d in range(type_.rank)]),
        interior_padding=emit.i64s(zeros),
    )


def _cut(emit: Emitter, value: Any, dim: int, axes: Axes, start: int, per_shard: int, length: int) -> Any:
    """`length` elements from `start + per_shard * shard index`."""
    if per_shard == 0:
        return _slice(emit, value, dim, start, length)
    type_ = read_type(value)
    result = _resized(type_, dim, length)
    begin = emit.binary("multiply", emit.shard_index(axes), emit.constant(INDEX, per_shard))
    begin = emit.binary("add", begin, emit.constant(INDEX, start))
    zero = emit.constant(INDEX, 0)
    return emit.op(
        "stablehlo.dynamic_slice",
        [value, *(begin if d == dim else zero for d in range(type_.rank))],
        [result],
        slice_sizes=emit.i64s(result.shape),
    )


def _fill_outside(emit: Emitter, value: Any, dim: int, axes: Axes, windows: Windows, fill: Any) -> Any:
    """Replace what lies before or behind the dimension."""
    type_ = read_type(value)
    position = TensorType(type_.shape, INDEX.element)
    last = windows.start + windows.step * (size_of(axes) - 1)
    lowest, highest = min(windows.start, last), max(windows.start, last) + windows.length
    if lowest >= 0 and highest <= windows.size:
        return value
    begin = emit.binary("multiply", emit.shard_index(axes), emit.constant(INDEX, windows.step))
    begin = emit.binary("add", begin, emit.constant(INDEX, windows.start))
    places = emit.op("stablehlo.iota", [], [position], iota_dimension=emit.i64(dim))
    places = emit.binary("add", places, emit.broadcast_scalar(begin, position))
    tests = []
    if lowest < 0:
        tests.append(compare(emit, places, "GE", emit.constant(position, 0)))
    if highest > windows.size:
        tests.append(compare(emit, places, "LT", emit.constant(position, windows.size)))
    here = tests[0] if len(tests) == 1 else emit.binary("and", *tests)
    filler = emit.constant(type_, fill) if isinstance(fill, str | int | float) else emit.broadcast_scalar(fill, type_)
    return emit.op("stablehlo.select", [here, value, filler], [type_])


def _slice(emit: Emitter, value: Any, dim: int, start: int, length: int) -> Any:
    type_ = read_type(value)
    if length == type_.shape[dim]:
        return value
    result = _resized(type_, dim, length)
    starts = [start if d == dim else 0 for d in range(type_.rank)]
    return emit.op(
        "stablehlo.slice",
        [value],
        [result],
        start_indices=emit.i64s(starts),
        limit_indices=emit.i64s([a + n for a, n in zip(starts, result.shape, strict=True)]),
        strides=emit.i64s([1] * type_.rank),
    )


def _resized(type_: TensorType, dim: int, length: int) -> TensorType:
    return TensorType((*type_.shape[:dim], length, *type_.shape[dim + 1 :]), type_.element)
