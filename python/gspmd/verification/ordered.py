"""Floats as integers of the same order: all-reduces take their maximum or minimum in this form to keep NaN.

The integer of a float is its bits; if the sign bit is set, all other bits are inverted. NaN is the largest (or the
least) integer. So the largest integer belongs to the largest float.
"""

from __future__ import annotations

from gspmd.verification import index_maps
from gspmd.verification.algebra import BITCAST, ORDERED, Algebra
from gspmd.verification.numbers import bits_of, is_float, range_of_type
from gspmd.verification.values import SymbolicValue


def as_ordered(
    algebra: Algebra, condition: SymbolicValue, beyond: SymbolicValue, number: SymbolicValue
) -> SymbolicValue | None:
    """`condition ? beyond : number` as the ordered integer of a float, if it is one."""
    term = condition.term
    if term.kind != "stablehlo.compare" or term.operation[1] != "NE" or not is_float(term.parts[0].element):
        return None
    value, again = algebra.part(condition, 0), algebra.part(condition, 1)
    limit = algebra.known(beyond)
    bits = bits_of(number.element)
    if value.instance != again.instance or limit is None or not limit.is_constant or bits is None or bits < 8:
        return None
    limits = range_of_type(number.element)
    if limit.value not in limits:
        return None
    cast = algebra.elementwise((BITCAST,), number.element, [value])
    if turned(algebra, cast).instance != number.instance:
        return None
    return algebra.elementwise((ORDERED, limits.index(limit.value)), number.element, [value])


def turned(algebra: Algebra, bits: SymbolicValue) -> SymbolicValue:
    """The bits, with all but the sign bit inverted if the sign bit is set."""
    width = bits_of(bits.element)
    assert width is not None

    def number(value: int) -> SymbolicValue:
        return algebra.number(index_maps.constant(value), bits.element, bits.shape)

    signs = algebra.elementwise(("stablehlo.shift_right_arithmetic",), bits.element, [bits, number(width - 1)])
    others = algebra.elementwise(("stablehlo.and",), bits.element, [signs, number(2 ** (width - 1) - 1)])
    return algebra.elementwise(("stablehlo.xor",), bits.element, [bits, others])


def from_ordered(algebra: Algebra, value: SymbolicValue) -> SymbolicValue | None:
    """The float whose bits a value is, if they were computed from its ordered integer."""
    if value.term.kind != "stablehlo.xor":
        return None
    for number in range(2):
        part = algebra.part(value, number)
        if part.term.kind == ORDERED and turned(algebra, part).instance == value.instance:
            return algebra.part(part, 0)
    return None
