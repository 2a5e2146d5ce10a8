"""dot_general and ragged_dot: contraction of two tensors."""

from __future__ import annotations

from jaxlib.mlir.dialects import chlo, stablehlo

from gspmd.dialect.rule import NEED_REPLICATION, PASS_THROUGH, REDUCTION, OpShardingRule, RuleBuilder
from gspmd.transforms.support.local_op import LocalOp
from gspmd.transforms.support.op_definition import OpDef, op_table
from gspmd.transforms.support.op_info import OpInfo


def dot_general_rule(info: OpInfo) -> OpShardingRule:
    """Batch and free dimensions pass through; contracted ones leave partial sums."""
    numbers = stablehlo.DotDimensionNumbers(info.attributes["dot_dimension_numbers"])
    lhs, rhs = info.operands[0].shape, info.operands[1].shape
    builder = RuleBuilder([lhs, rhs], [info.results[0].shape])
    batch = list(zip(numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions, strict=True))
    contracted = list(zip(numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions, strict=True))
    out = 0
    for left, right in batch:
        builder.factor([left, right], [out], lhs[left])
        out += 1
    for dim in range(len(lhs)):
        if dim not in {left for left, _ in batch + contracted}:
            builder.factor([dim, None], [out], lhs[dim])
            out += 1
    for dim in range(len(rhs)):
        if dim not in {right for _, right in batch + contracted}:
            builder.factor([None, dim], [out], rhs[dim])
            out += 1
    for left, right in contracted:
        builder.factor([left, right], [None], lhs[left], REDUCTION)
    return builder.build()


def localize_dot_general(op: LocalOp) -> None:
    """Padding along contracted dimensions is made zero on both sides: 0 times unknown may be NaN."""
    for operand in range(2):
        for factor in op.reduction_factors():
            dim = op.operand_dim(operand, factor)
            if dim is not None:
                op.mask_operand(operand, dim, "zero")
    op.keep()


def ragged_dot_rule(info: OpInfo) -> OpShardingRule:
    """As dot_general, but the dimension of which groups are taken is whole, and so are the groups.

    Which group a row is in depends on the sizes of all groups before it. Sizes that differ from row to row (a
    tensor of them, not a list) make everything whole but the free dimensions of the right side.
    """
    numbers = chlo.RaggedDotDimensionNumbers(info.attributes["ragged_dot_dimension_numbers"])
    lhs, rhs, sizes = (t.shape for t in info.operands)
    ragged = set(numbers.lhs_ragged_dimensions) if len(sizes) == 1 else set(range(len(lhs)))
    groups = set(numbers.rhs_group_dimensions)
    batch = list(zip(numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions, strict=True))
    contracted = list(zip(numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions, strict=True))
    builder = RuleBuilder([lhs, rhs, sizes], [info.results[0].shape])
    # Groups of what is contracted are the leading dimension of the result.
    out = 1 if any(left in numbers.lhs_ragged_dimensions for left, _ in contracted) else 0
    for left, right in batch:
        builder.factor([left, right, None], [out], lhs[left], NEED_REPLICATION if left in ragged else PASS_THROUGH)
        out += 1
    for dim, size in enumerate(lhs):
        if dim not in {left for left, _ in batch + contracted}:
            builder.factor([dim, None, None], [out], size, NEED_REPLICATION if dim in ragged else PASS_THROUGH)
            out += 1
    for dim, size in enumerate(rhs):
        if dim not in groups and dim not in {right for _, right in batch + contracted}:
            builder.factor([None, dim, None], [out], size)
            out += 1
    for left, right in contracted:
        kind = NEED_REPLICATION if left in ragged else REDUCTION
        builder.factor([left, right, None], [None], lhs[left], kind)
    return builder.build()


OPS = op_table(
    [
        OpDef("stablehlo.dot_general", dot_general_rule, localize_dot_general),
        OpDef("chlo.ragged_dot", ragged_dot_rule, localize_dot_general),
    ]
)
