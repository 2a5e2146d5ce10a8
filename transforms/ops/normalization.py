"""batch_norm_inference, batch_norm_training, batch_norm_grad: every feature is normalized alone."""

from __future__ import annotations

from gspmd.dialect.rule import OpShardingRule, RuleBuilder
from gspmd.transforms.support.op_definition import OpDef, op_table
from gspmd.transforms.support.op_info import OpInfo


def batch_norm_rule(info: OpInfo) -> OpShardingRule:
    """Features pass through. The rest does where no statistics are taken over it."""
    rank = info.operands[0].rank
    feature = info.integer("feature_index")
    operands, results = [t.shape for t in info.operands], [t.shape for t in info.results]
    builder = RuleBuilder(operands, results)

    def places(dim: int, shapes: list[tuple[int, ...]]) -> list[int | None]:
        """The dimension in whole tensors and, of features, in vectors."""
        vector = 0 if dim == feature else None
        return [dim if len(shape) == rank and (rank > 1 or dim == feature) else vector for shape in shapes]

    for dim, size in enumerate(info.operands[0].shape):
        if dim == feature or info.name == "stablehlo.batch_norm_inference":
            builder.factor(places(dim, operands), places(dim, results), size)
    return builder.build()


OPS = op_table([OpDef(f"stablehlo.batch_norm_{name}", batch_norm_rule) for name in ("inference", "training", "grad")])
