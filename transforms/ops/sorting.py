"""sort and top_k: order along one dimension, which every device needs whole."""

from __future__ import annotations

from gspmd.dialect.rule import NEED_REPLICATION, OpShardingRule, RuleBuilder
from gspmd.transforms.support.op_definition import OpDef, op_table
from gspmd.transforms.support.op_info import OpInfo


def sort_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions but the sorted one pass through, together in all operands and results."""
    shape, count = info.operands[0].shape, len(info.operands)
    sorted_dim = info.integer("dimension", -1) % max(len(shape), 1)
    builder = RuleBuilder([shape] * count, [shape] * count)
    for dim, size in enumerate(shape):
        if dim == sorted_dim:
            builder.factor([dim] * count, [dim] * count, size, NEED_REPLICATION)
        else:
            builder.factor([dim] * count, [dim] * count, size)
    return builder.build()


def top_k_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions but the last pass through."""
    shape = info.operands[0].shape
    builder = RuleBuilder([shape], [t.shape for t in info.results])
    for dim, size in enumerate(shape[:-1]):
        builder.factor([dim], [dim, dim], size)
    return builder.build()


OPS = op_table([OpDef("stablehlo.sort", sort_rule), OpDef("chlo.top_k", top_k_rule)])
