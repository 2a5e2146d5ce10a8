"""concatenate, and joined slices of one value.

All other dimensions pass through.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.own_attributes import JOINED_DIMENSION, JOINED_LIMITS, JOINED_SLICES, JOINED_STARTS
from gspmd.dialect.rule import PASS_THROUGH, PERMUTATION, OpShardingRule, RuleBuilder, Stage
from gspmd.transforms.emit.emitter import INDEX
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.exchange.halo import Windows, redistribute
from gspmd.transforms.exchange.intervals import Exchange, Range, blocks, cheapest, tiles
from gspmd.transforms.exchange.pieces import cut_at, join_dim, slice_dim
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.op_definition import OpDef, Shardings, op_table
from gspmd.transforms.ops.traits import MOVED, Traits

CONCATENATE = "stablehlo.concatenate"
# An operand with at most this fraction of the dimension is small.
_SMALL = 4


def concatenated_dim(info: OpInfo) -> int | None:
    """The dimension along which an operation concatenates; None of others."""
    return info.integer("dimension") if info.name == CONCATENATE else None


def concatenate_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions except the concatenated one pass through; that is split for all operands that are not small."""
    dim = info.integer("dimension")
    sizes = [t.shape[dim] for t in info.operands]
    large = [_SMALL * size > sum(sizes) for size in sizes]
    return _concatenate_rule(info, large if any(large) else [True] * len(sizes))


def other_concatenate_rules(info: OpInfo) -> tuple[OpShardingRule, ...]:
    """All operands split, and each of them alone."""
    count = range(len(info.operands))
    chosen = [[True] * len(count)] + ([[i == j for i in count] for j in count] if len(count) <= _SMALL else [])
    return tuple(dict.fromkeys(_concatenate_rule(info, split) for split in chosen))


def _concatenate_rule(info: OpInfo, split: list[bool]) -> OpShardingRule:
    """`split` are the operands that are split along the concatenated dimension, like the result."""
    result, concatenated = info.results[0], info.integer("dimension")
    builder = RuleBuilder([t.shape for t in info.operands], [result.shape], stage=Stage.ELEMENTWISE)
    for dim, size in enumerate(result.shape):
        if dim != concatenated:
            builder.factor([dim] * len(info.operands), [dim], size)
        elif not result.element.startswith("!"):
            builder.factor([dim if here else None for here in split], [dim], size, PERMUTATION)
    return builder.build()


@dataclasses.dataclass(frozen=True, slots=True)
class _OperandRun:
    """One or several adjacent operands of a concatenation: `size` elements from `start` of the result."""

    start: int
    size: int
    operands: tuple[int, ...]
    exchange: Exchange


