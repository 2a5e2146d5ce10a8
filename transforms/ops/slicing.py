"""slice, pad, concatenate, reverse: static cuts and shifts.

Dimensions that are kept whole pass through. Small cuts and paddings of a split dimension are made with the
neighbours' help; where most of a dimension would have to move, it cannot be split.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.rule import PERMUTATION, REDUCTION, OpShardingRule, RuleBuilder, Stage
from gspmd.transforms.support.builder import read_type
from gspmd.transforms.support.collective_builder import Cause
from gspmd.transforms.support.emitter import INDEX
from gspmd.transforms.support.groups import replica_groups
from gspmd.transforms.support.halo import Windows, pad_dim, pad_interior, take_windows
from gspmd.transforms.support.identity import identity_of, partial_combiner
from gspmd.transforms.support.indices import compare, inside, relative
from gspmd.transforms.support.local_op import LocalOp
from gspmd.transforms.support.op_definition import OpDef, op_table
from gspmd.transforms.support.op_info import OpInfo, TensorType

# A dimension may be cut or extended by up to one in so many of its elements while it is split.
_SMALL = 4


def slice_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions that keep most of their extent stay split; of those that keep little, each device finds the

    part that it holds. What is in between cannot be split.
    """
    operand, element = info.operands[0].shape, info.results[0].element
    builder = RuleBuilder(
        [operand], [info.results[0].shape], stage=Stage.ELEMENTWISE, combiner=partial_combiner(element)
    )
    starts, strides = info.ints("start_indices"), info.ints("strides")
    for dim, (size, kept) in enumerate(zip(operand, info.results[0].shape, strict=True)):
        if kept == size:
            builder.factor([dim], [dim], size)
        elif kept > 1 and _SMALL * (starts[dim] + abs(size - kept * strides[dim])) <= size:
            builder.factor([dim], [dim], size, PERMUTATION)
        elif kept and _SMALL * _span(info, dim) <= size and not element.startswith("!"):
            builder.factor([dim], [None], size, REDUCTION)
    return builder.build()


def _span(info: OpInfo, dim: int) -> int:
    """From the first to behind the last element that a slice takes."""
    return (info.results[0].shape[dim] - 1) * info.ints("strides")[dim] + 1


def localize_slice(op: LocalOp) -> None:
    """Each device fetches what its part of the result spans, then takes every `stride`-th element of that."""
    for factor in op.reduction_factors():
        dim = op.operand_dim(0, factor)
        if dim is not None and op.operand_axes(0, dim):
            op.operands[0] = _own_part(op, op.operands[0], dim)
    operand, result = op.info.operands[0].shape, op.info.results[0].shape
    local = op.local_result(0).shape
    starts, strides = list(op.info.ints("start_indices")), op.info.ints("strides")
    limits = list(op.info.ints("limit_indices"))
    for dim, kept in enumerate(result):
        if kept == operand[dim]:
            limits[dim] = local[dim]
        elif op.operand_axes(0, dim) and not op.result_shardings[0].dims[dim].axes:
            starts[dim], limits[dim] = 0, _span(op.info, dim)
        elif axes := op.operand_axes(0, dim):
            step = strides[dim] * local[dim]
            windows = Windows(operand[dim], starts[dim], step, step - strides[dim] + 1)
            op.operands[0] = take_windows(op.emit, op.operands[0], dim, axes, windows, None, _cause(op))
            starts[dim], limits[dim] = 0, windows.length
    if read_type(op.operands[0]) == op.local_result(0) and op.operands[0] != op.ir.operands[0]:
        op.replace([op.operands[0]])
        return
    op.ir.attributes["start_indices"] = op.emit.i64s(starts)
    op.ir.attributes["limit_indices"] = op.emit.i64s(limits)
    op.keep()


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
    """Dimensions with no padding pass through; little padding leaves them split."""
    operand, result = info.operands[0].shape, info.results[0].shape
    builder = RuleBuilder([operand, ()], [result], stage=Stage.ELEMENTWISE)
    for dim, (low, high, interior) in enumerate(_amounts(info)):
        size = operand[dim]
        if not (low or high or interior):
            builder.factor([dim, None], [dim], size)
        elif size > 1 and result[dim] > 1 and _SMALL * (abs(low) + abs(high)) <= size * (interior + 1):
            builder.factor([dim, None], [dim], size, PERMUTATION)
    return builder.build()


def _amounts(info: OpInfo) -> list[tuple[int, int, int]]:
    """Padding before, behind and between the elements of every dimension."""
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return list(zip(*map(info.ints, names), strict=True))


def localize_pad(op: LocalOp) -> None:
    """Interior padding is local; then each device fetches its part of the result, and fills what lies outside."""
    lists = [list(amounts) for amounts in zip(*_amounts(op.info), strict=True)]
    value, fill = op.operands
    for dim, (low, high, interior) in enumerate(_amounts(op.info)):
        axes = op.operand_axes(0, dim)
        if not axes or not (low or high or interior):
            continue
        spread = interior + 1
        value = pad_interior(op.emit, value, dim, interior, fill)
        length = op.local_result(0).shape[dim]
        size = (op.info.operands[0].shape[dim] - 1) * spread + 1
        windows = Windows(size, -low, length, length)
        value = take_windows(op.emit, value, dim, axes, windows, fill, _cause(op))
        for amounts in lists:
            amounts[dim] = 0
    if value != op.ir.operands[0] and not any(map(any, lists)):
        op.replace([value])
        return
    op.operands[0] = value
    for name, amounts in zip(("edge_padding_low", "edge_padding_high", "interior_padding"), lists, strict=True):
        op.ir.attributes[name] = op.emit.i64s(amounts)
    op.keep()


