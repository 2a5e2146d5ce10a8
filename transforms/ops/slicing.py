"""slice, pad, concatenate, reverse: static cuts and shifts.

Dimensions that are kept whole pass through. Of others every device fetches what its part of the result is made of; of
little that is left of a dimension, each device finds the part that it holds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.rule import PASS_THROUGH, PERMUTATION, REDUCTION, FactorKind, OpShardingRule, RuleBuilder, Stage
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.support.builder import read_type
from gspmd.transforms.support.collective_builder import Cause
from gspmd.transforms.support.emitter import INDEX
from gspmd.transforms.support.exchange import Exchange, Ints, Range, blocks, cheapest, sent_bytes, tiles
from gspmd.transforms.support.halo import (
    Windows,
    cut_at,
    join_dim,
    pad_dim,
    pad_interior,
    redistribute,
    slice_dim,
    take_windows,
)
from gspmd.transforms.support.identity import identity_of, partial_combiner
from gspmd.transforms.support.indices import compare, inside, relative
from gspmd.transforms.support.local_op import LocalOp, local_type
from gspmd.transforms.support.op_definition import OpDef, Shardings, op_table
from gspmd.transforms.support.op_info import OpInfo, TensorType

# One in so many elements of a dimension is little.
_SMALL = 4


def slice_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions stay split; of those that keep little, each device finds the part that it holds."""
    return _slice_rule(info, [_kept_little(info, dim) for dim in range(info.operands[0].rank)])


def other_slice_rules(info: OpInfo) -> tuple[OpShardingRule, ...]:
    """What is little may stay split, too."""
    rank = info.operands[0].rank
    return (_slice_rule(info, [False] * rank),) if any(_kept_little(info, dim) for dim in range(rank)) else ()


def _kept_little(info: OpInfo, dim: int) -> bool:
    return _SMALL * _span(info, dim) <= info.operands[0].shape[dim]


def _slice_rule(info: OpInfo, found: list[bool]) -> OpShardingRule:
    """`found` says of which dimensions each device finds the part that it holds."""
    operand, result, element = info.operands[0].shape, info.results[0].shape, info.results[0].element
    builder = RuleBuilder([operand], [result], stage=Stage.ELEMENTWISE, combiner=partial_combiner(element))
    for dim, (size, kept) in enumerate(zip(operand, result, strict=True)):
        if kept == size:
            builder.factor([dim], [dim], size)
        elif element.startswith("!") or not kept:
            continue
        elif found[dim] or kept == 1:
            builder.factor([dim], [None], size, REDUCTION)
        else:
            builder.factor([dim], [dim], size, PERMUTATION)
    return builder.build()


def _span(info: OpInfo, dim: int) -> int:
    """From the first to behind the last element that a slice takes."""
    return (info.results[0].shape[dim] - 1) * info.ints("strides")[dim] + 1


