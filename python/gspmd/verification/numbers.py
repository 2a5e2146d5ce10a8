"""Known numbers: their types, and operations on them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gspmd.verification.blocks import ANY, Blocks
from gspmd.verification.index_maps import IndexMap, Integers, pointwise, pointwise_known
from gspmd.verification.not_known import NotKnown

Compute = Callable[..., Any]


def bits_of(element: str) -> int | None:
    """The width of an integer type, 1 of booleans; None for any other type."""
    digits = element.removeprefix("u").removeprefix("i")
    return int(digits) if digits.isdigit() and element.startswith(("i", "ui")) else None


def range_of_type(element: str) -> tuple[int, int]:
    """The least and the largest integer of a type."""
    bits = bits_of(element)
    assert bits is not None
    if bits == 1 or element.startswith("u"):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def wrapped(table: Integers, element: str) -> Integers:
    """Integers, wrapped around to the range of the type; unsigned ones of 64 bits are stored as signed ones."""
    bits = bits_of(element)
    assert bits is not None
    if bits >= 64:
        return table
    least, most = range_of_type(element)
    if isinstance(table, Blocks) and _is_within(table, least, most):
        return table
    return ((table - least) & ((1 << bits) - 1)) + least


def _is_within(table: Blocks, least: int, most: int) -> bool:
    low, high = table.bounds()
    return bool(((table.core == ANY) | ((low >= least) & (high <= most))).all())


def float_bits(value: float) -> int:
    """The integer that represents a float: its bits in double precision."""
    return int(np.array(value, np.float64).view(np.int64))


def is_float(element: str) -> bool:
    return element.startswith(("f", "bf", "tf"))


_FLOATS = {"bf16": (8, 8), "f16": (5, 11), "f32": (8, 24), "f64": (11, 53)}
"""Bits of exponent and of digits."""


def _logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


OF_FLOATS: dict[str, Compute] = {
    "stablehlo.add": np.add,
    "stablehlo.subtract": np.subtract,
    "stablehlo.multiply": np.multiply,
    "stablehlo.divide": np.divide,
    "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum,
    "stablehlo.power": np.power,
    "stablehlo.remainder": np.fmod,
    "stablehlo.atan2": np.arctan2,
    "stablehlo.negate": np.negative,
    "stablehlo.abs": np.abs,
    "stablehlo.sign": np.sign,
    "stablehlo.exponential": np.exp,
    "stablehlo.exponential_minus_one": np.expm1,
    "stablehlo.log": np.log,
    "stablehlo.log_plus_one": np.log1p,
    "stablehlo.logistic": _logistic,
    "stablehlo.tanh": np.tanh,
    "stablehlo.sine": np.sin,
    "stablehlo.cosine": np.cos,
    "stablehlo.tan": np.tan,
    "stablehlo.sqrt": np.sqrt,
    "stablehlo.cbrt": np.cbrt,
    "stablehlo.rsqrt": lambda x: 1 / np.sqrt(x),
    "stablehlo.floor": np.floor,
    "stablehlo.ceil": np.ceil,
    "stablehlo.square": np.square,
    "stablehlo.clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "stablehlo.is_finite": lambda x: np.isfinite(x).astype(np.int64),
}
"""Functions of floats, in double precision."""


def of_floats(name: str, element: str, operands: Sequence[int]) -> int | None:
    """A function of floats, rounded to their type; None for other functions and for results beyond its range.

    For arithmetic, this equals the result in the type itself: rounding twice is harmless, because double precision has
    at least two more than twice the digits of a narrower type.
    """
    if name not in OF_FLOATS or element not in _FLOATS:
        return None
    with np.errstate(all="ignore"):
        exact = float(OF_FLOATS[name](*(np.int64(bits).view(np.float64) for bits in operands)))
    exponent, digits = _FLOATS[element]
    fraction, power = np.frexp(exact)
    if not np.isfinite(exact) or (exact and abs(int(power)) >= 2 ** (exponent - 1) - 2):
        return None
    return float_bits(float(np.ldexp(np.rint(np.ldexp(fraction, digits)), int(power) - digits)))


def is_zero(bits: int, element: str) -> bool:
    """Whether a number is zero, of either sign."""
    return bits == 0 or (is_float(element) and bits == float_bits(-0.0))


def widens(source: str, target: str) -> bool:
    """Whether the target type has every number of the source type."""
    if source == "i1":
        return True
    if source in _FLOATS and target in _FLOATS:
        return all(a <= b for a, b in zip(_FLOATS[source], _FLOATS[target], strict=True))
    if bits_of(source) is None or bits_of(target) in (None, 1):
        return False
    (low, high), (least, most) = range_of_type(source), range_of_type(target)
    return least <= low and high <= most


_INFINITE = {"maximum": float("-inf"), "minimum": float("inf")}


def is_neutral(monoid: str, bits: int, element: str) -> bool:
    """Whether a number is the neutral element of a monoid."""
    if monoid in ("add", "or", "xor"):
        return is_zero(bits, element)
    if monoid in ("multiply", "and"):
        one = float_bits(1.0) if is_float(element) else -1 if monoid == "and" and element != "i1" else 1
        return bits == one
    if monoid in _INFINITE:
        if is_float(element):
            return bits == float_bits(_INFINITE[monoid])
        if bits_of(element) is None:
            return False
        least, most = range_of_type(element)
        return bits == (least if monoid == "maximum" else most)
    return False


def neutral(monoid: str, element: str) -> int | None:
    """The neutral element of a monoid, if it is a number."""
    candidates = [0, 1, -1, float_bits(1.0), *map(float_bits, _INFINITE.values())]
    if bits_of(element) is not None:
        candidates = [0, 1, -1, *range_of_type(element)]
    elif not is_float(element):
        candidates = [0]
    return next((bits for bits in candidates if is_neutral(monoid, bits, element)), None)


IDEMPOTENT = frozenset({"maximum", "minimum", "and", "or"})
OF_BOOLEANS = {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and"}
"""The operation on booleans that equals each of these."""


def _divide(a: Integers, b: Integers) -> Integers:
    safe = np.where(b == 0, 1, b)
    quotient = np.abs(a) // np.abs(safe) * np.sign(a) * np.sign(safe)
    return np.where(b == 0, ANY, quotient)


def _remainder(a: Integers, b: Integers) -> Integers:
    return np.where(b == 0, ANY, np.fmod(a, np.where(b == 0, 1, b)))


def _shift_left(a: Integers, b: Integers) -> Integers:
    return np.where((b < 0) | (b > 62), 0, a << np.clip(b, 0, 62))


def _clamp(low: Integers, a: Integers, high: Integers) -> Integers:
    return np.minimum(np.maximum(a, low), high)


_NOT_ALWAYS_DEFINED = ("stablehlo.divide", "stablehlo.remainder")
COMPARE: dict[str, Compute] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
_COMPUTE: dict[str, Compute] = {
    "stablehlo.add": np.add,
    "stablehlo.subtract": np.subtract,
    "stablehlo.multiply": np.multiply,
    "stablehlo.divide": _divide,
    "stablehlo.remainder": _remainder,
    "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum,
    "stablehlo.and": np.bitwise_and,
    "stablehlo.or": np.bitwise_or,
    "stablehlo.xor": np.bitwise_xor,
    "stablehlo.negate": np.negative,
    "stablehlo.abs": np.abs,
    "stablehlo.sign": np.sign,
    "stablehlo.shift_left": _shift_left,
    "stablehlo.clamp": _clamp,
    "stablehlo.select": lambda p, a, b: np.where(p == 1, a, b),
    "stablehlo.convert": lambda a: a,
}
OF_SIGNS = frozenset(
    f"stablehlo.{name}"
    for name in ("abs", "clamp", "compare", "convert", "divide", "maximum", "minimum", "remainder", "sign")
)
"""Operations on integers for which it matters that large unsigned ones of 64 bits are stored as signed ones."""


def _of_integers(operation: Sequence[Any], source: str, element: str) -> Compute | None:
    """The function that computes an operation on integers of type `source`, if it is known."""
    name, *rest = operation
    if name == "stablehlo.not":
        return (lambda a: 1 - a) if element == "i1" else np.invert
    if name == "stablehlo.compare" and "total" not in rest:
        return COMPARE[str(rest[0])]
    if name == "stablehlo.add" and element == "i1":
        return np.bitwise_or
    if name == "stablehlo.convert" and element == "i1":
        return lambda a: a != 0
    if source == "ui64" and name in ("stablehlo.divide", "stablehlo.remainder", "stablehlo.clamp"):
        return None
    return _COMPUTE.get(str(name))


def of_integers(operation: Sequence[Any], source: str, element: str, operands: Sequence[Integers]) -> Integers | None:
    """The result of an operation on integers, ANY where it is not defined; None if the operation is not known."""
    compute = _of_integers(operation, source, element)
    if compute is None or bits_of(element) is None:
        return None
    made = np.multiply(compute(*operands), 1)
    by_chance = (made == ANY) & ~functools.reduce(np.logical_or, [operand == ANY for operand in operands])
    found = by_chance.core if isinstance(by_chance, Blocks) else by_chance
    if operation[0] not in _NOT_ALWAYS_DEFINED and found.any():
        raise NotKnown(f"the integer {ANY}")
    return np.where(made == ANY, ANY, wrapped(made, element))


def computed(operation: Sequence[Any], source: str, element: str, operands: Sequence[IndexMap]) -> IndexMap | None:
    """The same for maps of integers; None if it is not defined somewhere. Raises TooLarge."""
    if operation[0] in _NOT_ALWAYS_DEFINED and 1 in pointwise(lambda b: b == 0, operands[1]).taken:
        return None
    if bits_of(source) is None or bits_of(element) is None or _of_integers(operation, source, element) is None:
        return None
    if operation[0] == "stablehlo.select":
        return pointwise(lambda p, a, b: np.where(p == ANY, ANY, np.where(p == 1, a, b)), *operands)

    return pointwise_known(lambda *tables: of_integers(operation, source, element, tables), *operands)
