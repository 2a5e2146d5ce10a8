"""Values split into summands: a whole value is the first summand, and a partial value has its summands already.

A value that is split over the axes of the summands is not gathered: the summand of a device is its shard, with zeros
elsewhere. For example, `f32[4] [{"x"}]` over x=2 has the summands [a, b, 0, 0] and [0, 0, c, d]. So nothing is sent.
"""

from __future__ import annotations

from gspmd.dialect.axes import Axes, canonical, is_within, remove_prefix, size_of, starts_with, without
from gspmd.dialect.own_attributes import TAKEN_APART
from gspmd.dialect.rule import OpShardingRule, RuleBuilder
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.exchange.intervals import nests
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.op_definition import OpDef, Shardings, op_table


def taken_apart_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions pass through; the dimension of summands is only in the result."""
    operand, result = info.operands[0].shape, info.results[0].shape
    builder = RuleBuilder([operand], [result])
    builder.factor([None], [0], result[0])
    for dim, size in enumerate(operand):
        builder.factor([dim], [dim + 1], size)
    return builder.build()


def put_in_place(info: OpInfo, shardings: Shardings) -> Shardings | None:
    """The operand's sharding: that of the result, possibly with further axes of the summands."""
    operand, result = shardings
    summands, *wanted = result.dim_axes()
    if operand.unreduced or result.unreduced:
        return None
    dims = []
    for size, mine, theirs in zip(info.operands[0].shape, operand.dim_axes(), wanted, strict=True):
        further = canonical((*theirs, *(axis for axis in mine if is_within(axis, summands))))
        may_be = starts_with(further, theirs) and nests(size, size_of(theirs), size_of(further))
        dims.append(further if may_be else theirs)
    return operand.with_axes(tuple(dims)), result


def localize_taken_apart(op: LocalOp) -> None:
    """A whole value gets zeros as further summands; the summands of a partial value are its parts."""
    emit, held, made = op.emit, op.operand_shardings[0], op.result_shardings[0]
    further = _further(held, made)
    result = op.local_result(0)
    value = _in_place(op, op.operands[0], further, result.shape[1:])
    one = emit.reshape(value, (1, *value.type.shape))
    axes = without(made.dims[0].axes, (*held.unreduced, *(axis for each in further for axis in each)))
    if not axes and result.shape[0] == 1:
        op.replace([one])
        return
    type_ = TensorType(result.shape, "i32")
    places = emit.op("stablehlo.iota", [], [type_], iota_dimension=emit.i64(0))
    if axes:
        begin = emit.shard_offset(axes, result.shape[0])
        places = emit.binary("add", places, emit.broadcast_scalar(begin, type_))
    is_first = emit.compare(places, "EQ", emit.constant(type_, 0))
    if one.type != result:
        dims = emit.i64s(range(len(result.shape)))
        one = emit.op("stablehlo.broadcast_in_dim", [one], [result], broadcast_dimensions=dims)
    zeros = emit.constant(result, "zero")
    op.replace([emit.op("stablehlo.select", [is_first, one, zeros], [result])])


def _further(held: TensorSharding, made: TensorSharding) -> list[Axes]:
    """The axes of the summands that split each dimension of the operand."""
    return [remove_prefix(mine, theirs) for mine, theirs in zip(held.dim_axes(), made.dim_axes()[1:], strict=True)]


def _in_place(op: LocalOp, value: Value, further: list[Axes], shape: tuple[int, ...]) -> Value:
    """A device's shard, with zeros for the shards of others."""
    if not any(further):
        return value
    emit, local = op.emit, value.type
    around = TensorType(tuple(n * size_of(axes) for n, axes in zip(local.shape, further, strict=True)), local.element)
    begins = [
        emit.shard_offset(axes, n) if axes else emit.constant(TensorType((), "i32"), 0)
        for n, axes in zip(local.shape, further, strict=True)
    ]
    zeros = emit.constant(around, "zero")
    placed = emit.op("stablehlo.dynamic_update_slice", [zeros, value, *begins], [around])
    return placed if around.shape == shape else emit.slice(placed, shape)


PARTIAL_CALLS = op_table(
    [OpDef(TAKEN_APART, taken_apart_rule, localize_taken_apart, any_shards=put_in_place)],
)
