"""Values taken apart into summands: what is whole is the first of them, what is partial has them already."""

from __future__ import annotations

from gspmd.dialect.axes import without
from gspmd.dialect.own_attributes import TAKEN_APART
from gspmd.dialect.rule import OpShardingRule, RuleBuilder
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.op_definition import OpDef, op_table


def taken_apart_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions pass through; that of the summands is the result's alone."""
    operand, result = info.operands[0].shape, info.results[0].shape
    builder = RuleBuilder([operand], [result])
    builder.factor([None], [0], result[0])
    for dim, size in enumerate(operand):
        builder.factor([dim], [dim + 1], size)
    return builder.build()


def localize_taken_apart(op: LocalOp) -> None:
    """Zeros stand beside what is whole; each device's part of what is partial is its summand."""
    emit, value, result = op.emit, op.operands[0], op.local_result(0)
    one = emit.reshape(value, (1, *value.type.shape))
    axes = without(op.result_shardings[0].dims[0].axes, op.operand_shardings[0].unreduced)
    if not axes and result.shape[0] == 1:
        op.replace([one])
        return
    type_ = TensorType(result.shape, "i32")
    places = emit.op("stablehlo.iota", [], [type_], iota_dimension=emit.i64(0))
    if axes:
        begin = emit.shard_offset(axes, result.shape[0])
        places = emit.binary("add", places, emit.broadcast_scalar(begin, type_))
    is_first = emit.compare(places, "EQ", emit.constant(type_, 0))
    everywhere = emit.op(
        "stablehlo.broadcast_in_dim", [one], [result], broadcast_dimensions=emit.i64s(range(len(result.shape)))
    )
    op.replace([emit.op("stablehlo.select", [is_first, everywhere, emit.constant(result, "zero")], [result])])


PARTIAL_CALLS = op_table([OpDef(TAKEN_APART, taken_apart_rule, localize_taken_apart)])