class _Cut:
    """A slice of a dimension that stays split: every `stride`-th element from `start`, `kept` in all.

    Either a device fetches what its part of the result spans and takes every `stride`-th of that (`spans`), or it
    takes from its shard those that are kept, to send these: whichever sends less.
    """

    def __init__(self, info: OpInfo, dim: int, count: int) -> None:
        size, self.kept = info.operands[0].shape[dim], info.results[0].shape[dim]
        start, self.stride = info.ints("start_indices")[dim], info.ints("strides")[dim]
        self.length = -(-self.kept // count)
        step = self.stride * self.length
        self.exchange = Windows(size, start, step, step - self.stride + 1).exchange(count)
        self.spans = True
        if self.stride > 1:
            begins = np.arange(count + 1) * -(-size // count)
            # The first that a shard keeps, counted among all that are kept, and its place in the shard.
            first = np.clip(-((start - begins) // self.stride), 0, self.kept)
            self.places: Ints = (start + self.stride * first - begins)[:-1]
            self.filled: Ints = np.diff(first)
            held = tuple(zip(first[:-1].tolist(), first[1:].tolist(), strict=True))
            packed = Exchange(int(self.filled.max()), held, blocks(self.length, count))
            if cheapest(packed).sent < cheapest(self.exchange).sent:
                self.exchange, self.spans = packed, False

    def take(self, op: LocalOp, value: Any, dim: int, axes: Axes) -> Any:
        """This device's part of the result."""
        if not self.spans:
            most = self.exchange.local
            value = cut_at(op.emit, value, dim, axes, self.places, self.filled, (most - 1) * self.stride + 1)
            value = slice_dim(op.emit, value, dim, 0, most, self.stride)
        value = redistribute(op.emit, value, dim, axes, axes, self.exchange, _cause(op))
        return slice_dim(op.emit, value, dim, 0, self.length, self.stride) if self.spans else value


def localize_slice(op: LocalOp) -> None:
    """Split dimensions are cut by themselves; the others as before."""
    operand, result = op.info.operands[0].shape, op.info.results[0].shape
    local, value = op.local_result(0).shape, op.operands[0]
    starts, strides = list(op.info.ints("start_indices")), list(op.info.ints("strides"))
    limits = list(op.info.ints("limit_indices"))
    for dim, kept in enumerate(result):
        axes = op.operand_axes(0, dim)
        if kept == operand[dim]:
            limits[dim] = local[dim]
        elif axes and op.result_shardings[0].dims[dim].axes:
            value = _Cut(op.info, dim, size_of(axes)).take(op, value, dim, axes)
            starts[dim], limits[dim], strides[dim] = 0, local[dim], 1
        elif axes:
            value = _own_part(op, value, dim)
            starts[dim], limits[dim] = 0, _span(op.info, dim)
    op.operands[0] = value
    if read_type(value) == op.local_result(0) and value != op.ir.operands[0]:
        op.replace([value])
        return
    for name, values in (("start_indices", starts), ("limit_indices", limits), ("strides", strides)):
        op.ir.attributes[name] = op.emit.i64s(values)
    op.keep()


def slice_sends(info: OpInfo, operands: Shardings, results: Shardings) -> float:
    return sent_bytes(local_type(info.operands[0], operands[0]), _slice_exchanges(info, operands[0], results[0]))


def _slice_exchanges(
    info: OpInfo, operand: TensorSharding, result: TensorSharding
) -> Iterator[tuple[int, Exchange]]:
    for dim, (before, after) in enumerate(zip(operand.dims, result.dims, strict=True)):
        if before.axes and after.axes and info.operands[0].shape[dim] != info.results[0].shape[dim]:
            yield dim, _Cut(info, dim, size_of(before.axes)).exchange


def _own_part(op: LocalOp, value: Any, dim: int) -> Any:
    """What the slice spans of a dimension; the neutral element where another shard holds it."""
    emit, span = op.emit, _span(op.info, dim)
    local, neutral = op.local_operand(0).shape[dim], identity_of(op.rule.combiner)
    start = op.emit.constant(INDEX, op.info.ints("start_indices")[dim])
    start = relative(emit, start, op.operand_axes(0, dim), local)
    margin = 0 if span == 1 else span
    if margin:
        value = pad_dim(emit, value, dim, margin, margin, neutral)
        start = emit.binary("add", start, emit.constant(INDEX, margin))
    type_ = read_type(value)
    result = TensorType((*type_.shape[:dim], span, *type_.shape[dim + 1 :]), type_.element)
    zero = emit.constant(INDEX, 0)
    starts = [start if d == dim else zero for d in range(type_.rank)]
    found = emit.op("stablehlo.dynamic_slice", [value, *starts], [result], slice_sizes=emit.i64s(result.shape))
    if margin:
        return found
    return emit.op("stablehlo.select", [inside(emit, start, local), found, emit.constant(result, neutral)], [result])


def _cause(op: LocalOp) -> Cause:
    return op.cause(f"'{op.info.name}' shifts a split dimension: neighbours give what moves to other shards")


def pad_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions with no padding pass through; others stay split."""
    operand, result, element = info.operands[0].shape, info.results[0].shape, info.results[0].element
    builder = RuleBuilder([operand, ()], [result], stage=Stage.ELEMENTWISE)
    for dim, amounts in enumerate(_amounts(info)):
        if not any(amounts):
            builder.factor([dim, None], [dim], operand[dim])
        elif operand[dim] > 1 and result[dim] > 1 and not element.startswith("!"):
            builder.factor([dim, None], [dim], operand[dim], PERMUTATION)
    return builder.build()


def _amounts(info: OpInfo) -> list[tuple[int, int, int]]:
    """Padding before, behind and between the elements of every dimension."""
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return list(zip(*map(info.ints, names), strict=True))


def _pad_windows(info: OpInfo, dim: int, count: int) -> Windows:
    """What shards of the result are of the operand, interior padding included."""
    low, _, interior = _amounts(info)[dim]
    length = -(-info.results[0].shape[dim] // count)
    return Windows((info.operands[0].shape[dim] - 1) * (interior + 1) + 1, -low, length, length)


def localize_pad(op: LocalOp) -> None:
    """Interior padding is local; then each device fetches its part of the result, and fills what lies outside."""
    lists = [list(amounts) for amounts in zip(*_amounts(op.info), strict=True)]
    value, fill = op.operands
    for dim, amounts in enumerate(_amounts(op.info)):
        axes = op.operand_axes(0, dim)
        if not axes or not any(amounts):
            continue
        value = pad_interior(op.emit, value, dim, amounts[2], fill)
        windows = _pad_windows(op.info, dim, size_of(axes))
        value = take_windows(op.emit, value, dim, axes, windows, fill, _cause(op))
        for values in lists:
            values[dim] = 0
    if value != op.ir.operands[0] and not any(map(any, lists)):
        op.replace([value])
        return
    op.operands[0] = value
    for name, values in zip(("edge_padding_low", "edge_padding_high", "interior_padding"), lists, strict=True):
        op.ir.attributes[name] = op.emit.i64s(values)
    op.keep()


def pad_sends(info: OpInfo, operands: Shardings, results: Shardings) -> float:
    def exchanges() -> Iterator[tuple[int, Exchange]]:
        for dim, amounts in enumerate(_amounts(info)):
            axes = operands[0].dims[dim].axes
            if axes and any(amounts):
                local = -(-info.operands[0].shape[dim] // size_of(axes)) * (amounts[2] + 1)
                yield dim, _pad_windows(info, dim, size_of(axes)).exchange(size_of(axes), local)

    return sent_bytes(local_type(info.operands[0], operands[0]), exchanges())


def concatenate_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions but the concatenated one pass through; that stays split, with all operands that are not little."""
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
    """`split` says which operands are split along the concatenated dimension, where the result is."""
    result, concatenated = info.results[0], info.integer("dimension")
    builder = RuleBuilder([t.shape for t in info.operands], [result.shape], stage=Stage.ELEMENTWISE)
    for dim, size in enumerate(result.shape):
        if dim != concatenated:
            builder.factor([dim] * len(info.operands), [dim], size)
        elif not result.element.startswith("!"):
            builder.factor([dim if here else None for here in split], [dim], size, PERMUTATION)
    return builder.build()


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """An operand of a concatenation, or several of them side by side: `size` elements from `start` of the result."""

    start: int
    size: int
    operands: tuple[int, ...]
    exchange: Exchange


def _parts(info: OpInfo, operands: Shardings, count: int) -> list[_Part]:
    """What a concatenation over `count` shards is made of. Operands that are split move together where that sends

    less than each by itself: what one device sends of one and another of another is then one message.
    """
    dim = info.integer("dimension")
    sizes = [t.shape[dim] for t in info.operands]
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    length = -(-sum(sizes) // count)
    single = [
        _Part(start, size, (index,), Windows(size, -start, length, length).exchange(count))
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
    together = Exchange(local, tuple(holds), blocks(length, count), places=tuple(places), shards=count)
    if cheapest(together).sent >= sum(cheapest(part.exchange).sent for part in moved):
        return single
    joined = _Part(0, sum(sizes), tuple(part.operands[0] for part in moved), together)
    return [joined, *(part for part in single if part not in moved)]


def localize_concatenate(op: LocalOp) -> None:
    """Of operands that are split each device fetches what belongs to its part; of the others it has it."""
    dim, emit, result = op.info.integer("dimension"), op.emit, op.local_result(0)
    axes = op.result_shardings[0].dims[dim].axes
    if not axes:
        op.keep()
        return
    begin: Any = None
    value: Any = None
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
        tests = [compare(emit, places, "GE", emit.constant(places_type, part.start))] if part.start else []
        if part.start + part.size < total:
            tests.append(compare(emit, places, "LT", emit.constant(places_type, part.start + part.size)))
        here = tests[0] if len(tests) == 1 else emit.binary("and", *tests)
        value = emit.op("stablehlo.select", [here, piece, value], [result])
    op.replace([value])


def _fetched(op: LocalOp, part: _Part, dim: int, axes: Axes) -> Any:
    """This device's part of the result, as far as it is made of that."""
    emit, exchange = op.emit, part.exchange
    value = join_dim(emit, [op.operands[index] for index in part.operands], dim)
    if op.operand_axes(part.operands[0], dim):
        return redistribute(emit, value, dim, axes, axes, exchange, _cause(op))
    begins, ends = np.array(exchange.wants, np.int64).T
    return cut_at(emit, value, dim, axes, begins, (begins < part.size) & (ends > 0), exchange.length)


def concatenate_sends(info: OpInfo, operands: Shardings, results: Shardings) -> float:
    dim = info.integer("dimension")
    rest = local_type(info.results[0], results[0])
    return sum(
        sent_bytes(rest, [(dim, part.exchange)])
        for part in _parts(info, operands, size_of(results[0].dims[dim].axes))
        if operands[part.operands[0]].dims[dim].axes
    )


# A custom call of our own: the slices [start, limit) of its operand along a dimension, one after the other. It is made
# where operand and result are split alike along that dimension, and does not outlive the per-device form.
JOINED_SLICES = "gspmd.joined_slices"


def joined_slices_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions but the sliced one pass through; that stays split."""
    operand, result = info.operands[0].shape, info.results[0].shape
    builder = RuleBuilder([operand], [result], stage=Stage.ELEMENTWISE)
    for dim, size in enumerate(result):
        moved = dim == info.integer("gspmd.dimension")
        builder.factor([dim], [dim], size, PERMUTATION if moved else PASS_THROUGH)
    return builder.build()


def _joined_slices(info: OpInfo, count: int) -> Exchange:
    """Each part of a slice that a shard holds is a range of the result."""
    dim = info.integer("gspmd.dimension")
    size, length = info.operands[0].shape[dim], -(-info.results[0].shape[dim] // count)
    holds: list[Range] = []
    places: list[Range] = []
    begin = 0
    for start, limit in zip(info.ints("gspmd.starts"), info.ints("gspmd.limits"), strict=True):
        for shard, (low, high) in enumerate(tiles(size, count)):
            first, last = max(low, start), min(high, limit)
            if first < last:
                holds.append((begin + first - start, begin + last - start))
                places.append((shard, first - low))
        begin += limit - start
    return Exchange(-(-size // count), tuple(holds), blocks(length, count), places=tuple(places), shards=count)


def localize_joined_slices(op: LocalOp) -> None:
    """Each device fetches the elements of its part of the result."""
    dim = op.info.integer("gspmd.dimension")
    axes = op.operand_axes(0, dim)
    cause = op.cause("slices are put together again: shards give each other what moves")
    exchange = _joined_slices(op.info, size_of(axes))
    op.replace([redistribute(op.emit, op.operands[0], dim, axes, axes, exchange, cause)])


def reverse_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions but the reversed ones pass through; of those, shards come from the other end."""
    shape = info.results[0].shape
    builder = RuleBuilder([shape], [shape], stage=Stage.ELEMENTWISE)
    reversed_dims = info.ints("dimensions")
    for dim, size in enumerate(shape):
        kind: FactorKind = PERMUTATION if dim in reversed_dims else PASS_THROUGH
        builder.factor([dim], [dim], size, kind)
    return builder.build()


def _mirrored(size: int, count: int) -> Windows:
    """What shards of the result are of the operand, back to front."""
    local = -(-size // count)
    return Windows(size, size - local, -local, local)


def localize_reverse(op: LocalOp) -> None:
    """Each device fetches the elements of its part of the result, and reverses them."""
    cause = op.cause(f"'{op.info.name}' reverses a split dimension: shards swap places")
    for dim in op.info.ints("dimensions"):
        axes = op.operand_axes(0, dim)
        if axes:
            windows = _mirrored(op.info.operands[0].shape[dim], size_of(axes))
            op.operands[0] = take_windows(op.emit, op.operands[0], dim, axes, windows, None, cause)
    op.keep()


def reverse_sends(info: OpInfo, operands: Shardings, results: Shardings) -> float:
    def exchanges() -> Iterator[tuple[int, Exchange]]:
        for dim in info.ints("dimensions"):
            if operands[0].dims[dim].axes:
                count = size_of(operands[0].dims[dim].axes)
                yield dim, _mirrored(info.operands[0].shape[dim], count).exchange(count)

    return sent_bytes(local_type(info.operands[0], operands[0]), exchanges())


OPS = op_table(
    [
        OpDef("stablehlo.slice", slice_rule, localize_slice, others=other_slice_rules, sends=slice_sends),
        OpDef("stablehlo.pad", pad_rule, localize_pad, sends=pad_sends),
        OpDef(
            "stablehlo.concatenate",
            concatenate_rule,
            localize_concatenate,
            others=other_concatenate_rules,
            sends=concatenate_sends,
        ),
        OpDef("stablehlo.reverse", reverse_rule, localize_reverse, sends=reverse_sends),
    ]
)
