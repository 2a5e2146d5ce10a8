"""dot_general: contraction of two tensors."""

from __future__ import annotations

from jaxlib.mlir.dialects import stablehlo

from gspmd.dialect.rule import REDUCTION, OpShardingRule, RuleBuilder
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


OPS = op_table([OpDef("stablehlo.dot_general", dot_general_rule, localize_dot_general)])
