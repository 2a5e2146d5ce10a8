"""Values as integers of whole bytes, which a sum with zeros does not change.

A value of one device is broadcast as a sum. As floats, -0.0 would become 0.0, a NaN might change, and a type may have
no zero. A token represents itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.types import TensorType, element_bytes

_INTEGERS = ("i", "ui", "si")


def carriers(type_: TensorType) -> list[TensorType]:
    """The integer types for a value of this type: two for complex numbers, otherwise one."""
    element = type_.element
    if not type_.is_tensor:
        return [type_]
    if element.startswith("complex<"):
        return [carrier for carrier in carriers(_part(type_)) for _ in range(2)]
    if element == "i1":
        return [type_.of_element("ui8")]
    if element.startswith(_INTEGERS):
        return [type_ if element_bytes(element) >= 1 else type_.of_element(f"{element.rstrip('0123456789')}8")]
    return [type_.of_element(f"i{round(8 * element_bytes(_whole_bytes(element)))}")]


def carried(emit: Builder, value: Value) -> list[Value]:
    """The integers of a value."""
    if not value.type.is_tensor:
        return [value]
    type_ = value.type
    if type_.element.startswith("complex<"):
        parts = [emit.op(f"stablehlo.{name}", [value], [_part(type_)]) for name in ("real", "imag")]
        return [carrier for part in parts for carrier in carried(emit, part)]
    (carrier,) = carriers(type_)
    if type_.element == "i1" or type_.element.startswith(_INTEGERS):
        return [emit.convert(value, carrier.element)]
    return [emit.op("stablehlo.bitcast_convert", [emit.convert(value, _whole_bytes(type_.element))], [carrier])]


def delivered(emit: Builder, integers: Iterator[Value], type_: TensorType) -> Value:
    """The value represented by the next integers."""
    if type_.element.startswith("complex<"):
        return emit.op("stablehlo.complex", [delivered(emit, integers, _part(type_)) for _ in range(2)], [type_])
    value = next(integers)
    if not type_.is_tensor:
        return value
    if type_.element == "i1" or type_.element.startswith(_INTEGERS):
        return emit.convert(value, type_.element)
    wide = type_.of_element(_whole_bytes(type_.element))
    return emit.convert(emit.op("stablehlo.bitcast_convert", [value], [wide]), type_.element)


def _part(type_: TensorType) -> TensorType:
    """The type of the real and imaginary parts."""
    return type_.of_element(type_.element[len("complex<") : -1])


def _whole_bytes(element: str) -> str:
    """The float type of whole bytes that contains all values of this one; types of less than a byte have no NaN."""
    return element if element_bytes(element) >= 1 else "f32"
