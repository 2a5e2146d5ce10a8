"""cholesky, triangular_solve and fft: batches of small problems, each of which one device solves."""

from __future__ import annotations

from gspmd.dialect.rule import OpShardingRule, RuleBuilder
from gspmd.transforms.support.op_definition import OpDef, op_table
from gspmd.transforms.support.op_info import OpInfo


def cholesky_rule(info: OpInfo) -> OpShardingRule:
    """Batch dimensions pass through."""
    shape = info.operands[0].shape
    builder = RuleBuilder([shape], [shape])
    for dim, size in enumerate(shape[:-2]):
        builder.factor([dim], [dim], size)
    return builder.build()


def triangular_solve_rule(info: OpInfo) -> OpShardingRule:
    """Batch dimensions pass through, and so do the right-hand sides, of which each is solved alone."""
    matrix, sides = info.operands[0].shape, info.operands[1].shape
    builder = RuleBuilder([matrix, sides], [sides])
    for dim, size in enumerate(matrix[:-2]):
        builder.factor([dim, dim], [dim], size)
    on_the_left = bool(info.attributes["left_side"].value)
    side = len(sides) - 1 if on_the_left else len(sides) - 2
    builder.factor([None, side], [side], sides[side])
    return builder.build()


def fft_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions that are not transformed pass through."""
    operand, result = info.operands[0].shape, info.results[0].shape
    builder = RuleBuilder([operand], [result])
    for dim, size in enumerate(operand[: len(operand) - len(info.ints("fft_length"))]):
        builder.factor([dim], [dim], size)
    return builder.build()


OPS = op_table(
    [
        OpDef("stablehlo.cholesky", cholesky_rule),
        OpDef("stablehlo.triangular_solve", triangular_solve_rule),
        OpDef("stablehlo.fft", fft_rule),
    ]
)
