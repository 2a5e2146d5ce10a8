"""slice, pad, reverse: static cuts and shifts.

Dimensions that are kept whole pass through. Along others, every device fetches the elements of its shard of the result;
if only a small part of a dimension is kept, each device provides the elements in its shard.
"""

from __future__ import annotations

import numpy as np

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.rule import PASS_THROUGH, PERMUTATION, REDUCTION, FactorKind, OpShardingRule, RuleBuilder, Stage
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.emit.collective_builder import Cause
from gspmd.transforms.emit.emitter import INDEX
from gspmd.transforms.emit.indices import inside, relative
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.exchange.block_emission import exchange_blocks
from gspmd.transforms.exchange.blocks import block_exchange
from gspmd.transforms.exchange.halo import Windows, redistribute, take_windows
from gspmd.transforms.exchange.intervals import Exchange, Ints, blocks, cheapest
from gspmd.transforms.exchange.pieces import cut_at, pad_dim, slice_dim
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.reducers import identity_of, partial_combiner
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.op_definition import OpDef, op_table, unless_partial
from gspmd.transforms.ops.traits import MOVED, Fusion, Traits

SLICE = "stablehlo.slice"
# An operand with at most this fraction of the dimension is small.
_SMALL = 4


def kept_range(info: OpInfo, dim: int) -> tuple[int, int] | None:
    """What a slice keeps of a dimension, if it cuts no other, and leaves nothing out in between; None of all else."""
    if info.name != SLICE or any(step != 1 for step in info.ints("strides")):
        return None
    sizes = zip(info.operands[0].shape, info.results[0].shape, strict=True)
    if any(before != after for d, (before, after) in enumerate(sizes) if d != dim):
        return None
    return info.ints("start_indices")[dim], info.ints("limit_indices")[dim]


