"""Floats as integers in the same order, with NaN beyond all others.

On some platforms, an all-reduce by maximum or minimum drops NaN; a reduction on one device does not.
"""

from __future__ import annotations

from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.types import TensorType, element_bytes

# Types with a sign bit first and NaN as the largest bits.
_ORDERED = frozenset({"f64", "f32", "f16", "bf16", "f8E5M2", "f8E4M3FN", "f8E4M3", "f8E3M4"})


def has_ordered_bits(value: Value, combiner: str) -> bool:
    """Whether this reduction of the value is done on integers."""
    return combiner in ("max", "min") and value.type.element in _ORDERED


def ordered(emit: Builder, value: Value, combiner: str) -> Value:
    """Integers that compare as the floats, with -0.0 below 0.0; NaN is the result of every reduction with it."""
    type_ = value.type
    bits = type_.of_element(f"i{round(8 * element_bytes(type_.element))}")
    number = _turned(emit, emit.op("stablehlo.bitcast_convert", [value], [bits]))
    is_nan = emit.compare(value, "NE", value)
    beyond = emit.constant(bits, "highest" if combiner == "max" else "lowest")
    return emit.op("stablehlo.select", [is_nan, beyond, number], [bits])


def from_ordered(emit: Builder, bits: Value, like: Value) -> Value:
    """The floats for `ordered`, with the element type of `like`."""
    result = TensorType(bits.type.shape, like.type.element)
    return emit.op("stablehlo.bitcast_convert", [_turned(emit, bits)], [result])


def _turned(emit: Builder, bits: Value) -> Value:
    """Reverse the order of negative numbers: sign and magnitude to two's complement, or back."""
    type_ = bits.type
    width = int(type_.element[1:])
    signs = emit.binary("shift_right_arithmetic", bits, emit.constant(type_, width - 1))
    turned = emit.binary("and", signs, emit.constant(type_, 2 ** (width - 1) - 1))
    return emit.binary("xor", bits, turned)
