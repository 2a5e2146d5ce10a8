"""Reductions: the StableHLO operation of each, and its neutral element for every element type."""

from __future__ import annotations

import math
import struct
from typing import TypeAlias

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.transforms.ir.op_info import BROADCAST, COMBINER_OF, CONSTANT
from gspmd.transforms.ir.operations import Block, Value

Number: TypeAlias = int | float | str
"""A number of a constant, or a word for `splat`."""

Fill: TypeAlias = Value | Number
"""The fill for missing elements: a scalar value, or a number or word for `splat`."""

_OPERATIONS = {combiner: operation for operation, combiner in COMBINER_OF.items()}
_IDENTITIES: dict[str, Number] = {
    "add": -0.0, "mul": 1, "max": "lowest", "min": "highest", "and": "ones", "or": 0, "xor": 0,
}  # fmt: skip


def reducer_operation(combiner: str) -> str:
    """The StableHLO operation of a reduction."""
    return _OPERATIONS[combiner]


def combiner_of(reducer: Block) -> str | None:
    """The combiner of a reducer's block; None if it is not a single operation on both values."""
    operations = list(reducer)
    if len(operations) != 2 or list(operations[1].operands) != [operations[0].results[0]]:
        return None
    if {*operations[0].operands} != {*reducer.arguments}:
        return None
    return COMBINER_OF.get(operations[0].name)


def identity_of(combiner: str) -> Number:
    """The neutral element, as a number or word for `splat`.

    That of add is -0.0: adding +0.0 would turn -0.0 into +0.0.
    """
    return _IDENTITIES[combiner]


def is_identity(init: Value, reducer: str) -> bool:
    """Whether an initial value is known to be the neutral element."""
    words = (0.0, -0.0) if reducer == "add" else (identity_of(reducer),)
    return any(is_splat(init, word) for word in words)


def is_zero(value: Value) -> bool:
    """Whether all elements are known to be zero, of either sign: a constant, or broadcast from one."""
    return is_identity(_broadcast_from(value), "add")


def is_constant(value: Value) -> bool:
    """Whether a value is a constant, or broadcast from one."""
    op = _broadcast_from(value).op
    return op is not None and not op.operands and "value" in op.attributes


def is_one_number(value: Value) -> bool:
    """Whether all elements of a value are equal: a scalar, or broadcast from one."""
    return not _broadcast_from(value).type.shape


def _broadcast_from(value: Value) -> Value:
    while value.op is not None and value.op.name == BROADCAST:
        value = value.op.operands[0]
    return value


def partial_combiner(element: str) -> str:
    """The reduction for partial results of which all but one are the neutral element."""
    return "or" if element == "i1" else "add"


def splat(type_: ir.Type, value: Number) -> ir.Attribute:
    """The attribute of a splat constant of tensor type `type_`.

    The value is a number or a word: `lowest` (the identity of max: -inf for floats that have it), `highest` (of min),
    `ones` (all bits set, of and) or `zero`. Complex types are not supported: the bindings have no attributes for them.
    """
    element = ir.RankedTensorType(type_).element_type
    if value == "zero":
        value = 0
    return ir.DenseElementsAttr.get_splat(type_, _scalar(element, value))


def is_splat(value: Value, word: Number) -> bool:
    """Whether a value is the splat constant of this number or word; False for complex ones."""
    op = value.op
    if op is None or op.name != CONSTANT:
        return False
    found = op.attributes["value"]  # which the bindings cannot read if it is complex
    return isinstance(found, ir.DenseElementsAttr) and bool(found == splat(found.type, word))


def _scalar(element: ir.Type, value: Number) -> ir.Attribute:
    if isinstance(element, ir.IntegerType):
        return ir.IntegerAttr.get(element, _integer(ir.IntegerType(element), value))
    if str(element).endswith("FNUZ"):
        value = value or 0.0  # these types have no -0.0
    limits = _FINITE.get(str(element))
    if limits and value in ("lowest", "highest"):
        value = limits[value == "highest"]
    if str(element) == "f8E8M0FNU" and value == 0:
        raise Unsupported(
            "type 'f8E8M0FNU' has no zero, which parts of uneven or partial values are filled up with",
            hint="convert to another type before, or split evenly",
            code=Code.OPERATION,
        )
    number = float(value if limits else _INFINITE.get(str(value), value))
    return ir.FloatAttr.get(element, number, ir.Location.unknown(element.context))


_INFINITE = {"lowest": -math.inf, "highest": math.inf}
# The minimum and maximum of types without infinities.
_FINITE = {
    "f8E4M3FN": (-448.0, 448.0),
    "f8E4M3FNUZ": (-240.0, 240.0),
    "f8E5M2FNUZ": (-57344.0, 57344.0),
    "f8E4M3B11FNUZ": (-30.0, 30.0),
    "f8E8M0FNU": (2.0**-127, 2.0**127),
    "f6E2M3FN": (-7.5, 7.5),
    "f6E3M2FN": (-28.0, 28.0),
    "f4E2M1FN": (-6.0, 6.0),
}


def _integer(element: ir.IntegerType, value: Number) -> int:
    bits = element.width
    signed = not element.is_unsigned and bits > 1
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    number = {"lowest": low, "highest": high, "ones": -1 if signed else high}.get(str(value), value)
    if bits == 1 and number == 1:
        return -1
    if not signed and number >= 2 ** (bits - 1) and bits == 64:
        return int(struct.unpack("q", struct.pack("Q", number))[0])
    return int(number)