def slice_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions stay split; along those that keep a small part, each device provides its elements."""
    return _slice_rule(info, [_kept_little(info, dim) for dim in range(info.operands[0].rank)])


def other_slice_rules(info: OpInfo) -> tuple[OpShardingRule, ...]:
    """Dimensions with a small part may stay split, too."""
    rank = info.operands[0].rank
    return (_slice_rule(info, [False] * rank),) if any(_kept_little(info, dim) for dim in range(rank)) else ()


def _kept_little(info: OpInfo, dim: int) -> bool:
    return _SMALL * _span(info, dim) <= info.operands[0].shape[dim]


def _slice_rule(info: OpInfo, found: list[bool]) -> OpShardingRule:
    """`found` are the dimensions along which each device provides its elements."""
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
    """The length from the first to after the last element of a slice."""
    return (info.results[0].shape[dim] - 1) * info.ints("strides")[dim] + 1


class _SplitSlice:
    """A slice of a dimension that stays split: every `stride`-th element from `start`, `kept` in all.

    Either a device fetches the range of its part of the result and takes every `stride`-th element (`spans`), or it
    takes the kept elements of its shard and sends these, whichever sends less.
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
            # The number of a shard's first kept element among all kept ones, and its position in the shard.
            first = np.clip(-((start - begins) // self.stride), 0, self.kept)
            self.places: Ints = (start + self.stride * first - begins)[:-1]
            self.filled: Ints = np.diff(first)
            held = tuple(zip(first[:-1].tolist(), first[1:].tolist(), strict=True))
            packed = Exchange(int(self.filled.max()), held, blocks(self.length, count))
            if cheapest(packed).sent < cheapest(self.exchange).sent:
                self.exchange, self.spans = packed, False

    def take(self, op: LocalOp, value: Value, dim: int, axes: Axes) -> Value:
        """This device's shard of the result."""
        if not self.spans:
            most = self.exchange.local
            value = cut_at(op.emit, value, dim, axes, self.places, self.filled, (most - 1) * self.stride + 1)
            value = slice_dim(op.emit, value, dim, 0, most, self.stride)
        value = redistribute(op.emit, value, dim, axes, axes, self.exchange, _cause(op))
        return slice_dim(op.emit, value, dim, 0, self.length, self.stride) if self.spans else value


def localize_slice(op: LocalOp) -> None:
    """Slice dimensions that are not split first, so that less is sent, then the split ones."""
    operand, result = op.info.operands[0].shape, op.info.results[0].shape
    local, value = op.local_result(0).shape, op.operands[0]
    starts, strides = list(op.info.ints("start_indices")), list(op.info.ints("strides"))
    limits = list(op.info.ints("limit_indices"))
    exchanged = _exchanged(op.info, op.operand_shardings[0], op.result_shardings[0])
    for dim, kept in enumerate(result):
        if kept == operand[dim]:
            limits[dim] = local[dim]
        elif op.operand_axes(0, dim) and dim not in exchanged:
            value = _own_part(op, value, dim)
            starts[dim], limits[dim] = 0, _span(op.info, dim)
        elif dim not in exchanged and exchanged:
            value = slice_dim(op.emit, value, dim, starts[dim], kept, strides[dim])
            starts[dim], limits[dim], strides[dim] = 0, kept, 1
    for dim, cut in exchanged.items():
        value = cut.take(op, value, dim, op.operand_axes(0, dim))
        starts[dim], limits[dim], strides[dim] = 0, local[dim], 1
    op.operands[0] = value
    if value.type == op.local_result(0) and value != op.ir.operands[0]:
        op.replace([value])
        return
    for name, values in (("start_indices", starts), ("limit_indices", limits), ("strides", strides)):
        op.ir.attributes[name] = op.emit.i64s(values)
    op.keep()


def _exchanged(info: OpInfo, operand: TensorSharding, result: TensorSharding) -> dict[int, _SplitSlice]:
    """The dimensions that stay split, along which shards exchange kept elements."""
    return {
        dim: _SplitSlice(info, dim, size_of(before.axes))
        for dim, (before, after) in enumerate(zip(operand.dims, result.dims, strict=True))
        if before.axes and after.axes and info.operands[0].shape[dim] != info.results[0].shape[dim]
    }


def _own_part(op: LocalOp, value: Value, dim: int) -> Value:
    """The range of the slice along a dimension, with the neutral element for elements of other shards."""
    emit, span = op.emit, _span(op.info, dim)
    local, neutral = op.local_operand(0).shape[dim], identity_of(op.rule.combiner)
    start = op.emit.constant(INDEX, op.info.ints("start_indices")[dim])
    start = relative(emit, start, op.operand_axes(0, dim), local)
    margin = 0 if span == 1 else span
    if margin:
        value = pad_dim(emit, value, dim, margin, margin, neutral)
        start = emit.binary("add", start, emit.constant(INDEX, margin))
    type_ = value.type
    result = TensorType((*type_.shape[:dim], span, *type_.shape[dim + 1 :]), type_.element)
    zero = emit.constant(INDEX, 0)
    starts = [start if d == dim else zero for d in range(type_.rank)]
    found = emit.dynamic_slice(value, starts, result.shape)
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
    """The windows of the operand that shards of the result span, with interior padding between elements."""
    low, _, interior = _amounts(info)[dim]
    length = -(-info.results[0].shape[dim] // count)
    return Windows(info.operands[0].shape[dim], -low, length, length, interior + 1)


def localize_pad(op: LocalOp) -> None:
    """Each device fetches the elements of its shard of the result, and pads around and between them."""
    lists = [list(amounts) for amounts in zip(*_amounts(op.info), strict=True)]
    value, fill = op.operands
    for dim, amounts in enumerate(_amounts(op.info)):
        axes = op.operand_axes(0, dim)
        if not axes or not any(amounts):
            continue
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


def reverse_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions except the reversed ones pass through; along those, shards come from the other end."""
    shape = info.results[0].shape
    builder = RuleBuilder([shape], [shape], stage=Stage.ELEMENTWISE)
    reversed_dims = info.ints("dimensions")
    for dim, size in enumerate(shape):
        kind: FactorKind = PERMUTATION if dim in reversed_dims else PASS_THROUGH
        builder.factor([dim], [dim], size, kind)
    return builder.build()


def _mirrored(size: int, count: int) -> Windows:
    """The windows of the operand for shards of the result, in reverse order."""
    local = -(-size // count)
    return Windows(size, size - local, -local, local)


def localize_reverse(op: LocalOp) -> None:
    """Each device fetches the elements of its shard of the result, and reverses them.

    For even shards that is one exchange, possibly to another sharding. Otherwise shards are fetched along one dimension
    after the other, with the same sharding.
    """
    cause = op.cause(f"'{op.info.name}' reverses a split dimension: shards are swapped")
    shape, dims = op.info.operands[0].shape, op.info.ints("dimensions")
    before, after = (sharding.dim_axes() for sharding in (*op.operand_shardings, *op.result_shardings))
    split = tuple(dim for dim in dims if after[dim])
    exchange = None
    if (split or before != after) and all(shape[dim] % size_of(after[dim]) == 0 for dim in split):
        exchange = block_exchange(op.emit.mesh, shape, before, after, op.emit.held, split)
    if exchange is not None:
        moved = exchange_blocks(op.emit, op.operands[0], exchange, cause)
        op.operands[0] = op.emit.slice(moved, op.local_result(0).shape)
    elif before != after:
        raise Unsupported("reverses uneven shards, or moves too many of them", code=Code.OPERATION)
    else:
        for dim in split:
            windows = _mirrored(shape[dim], size_of(after[dim]))
            op.operands[0] = take_windows(op.emit, op.operands[0], dim, after[dim], windows, None, cause)
    op.keep()


OPS = op_table(
    [
        OpDef(
            SLICE,
            slice_rule,
            localize_slice,
            others=other_slice_rules,
            traits=Traits(linear=((0,),), flops=MOVED, stays_on_host=True, fusion=Fusion.WITH_USER),
        ),
        OpDef(
            "stablehlo.pad",
            pad_rule,
            localize_pad,
            traits=Traits(flops=MOVED, fusion=Fusion.WITH_USER),
        ),
        OpDef(
            "stablehlo.reverse",
            reverse_rule,
            localize_reverse,
            any_shards=unless_partial,
            traits=Traits(rearranges=True, flops=MOVED, fusion=Fusion.WITH_USER),
        ),
    ]
)
