"""Elementwise operations."""

from __future__ import annotations

import math

from gspmd.dialect.rule import OpShardingRule, RuleBuilder, Stage
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ops.op_definition import OpDef, op_table
from gspmd.transforms.ops.traits import MOVED, Flops, Fusion, Traits


def elementwise_rule(info: OpInfo) -> OpShardingRule:
    """One factor per dimension; operands of rank 0 (a scalar predicate or clamp bound) have none."""
    shape = info.results[0].shape
    operands = [t.shape for t in info.operands]
    builder = RuleBuilder(operands, [t.shape for t in info.results], stage=Stage.ELEMENTWISE)
    for dim, size in enumerate(shape):
        builder.factor([dim if s else None for s in operands], [dim] * len(info.results), size)
    return builder.build()


def broadcasting_rule(info: OpInfo) -> OpShardingRule:
    """As elementwise; dimensions that an operand lacks, or that have one element, are only in the result."""
    shape = info.results[0].shape
    operands = [t.shape for t in info.operands]
    given = info.ints("broadcast_dimensions")
    builder = RuleBuilder(operands, [shape], stage=Stage.ELEMENTWISE)

    def source(operand: tuple[int, ...], dim: int) -> int | None:
        last = range(len(shape) - len(operand), len(shape))
        places = list(given) if len(given) == len(operand) < len(shape) else list(last)
        found = places.index(dim) if dim in places else None
        return found if found is not None and operand[found] == shape[dim] else None

    for dim, size in enumerate(shape):
        builder.factor([source(operand, dim) for operand in operands], [dim], size)
    return builder.build()


def bitcast_convert_rule(info: OpInfo) -> OpShardingRule:
    """A last dimension that holds the parts of wider elements cannot be split."""
    operand, result = info.operands[0].shape, info.results[0].shape
    builder = RuleBuilder([operand], [result], stage=Stage.ELEMENTWISE)
    for dim, size in enumerate(operand if len(operand) < len(result) else result):
        builder.factor([dim], [dim], size)
    return builder.build()


_STABLEHLO = """
abs add and atan2 cbrt ceil clamp compare complex convert cosine count_leading_zeros divide exponential
exponential_minus_one floor imag is_finite log log_plus_one logistic map maximum minimum multiply negate not
or popcnt power real reduce_precision remainder round_nearest_afz round_nearest_even rsqrt select
shift_left shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh xor
"""
_CHLO = """
_asin_acos_kernel acos acosh asin asinh atan atanh bessel_i1e conj constant_like cosh digamma erf erf_inv erfc
is_inf is_neg_inf is_pos_inf lgamma mulhi next_after polygamma sinh square tan zeta
"""
_BROADCASTING = """
add and atan2 compare complex divide maximum minimum multiply next_after or polygamma power remainder select
shift_left shift_right_arithmetic shift_right_logical subtract xor zeta
"""

# Linear in one operand, or in both.
_LINEAR = {
    "add": ((0, 1),),
    "subtract": ((0, 1),),
    "negate": ((0,),),
    "multiply": ((0,), (1,)),
    "divide": ((0,),),
}
_COMMUTATIVE = frozenset({"add", "and", "maximum", "minimum", "multiply", "or", "xor"})
_MADE = Flops("elementwise", lambda info: float(sum(math.prod(t.shape) for t in info.results[:1])))


def _traits(name: str) -> Traits:
    """Of an operation of StableHLO."""
    return Traits(
        elementwise=True,
        linear=_LINEAR.get(name, ()),
        floats_only=name == "divide",
        commutes=name in _COMMUTATIVE,
        flops=MOVED if name == "convert" else _MADE,
        fusion=Fusion.WITH_USER,
    )


_OF_CHLO = Traits(elementwise=True, flops=_MADE, fusion=Fusion.WITH_USER)
_BITCAST = Traits(elementwise=True, flops=MOVED, view=True)

OPS = op_table(
    [OpDef(f"stablehlo.{name}", elementwise_rule, traits=_traits(name)) for name in _STABLEHLO.split()]
    + [OpDef(f"chlo.{name}", elementwise_rule, traits=_OF_CHLO) for name in _CHLO.split()]
    + [OpDef(f"chlo.broadcast_{name}", broadcasting_rule, traits=_OF_CHLO) for name in _BROADCASTING.split()]
    + [OpDef("stablehlo.bitcast_convert", bitcast_convert_rule, traits=_BITCAST)]
)
