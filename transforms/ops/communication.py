"""Collectives and partition ids written by the user, which occur only in manual computations.

There these operations work along manual axes. The other axes may split any dimension that they do not concatenate or
split. Their groups name all devices, so they stay unchanged.
"""

from __future__ import annotations

import dataclasses

from gspmd.dialect.rule import OpShardingRule, RuleBuilder, Stage
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.ragged_call import RAGGED, group_size
from gspmd.transforms.ops.op_definition import OpDef, RuleFunction, op_table
from gspmd.transforms.ops.traits import MOVED, Fusion, Traits


def _along(*attributes: str) -> RuleFunction:
    """The rule of an operation that passes through all dimensions except those in its attributes."""

    def rule(info: OpInfo) -> OpShardingRule:
        whole = {info.integer(name) for name in attributes}
        builder = RuleBuilder(
            [t.shape for t in info.operands], [t.shape for t in info.results], stage=Stage.ELEMENTWISE
        )
        operands, results = range(len(info.operands)), range(len(info.results))
        for index, type_ in zip(results, info.operands, strict=False):  # an operand without a result names the sender
            for dim, size in enumerate(type_.shape):
                if dim not in whole:
                    given, made = ([dim if i == index else None for i in which] for which in (operands, results))
                    builder.factor(given, made, size)
        return builder.build()

    return rule


def _ragged_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions of rows pass through; rows, and slices of them, stay together."""
    group_size(info)
    builder = RuleBuilder([t.shape for t in info.operands], [t.shape for t in info.results], stage=Stage.ELEMENTWISE)
    for dim, size in list(enumerate(info.results[0].shape))[1:]:
        builder.factor([dim, dim, *[None] * (len(info.operands) - 2)], [dim], size)
    return builder.build()


_ALIKE = Traits(flops=MOVED, communicates=True)
_APART = Traits(flops=MOVED, communicates=True, diverges=True)
_DEVICE = Traits(flops=MOVED, fusion=Fusion.WITH_ALL_USERS, diverges=True)

OPS = op_table(
    OpDef(f"stablehlo.{name}", rule, replicable=False, traits=traits)
    for name, rule, traits in (
        ("all_gather", _along("all_gather_dim"), _ALIKE),
        ("all_reduce", _along(), dataclasses.replace(_ALIKE, in_place=True)),
        ("all_to_all", _along("split_dimension", "concat_dimension"), _APART),
        ("collective_broadcast", _along(), _APART),
        ("collective_permute", _along(), dataclasses.replace(_APART, in_place=True)),
        ("reduce_scatter", _along("scatter_dimension"), _APART),
        ("partition_id", _along(), _DEVICE),
        ("replica_id", _along(), _DEVICE),
    )
)

CALLS = op_table([OpDef(RAGGED, _ragged_rule, replicable=False, traits=_APART)])
"""Custom calls that are collectives, by target."""