def _parts(info: OpInfo, operands: Shardings, count: int) -> list[_OperandRun]:
    """The parts of a concatenation over `count` shards, each with its exchange.

    Split operands are one part if that sends less than separate ones, since messages of two operands between the same
    devices are merged.
    """
    dim = info.integer("dimension")
    sizes = [t.shape[dim] for t in info.operands]
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    length = -(-sum(sizes) // count)
    single = [
        _OperandRun(start, size, (index,), Windows(size, -start, length, length).exchange(count))
        for index, (start, size) in enumerate(zip(starts, sizes, strict=True))
        if size
    ]
    moved = [part for part in single if operands[part.operands[0]].dims[dim].axes]
    if len(moved) < 2:
        return single
    holds: list[Range] = []
    places: list[Range] = []
    local = 0
    for part in moved:
        holds += [(part.start + low, part.start + high) for low, high in tiles(part.size, count)]
        places += [(shard, local) for shard in range(count)]
        local += -(-part.size // count)
    together = Exchange(local, tuple(holds), blocks(length, count), starts=tuple(places), shards=count)
    if cheapest(together).sent >= sum(cheapest(part.exchange).sent for part in moved):
        return single
    joined = _OperandRun(0, sum(sizes), tuple(part.operands[0] for part in moved), together)
    return [joined, *(part for part in single if part not in moved)]


def localize_concatenate(op: LocalOp) -> None:
    """Each device fetches the elements of its shard from split operands; it has those of other operands."""
    dim, emit, result = op.info.integer("dimension"), op.emit, op.local_result(0)
    axes = op.result_shardings[0].dims[dim].axes
    if not axes:
        op.keep()
        return
    begin: Value | None = None
    value: Value | None = None
    total = op.info.results[0].shape[dim]
    for part in _parts(op.info, op.operand_shardings, size_of(axes)):
        piece = _fetched(op, part, dim, axes)
        if value is None:
            value = piece
            continue
        if begin is None:
            places_type = TensorType(result.shape, INDEX.element)
            begin = emit.broadcast_scalar(emit.shard_offset(axes, result.shape[dim]), places_type)
            places = emit.op("stablehlo.iota", [], [places_type], iota_dimension=emit.i64(dim))
            places = emit.binary("add", places, begin)
        tests = [emit.compare(places, "GE", emit.constant(places_type, part.start))] if part.start else []
        if part.start + part.size < total:
            tests.append(emit.compare(places, "LT", emit.constant(places_type, part.start + part.size)))
        here = emit.all_of(tests)
        value = emit.op("stablehlo.select", [here, piece, value], [result])
    op.replace([value])


def _fetched(op: LocalOp, part: _OperandRun, dim: int, axes: Axes) -> Value:
    """This device's shard of the result, as far as its elements come from this part."""
    emit, exchange = op.emit, part.exchange
    cause = op.cause("'stablehlo.concatenate' along a split dimension: shards exchange elements that belong to others")
    value = join_dim(emit, [op.operands[index] for index in part.operands], dim)
    if op.operand_axes(part.operands[0], dim):
        return redistribute(emit, value, dim, axes, axes, exchange, cause)
    begins, ends = np.array(exchange.wants, np.int64).T
    return cut_at(emit, value, dim, axes, begins, (begins < part.size) & (ends > 0), exchange.length)


def joined_slices_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions except the sliced one pass through; that stays split."""
    operand, result = info.operands[0].shape, info.results[0].shape
    builder = RuleBuilder([operand], [result], stage=Stage.ELEMENTWISE)
    for dim, size in enumerate(result):
        moved = dim == info.integer(JOINED_DIMENSION)
        builder.factor([dim], [dim], size, PERMUTATION if moved else PASS_THROUGH)
    return builder.build()


def _joined_slices(info: OpInfo, count: int) -> Exchange:
    """The part of each slice in a shard, as a range of the result."""
    dim = info.integer(JOINED_DIMENSION)
    size, length = info.operands[0].shape[dim], -(-info.results[0].shape[dim] // count)
    holds: list[Range] = []
    places: list[Range] = []
    begin = 0
    for start, limit in zip(info.ints(JOINED_STARTS), info.ints(JOINED_LIMITS), strict=True):
        for shard, (low, high) in enumerate(tiles(size, count)):
            first, last = max(low, start), min(high, limit)
            if first < last:
                holds.append((begin + first - start, begin + last - start))
                places.append((shard, first - low))
        begin += limit - start
    return Exchange(-(-size // count), tuple(holds), blocks(length, count), starts=tuple(places), shards=count)


def localize_joined_slices(op: LocalOp) -> None:
    """Each device fetches the elements of its shard of the result; if it has the whole value, it slices locally."""
    dim = op.info.integer(JOINED_DIMENSION)
    axes = op.operand_axes(0, dim)
    if not axes:
        ranges = zip(op.info.ints(JOINED_STARTS), op.info.ints(JOINED_LIMITS), strict=True)
        op.replace([join_dim(op.emit, [slice_dim(op.emit, op.operands[0], dim, a, b - a) for a, b in ranges], dim)])
        return
    cause = op.cause("slices are joined: shards exchange the elements that move")
    exchange = _joined_slices(op.info, size_of(axes))
    op.replace([redistribute(op.emit, op.operands[0], dim, axes, axes, exchange, cause)])


OPS = op_table(
    [
        OpDef(
            CONCATENATE,
            concatenate_rule,
            localize_concatenate,
            others=other_concatenate_rules,
            traits=Traits(flops=MOVED),
        )
    ]
)

# Targets of internal custom calls, which one stage inserts and a later one replaces.
OWN_CALLS = op_table([OpDef(JOINED_SLICES, joined_slices_rule, localize_joined_slices, replicable=False)])
