"""Refused operations, each with its reason: they do not occur in single-device programs with static shapes."""

from __future__ import annotations

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.rule import OpShardingRule
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ops.op_definition import OpDef, op_table
from gspmd.transforms.ops.traits import PLAIN, Traits

_COLLECTIVE = (
    "communicates between devices",
    "give a program for one device, or put it into a manual computation",
)
_DYNAMIC = ("has a shape or bounds that are known only when it runs", "export the program with static shapes")
_HOST = ("exchanges data with the host", "pass the data as arguments and results of '@main'")
_QUANTIZED = (
    "has quantized types, which jaxlib has no dialect for",
    "write the quantization as arithmetic on integers",
)
_DEPRECATED = ("is deprecated", "use 'stablehlo.transpose' and 'stablehlo.reduce'")

_REASONS: dict[tuple[str, str], str] = {
    _COLLECTIVE: "async_done async_start collective_reduce cross-replica-sum",
    _DYNAMIC: """dynamic_broadcast_in_dim dynamic_conv dynamic_gather dynamic_iota dynamic_pad dynamic_reshape
                 real_dynamic_slice set_dimension_size get_dimension_size""",
    _HOST: "infeed outfeed",
    _DEPRECATED: "unary_einsum",
    _QUANTIZED: "uniform_dequantize uniform_quantize",
}
_CODES = {_COLLECTIVE: Code.COMMUNICATION, _DYNAMIC: Code.DYNAMIC_SHAPE, _HOST: Code.HOST}


def _refuse(info: OpInfo) -> OpShardingRule:
    """Raises Unsupported, always."""
    reason, hint = refused = REFUSED[info.name]
    raise Unsupported(reason, hint=hint, code=_CODES.get(refused, Code.OPERATION))


REFUSED = {f"stablehlo.{name}": reason for reason, names in _REASONS.items() for name in names.split()}

_TRAITS = {
    _COLLECTIVE: Traits(pure=False, communicates=True, diverges=True),
    _HOST: Traits(pure=False, effects=True, diverges=True),
}

OPS = op_table(
    OpDef(name, _refuse, replicable=reason is _DEPRECATED, traits=_TRAITS.get(reason, PLAIN))
    for name, reason in REFUSED.items()
)
