"""rng_bit_generator: bits that depend on the whole shape, so every device makes them all."""

from __future__ import annotations

from gspmd.dialect.rule import OpShardingRule, RuleBuilder
from gspmd.transforms.support.op_definition import OpDef, op_table
from gspmd.transforms.support.op_info import OpInfo


def rng_bit_generator_rule(info: OpInfo) -> OpShardingRule:
    """Nothing can be split: which bits an element gets depends on the shape."""
    return RuleBuilder([t.shape for t in info.operands], [t.shape for t in info.results]).build()


OPS = op_table([OpDef("stablehlo.rng_bit_generator", rng_bit_generator_rule)])
