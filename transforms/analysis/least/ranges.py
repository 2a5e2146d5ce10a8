"""Between which numbers the elements of a value lie while all arguments of numbers lie between 1 and 2.

These are enough to know of what is positive that it is, and which side a comparison takes. Every range is a little
larger than it has to be, for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jaxlib.mlir import ir

Range = tuple[float, float]
ANY: Range = (-math.inf, math.inf)
ARGUMENT: Range = (1.0, 2.0)
TRUE: Range = (1.0, 1.0)
FALSE: Range = (0.0, 0.0)
EITHER: Range = (0.0, 1.0)
_SLACK = 1e-6


def sign(range_: Range) -> int:
    """The sign of all numbers between, 0 if there is none."""
    return 1 if range_[0] > 0 else -1 if range_[1] < 0 else 0


def between(numbers: Sequence[float], scale: float = 0.0) -> Range:
    """The range of these numbers, with room for rounding of numbers as large as `scale`."""
    if any(map(math.isnan, numbers)) or math.isnan(scale):
        return ANY
    low, high = min(numbers), max(numbers)
    room = _SLACK * scale if math.isfinite(scale) else math.inf if scale else 0.0
    return low - room, high + room


def largest(*ranges: Range) -> float:
    return max(abs(end) for range_ in ranges for end in range_)


def add(a: Range, b: Range) -> Range:
    return between((a[0] + b[0], a[1] + b[1]), largest(a, b) if sign(a) != sign(b) or not sign(a) else 0.0)


def negate(a: Range) -> Range:
    return -a[1], -a[0]


def multiply(a: Range, b: Range) -> Range:
    return between([x * y for x in a for y in b])


def divide(a: Range, b: Range) -> Range:
    return between([x / y for x in a for y in b]) if sign(b) else ANY


def total(a: Range, count: int) -> Range:
    """The range of a sum of so many numbers."""
    return between((a[0] * count, a[1] * count)) if sign(a) else add(multiply(a, (count, count)), FALSE)


def either(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def monotone(function: Callable[[float], float], falling: bool = False) -> Callable[[Range], Range]:
    """The range of a monotone function of one number."""

    def of_range(a: Range) -> Range:
        ends = [_at(function, end) for end in a]
        return between(ends[::-1] if falling else ends)

    return of_range


def _at(function: Callable[[float], float], number: float) -> float:
    try:
        return function(number)
    except OverflowError:
        return math.inf
    except (ValueError, ZeroDivisionError):
        return math.nan


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def square(a: Range) -> Range:
    ends = [x * x for x in a]
    return between(ends if sign(a) else [0.0, *ends])


def compared(direction: str, a: Range, b: Range) -> Range:
    """Whether numbers of two ranges are in this relation."""
    if direction in ("GT", "GE"):
        return compared({"GT": "LT", "GE": "LE"}[direction], b, a)
    if direction in ("LT", "LE"):
        return TRUE if a[1] < b[0] else FALSE if a[0] > b[1] else EITHER
    apart = a[1] < b[0] or b[1] < a[0]
    return EITHER if not apart else FALSE if direction == "EQ" else TRUE


def of_constant(attribute: ir.Attribute) -> Range:
    """The range of a constant whose elements are all the same; that of another is not looked for."""
    if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat:
        return ANY
    element = attribute.get_splat_value()
    if isinstance(element, ir.IntegerAttr):
        number = float(element.value)
        return (number, number) if ir.IntegerType(element.type).width > 1 else (abs(number), abs(number))
    if isinstance(element, ir.FloatAttr):
        return between([float(element.value)])
    return ANY