def concatenate_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions but the concatenated one pass through; that stays split where one operand is most of it."""
    result, concatenated = info.results[0].shape, info.integer("dimension")
    builder = RuleBuilder([t.shape for t in info.operands], [result], stage=Stage.ELEMENTWISE)
    largest = _largest(info)
    for dim, size in enumerate(result):
        if dim != concatenated:
            builder.factor([dim] * len(info.operands), [dim], size)
        elif largest is not None:
            dims = [dim if index == largest else None for index in range(len(info.operands))]
            builder.factor(dims, [dim], info.operands[largest].shape[dim], PERMUTATION)
    return builder.build()


def _largest(info: OpInfo) -> int | None:
    """The operand that all others are small beside, if there is one."""
    dim = info.integer("dimension")
    sizes = [t.shape[dim] for t in info.operands]
    largest = max(range(len(sizes)), key=sizes.__getitem__)
    return largest if _SMALL * (sum(sizes) - sizes[largest]) <= sizes[largest] else None


def localize_concatenate(op: LocalOp) -> None:
    """The largest operand moves between neighbours; the others are whole on every device, which puts them beside."""
    dim, largest = op.info.integer("dimension"), _largest(op.info)
    axes = () if largest is None else op.operand_axes(largest, dim)
    if largest is None or not axes:
        op.keep()
        return
    emit, result = op.emit, op.local_result(0)
    length, size = result.shape[dim], op.info.operands[largest].shape[dim]
    before = sum(t.shape[dim] for t in op.info.operands[:largest])
    windows = Windows(size, -before, length, length)
    value = take_windows(emit, op.operands[largest], dim, axes, windows, None, _cause(op))
    begin = emit.shard_offset(axes, length)
    places_type = TensorType(result.shape, INDEX.element)
    places = emit.op("stablehlo.iota", [], [places_type], iota_dimension=emit.i64(dim))
    places = emit.binary("add", places, emit.broadcast_scalar(begin, places_type))
    for index, part in enumerate(op.operands):
        if index == largest:
            continue
        start = sum(t.shape[dim] for t in op.info.operands[:index])
        end = start + op.info.operands[index].shape[dim]
        # With `length` elements on both sides there is a window of that length wherever the part begins.
        wide = pad_dim(emit, part, dim, length, length, 0)
        offset = emit.binary("add", begin, emit.constant(INDEX, length - start))
        zero = emit.constant(INDEX, 0)
        starts = [offset if d == dim else zero for d in range(result.rank)]
        piece = emit.op("stablehlo.dynamic_slice", [wide, *starts], [result], slice_sizes=emit.i64s(result.shape))
        low, high = emit.constant(places_type, start), emit.constant(places_type, end)
        here = emit.binary("and", compare(emit, places, "GE", low), compare(emit, places, "LT", high))
        value = emit.op("stablehlo.select", [here, piece, value], [result])
    op.replace([value])


def reverse_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions but the reversed ones pass through; those swap their shards."""
    shape = info.results[0].shape
    builder = RuleBuilder([shape], [shape], stage=Stage.ELEMENTWISE)
    reversed_dims = info.ints("dimensions")
    for dim, size in enumerate(shape):
        if dim in reversed_dims:
            builder.factor([dim], [dim], size, PERMUTATION)
        else:
            builder.factor([dim], [dim], size)
    return builder.build()


def localize_reverse(op: LocalOp) -> None:
    """Shards swap places, the first with the last, after the padding went from the end to the begin."""
    for dim in op.info.ints("dimensions"):
        axes = op.operand_axes(0, dim)
        if axes:
            size, local = op.info.operands[0].shape[dim], op.local_operand(0).shape[dim]
            padding = local * size_of(axes) - size
            windows = Windows(size, -padding, local, local)
            value = take_windows(op.emit, op.operands[0], dim, axes, windows, None, _cause(op))
            op.operands[0] = _swap_shards(op, value, axes)
    op.keep()


def _swap_shards(op: LocalOp, value: Any, axes: Axes) -> Any:
    """Shard i goes to where shard `count - 1 - i` was."""
    groups = replica_groups(op.emit.mesh, axes)
    pairs = np.stack([groups, groups[:, ::-1]], axis=-1).reshape(-1, 2)
    cause = op.cause(f"'{op.info.name}' reverses a split dimension: shards swap places")
    return op.emit.collective_permute(value, pairs, axes, cause)


OPS = op_table(
    [
        OpDef("stablehlo.slice", slice_rule, localize_slice),
        OpDef("stablehlo.pad", pad_rule, localize_pad),
        OpDef("stablehlo.concatenate", concatenate_rule, localize_concatenate),
        OpDef("stablehlo.reverse", reverse_rule, localize_reverse),
    ]
)
