"""Collectives of one kind over the same devices, replaced by one collective of their concatenated operands."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gspmd.dialect.axes import size_of
from gspmd.transforms.emit.collective_builder import Cause, CollectiveBuilder
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.optimize.program import LocalCollective


def as_one(emit: CollectiveBuilder, members: Sequence[LocalCollective], cause: Cause) -> list[Value]:
    """The results of the collectives, from one collective of their operands concatenated."""
    kind, axes = members[0].kind, members[0].axes
    count = size_of(axes)
    rows = [_row(emit, member, count) for member in members]
    sizes = [row.type.shape[-1] for row in rows]
    joined = _concatenate(emit, rows, sum(sizes))
    combiner = members[0].combiner or "add" if kind != "all_gather" else ""
    if kind == "all_gather":
        made = emit.all_gather(joined, 0, axes, cause)
    elif kind == "all_reduce":
        made = emit.all_reduce(joined, axes, combiner, cause)
    else:
        made = emit.reduce_scatter(joined, 0, axes, combiner, cause)
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    return [
        _restore(emit, member, _columns(emit, made, start, size), count)
        for member, start, size in zip(members, starts, sizes, strict=True)
    ]


def _row(emit: CollectiveBuilder, member: LocalCollective, count: int) -> Value:
    """The operand as `[1, elements]`, or as `[devices, elements of a shard]` for a reduce-scatter."""
    value = member.operand
    shape = value.type.shape
    if member.kind != "reduce_scatter":
        return emit.reshape(value, (1, math.prod(shape)))
    dim = member.dimension("scatter_dimension")
    value = emit.reshape(value, (*shape[:dim], count, shape[dim] // count, *shape[dim + 1 :]))
    order = [dim, *(d for d in range(len(shape) + 1) if d != dim)]
    return emit.reshape(emit.transpose(value, order), (count, math.prod(shape) // count))


def _restore(emit: CollectiveBuilder, member: LocalCollective, part: Value, count: int) -> Value:
    """The result of a member, from `[1, elements]`, or from `[devices, elements]` for an all-gather."""
    shape = member.result.type.shape
    if member.kind != "all_gather":
        return emit.reshape(part, shape)
    dim = member.dimension("all_gather_dim")
    local = member.operand.type.shape
    part = emit.reshape(part, (count, *local))
    order = [*range(1, dim + 1), 0, *range(dim + 1, len(local) + 1)]
    return emit.reshape(emit.transpose(part, order), shape)


def _concatenate(emit: CollectiveBuilder, rows: list[Value], columns: int) -> Value:
    type_ = rows[0].type
    result = TensorType((type_.shape[0], columns), type_.element)
    return emit.op("stablehlo.concatenate", rows, [result], dimension=emit.i64(1))


def _columns(emit: CollectiveBuilder, value: Value, start: int, size: int) -> Value:
    type_ = value.type
    rows = type_.shape[0]
    return emit.op(
        "stablehlo.slice",
        [value],
        [TensorType((rows, size), type_.element)],
        start_indices=emit.i64s([0, start]),
        limit_indices=emit.i64s([rows, start + size]),
        strides=emit.i64s([1, 1]),
    )
