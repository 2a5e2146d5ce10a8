"""slice, pad, concatenate, reverse: static cuts. Dimensions that are kept whole pass through."""

from __future__ import annotations

from gspmd.dialect.rule import NEED_REPLICATION, OpShardingRule, RuleBuilder, Stage
from gspmd.transforms.support.local_op import LocalOp
from gspmd.transforms.support.op_definition import OpDef, op_table
from gspmd.transforms.support.op_info import OpInfo


def slice_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions that are really cut cannot be split."""
    operand = info.operands[0].shape
    builder = RuleBuilder([operand], [info.results[0].shape], stage=Stage.ELEMENTWISE)
    for dim in _whole_dims(info):
        builder.factor([dim], [dim], operand[dim])
    return builder.build()


def _whole_dims(info: OpInfo) -> list[int]:
    """Dimensions of which a slice keeps everything."""
    limits, strides = info.ints("limit_indices"), info.ints("strides")
    return [
        dim
        for dim, start in enumerate(info.ints("start_indices"))
        if start == 0 and strides[dim] == 1 and limits[dim] == info.operands[0].shape[dim]
    ]


def localize_slice(op: LocalOp) -> None:
    """Whole dimensions end where the shard does."""
    limits = list(op.info.ints("limit_indices"))
    for dim in _whole_dims(op.info):
        limits[dim] = op.local_result(0).shape[dim]
    op.ir.attributes["limit_indices"] = op.emit.i64s(limits)
    op.keep()


def pad_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions that get no padding pass through."""
    operand = info.operands[0].shape
    builder = RuleBuilder([operand, ()], [info.results[0].shape], stage=Stage.ELEMENTWISE)
    amounts = zip(
        info.ints("edge_padding_low"), info.ints("edge_padding_high"), info.ints("interior_padding"), strict=True
    )
    for dim, padding in enumerate(amounts):
        if not any(padding):
            builder.factor([dim, None], [dim], operand[dim])
    return builder.build()


def concatenate_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions but the concatenated one pass through."""
    result = info.results[0].shape
    builder = RuleBuilder([t.shape for t in info.operands], [result], stage=Stage.ELEMENTWISE)
    for dim, size in enumerate(result):
        if dim != info.integer("dimension"):
            builder.factor([dim] * len(info.operands), [dim], size)
    return builder.build()


def reverse_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions but the reversed ones pass through."""
    shape = info.results[0].shape
    builder = RuleBuilder([shape], [shape], stage=Stage.ELEMENTWISE)
    reversed_dims = info.ints("dimensions")
    for dim, size in enumerate(shape):
        if dim in reversed_dims:
            builder.factor([dim], [dim], size, NEED_REPLICATION)
        else:
            builder.factor([dim], [dim], size)
    return builder.build()


OPS = op_table(
    [
        OpDef("stablehlo.slice", slice_rule, localize_slice),
        OpDef("stablehlo.pad", pad_rule),
        OpDef("stablehlo.concatenate", concatenate_rule),
        OpDef("stablehlo.reverse", reverse_rule),
    ]
)
