"""What devices say to each other and ask about themselves: only in manual computations, where the user writes it.

There these operations work along manual axes; free axes may split any dimension that they do not put together or
take apart, and their groups name all devices already, so they stay as they are.
"""

from __future__ import annotations

from gspmd.dialect.rule import OpShardingRule, RuleBuilder, Stage
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ops.op_definition import OpDef, RuleFunction, op_table


def _along(*attributes: str) -> RuleFunction:
    """The rule of an operation that passes all dimensions through but those that its attributes name."""

    def rule(info: OpInfo) -> OpShardingRule:
        whole = {info.integer(name) for name in attributes}
        builder = RuleBuilder(
            [t.shape for t in info.operands], [t.shape for t in info.results], stage=Stage.ELEMENTWISE
        )
        count = len(info.operands)
        for index, type_ in enumerate(info.operands):
            for dim, size in enumerate(type_.shape):
                if dim not in whole:
                    only = [dim if i == index else None for i in range(count)]
                    builder.factor(only, only, size)
        return builder.build()

    return rule


_COLLECTIVES = {
    "all_gather": _along("all_gather_dim"),
    "all_reduce": _along(),
    "all_to_all": _along("split_dimension", "concat_dimension"),
    "collective_broadcast": _along(),
    "collective_permute": _along(),
    "reduce_scatter": _along("scatter_dimension"),
}
_DEVICES = {"partition_id": _along(), "replica_id": _along()}

OPS = op_table(OpDef(f"stablehlo.{name}", rule, replicable=False) for name, rule in (_COLLECTIVES | _DEVICES).items())
