"""Comparisons of unknown integers with known numbers, as ranges that hold or do not hold an integer.

A device with a shard of a table looks up indices relative to the start of the shard, clamps them, and takes zeros for
indices outside it. A sum, a difference or a clamp of an integer is within a range just where that integer is within
another range. So all such conditions become ranges of the index of the given program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from gspmd.verification import index_maps, numbers
from gspmd.verification.algebra import Algebra
from gspmd.verification.blocks import ANY
from gspmd.verification.index_maps import IndexMap, pointwise, pointwise_known, takes, where
from gspmd.verification.terms import CHOICE, CONSTANT, INDEX, RANGE, Instance, TermTable
from gspmd.verification.values import SymbolicValue

NOT = "stablehlo.not"
_CLAMP, _CONVERT = "stablehlo.clamp", "stablehlo.convert"
_MIRRORED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "EQ", "NE": "NE"}
_EXACT = 2**61  # sums of a few integers that are smaller do not overflow in 64 bits


class Ranges(Algebra):
    """Makes values, with comparisons of integers with known numbers in normal form."""

    def __init__(self, terms: TermTable) -> None:
        super().__init__(terms)
        self._limits: dict[Instance, tuple[IndexMap, IndexMap]] = {}
        self._within: dict[tuple[Instance, tuple[int, ...], IndexMap, IndexMap], SymbolicValue] = {}

    def compared(self, direction: str, values: Sequence[SymbolicValue]) -> SymbolicValue | None:
        """A comparison of integers; None if none is known, or both are."""
        left, right = values
        if self.known(left) is not None:
            left, right, direction = right, left, _MIRRORED[direction]
        number = self.known(right)
        if number is None or self.known(left) is not None or not is_exact(number):
            return None
        least, most = (index_maps.constant(limit) for limit in limits_of_type(left.element))
        if direction in ("GT", "LT"):
            number = pointwise_known(lambda n: n + (1 if direction == "GT" else -1), number)
        if direction in ("GE", "GT"):
            return self.within(left, number, most)
        if direction in ("LE", "LT"):
            return self.within(left, least, number)
        made = self.equal(left, number)
        return made if direction == "EQ" else self.elementwise((NOT,), "i1", [made])

    def equal(self, value: SymbolicValue, number: IndexMap) -> SymbolicValue:
        """Whether integers are these numbers."""
        return self.within(value, number, number)

    def within(self, value: SymbolicValue, low: IndexMap, high: IndexMap) -> SymbolicValue:
        """Whether integers are within ranges, with their ends; an end beyond all integers of the type is no end."""
        key = (value.instance, value.shape, low, high)
        if key not in self._within:
            self._within[key] = self._made_within(dataclasses.replace(value, valid=()), low, high)
        made = self._within[key]
        return self.of(made.instance, made.shape, [*made.valid, *value.valid])

    def _made_within(self, value: SymbolicValue, low: IndexMap, high: IndexMap) -> SymbolicValue:
        shape, known = value.shape, self.known(value)
        if known is not None:
            known = _clipped(known, value.element)
            return self.number(pointwise_known(lambda n, a, b: (a <= n) & (n <= b), known, low, high), "i1", shape)
        limits = self.limits(value)
        low, high = pointwise_known(np.maximum, low, limits[0]), pointwise_known(np.minimum, high, limits[1])

        def how(a: Any, b: Any, least: Any, most: Any) -> Any:
            return np.where(a > b, 0, np.where((a == least) & (b == most), 1, 2))

        which = pointwise_known(how, low, high, *limits)
        leaves = [self.number(index_maps.constant(holds), "i1", shape) for holds in (0, 1)]
        if which.is_constant and which.value < 2:
            return leaves[which.value == 1]
        low, high = (pointwise(lambda n, w: np.where(w == 2, n, ANY), each, which) for each in (low, high))
        made = self._of_inner(value, low, high)
        return self.of(self.terms.choice(which, [each.instance for each in (*leaves, made)]), shape)

    def _of_inner(self, value: SymbolicValue, low: IndexMap, high: IndexMap) -> SymbolicValue:
        """The same for ranges that are neither empty nor everything, of an integer that it is computed from."""
        element, shape = value.element, value.shape
        if element == "i1":
            no = self.elementwise((NOT,), "i1", [value])
            return self.choice(pointwise(lambda n: np.where(n == ANY, ANY, n == 1), low), value, no)
        if self._keeps_numbers(value):
            return self.within(self.part(value, 0), low, high)
        if (limits := self._clamp_limits(value)) is not None:
            part = self.part(value, 1)
            least, most = self.limits(part)
            low = pointwise_known(lambda n, limit, end: np.where(n <= limit, end, n), low, limits[0], least)
            high = pointwise_known(lambda n, limit, end: np.where(n >= limit, end, n), high, limits[1], most)
            return self.within(part, low, high)
        for sign, inner, ends in ((1, self._shifted(value), (low, high)), (-1, self._reflected(value), (high, low))):
            if inner is None or not all(map(is_exact, (inner[1], *ends))):
                continue
            moved = [
                pointwise_known(lambda n, o, sign=sign: numbers.wrapped(sign * (n - o), element), end, inner[1])
                for end in ends
            ]
            # a range that is empty where it does not matter may stay so
            if 1 not in pointwise_known(lambda a, b, c, d: (a <= b) & (c > d), low, high, *moved).taken:
                return self.within(inner[0], *moved)
        return self.of(self.terms.make((RANGE,), "i1", [value.instance], [(INDEX, low), (INDEX, high)]), shape)

    def ends(self, condition: SymbolicValue) -> tuple[SymbolicValue, IndexMap, IndexMap] | None:
        """The integer of a condition that is a range, if not everything, and its ends."""
        if condition.term.kind == CHOICE and len(parts := self.leaves(condition)) == 2:
            number = next((i for i in range(2) if parts[1 - i].term.kind == CONSTANT), 0)
            found, known = self.ends(parts[number]), self.known(parts[1 - number])
            if found is not None and known is not None and known.is_constant and known.value == 1:
                here = takes(self.selector(condition), number)
                least, most = self.limits(found[0])
                return found[0], where(here, found[1], least), where(here, found[2], most)
        if condition.term.kind != RANGE:
            return None
        low, high = (condition.maps[ref] if isinstance(ref, int) else ref for ref in condition.term.own)
        assert isinstance(low, IndexMap)
        assert isinstance(high, IndexMap)
        return self.part(condition, 0), low, high

    def outside(self, condition: SymbolicValue) -> SymbolicValue | None:
        """The opposite of a range, if that is one; None otherwise."""
        found = self.ends(condition)
        if found is None:
            return None
        value, low, high = found
        least, most = self.limits(value)
        below, above = pointwise_known(np.less, least, low), pointwise_known(np.less, high, most)
        if 1 in pointwise_known(np.logical_and, below, above).taken:
            return None
        under = self.within(value, least, pointwise_known(lambda n: n - 1, low))
        return self.choice(below, under, self.within(value, pointwise_known(lambda n: n + 1, high), most))

    # ---- what an integer may be ----

    def range_of(self, value: SymbolicValue) -> tuple[int, int]:
        """The bounds of an integer, both included, on all devices and at all indices."""
        low, high = ((each.bounds() or (0, 0))[i] for i, each in enumerate(self.limits(value)))
        (least, most), ends = numbers.range_of_type(value.element), limits_of_type(value.element)
        return least if low == ends[0] else low, most if high == ends[1] else high

    def limits(self, value: SymbolicValue) -> tuple[IndexMap, IndexMap]:
        """The bounds of an integer, both included, by device and index."""
        if value.instance not in self._limits:
            self._limits[value.instance] = self._made_limits(value)
        return self._limits[value.instance]

    def _made_limits(self, value: SymbolicValue) -> tuple[IndexMap, IndexMap]:
        if (known := self.known(value)) is not None:
            known = _clipped(known, value.element)
            return known, known
        if self._keeps_numbers(value):
            return self.limits(self.part(value, 0))
        if value.term.kind == CHOICE:
            which, (found, *others) = self.selector(value), [self.limits(leaf) for leaf in self.leaves(value)]
            for number, each in enumerate(others, start=1):
                here = takes(which, number)
                found = where(here, each[0], found[0]), where(here, each[1], found[1])
            return found
        if (clamp := self._clamp_limits(value)) is not None:
            low, high = (
                pointwise_known(lambda n, a, b: np.minimum(np.maximum(n, a), b), each, *clamp)
                for each in self.limits(self.part(value, 1))
            )
            return low, high
        if (shifted := self._shifted(value)) is not None and self._is_exact_sum(*shifted, value.element):
            low, high = (pointwise_known(np.add, each, shifted[1]) for each in self.limits(shifted[0]))
            return low, high
        least, most = limits_of_type(value.element)
        return index_maps.constant(least), index_maps.constant(most)

    def _keeps_numbers(self, value: SymbolicValue) -> bool:
        """Whether a value is an integer, converted to a type that has it."""
        if value.term.kind != _CONVERT or not numbers.bits_of((part := self.part(value, 0)).element):
            return False
        (low, high), (least, most) = self.range_of(part), numbers.range_of_type(value.element)
        return least <= low and high <= most

    def _is_exact_sum(self, part: SymbolicValue, offset: IndexMap, element: str) -> bool:
        (least, most), (low, high) = self.range_of(part), numbers.range_of_type(element)
        given = offset.bounds()
        return given is None or (low <= least + given[0] and most + given[1] <= high)

    def _shifted(self, value: SymbolicValue) -> tuple[SymbolicValue, IndexMap] | None:
        """The unknown and the known operand of a sum; None for other values."""
        kind = value.term.kind
        if kind not in ("stablehlo.add", "stablehlo.subtract") or value.element == "i1":
            return None
        parts = [self.part(value, 0), self.part(value, 1)]
        known = [self.known(part) for part in parts]
        if kind == "stablehlo.add" and known[0] is not None:
            return parts[1], known[0]
        if known[1] is None:
            return None
        if kind == "stablehlo.add":
            return parts[0], known[1]
        return parts[0], pointwise_known(np.negative, known[1])

    def _reflected(self, value: SymbolicValue) -> tuple[SymbolicValue, IndexMap] | None:
        """The unknown and the known operand of `known - unknown`; None for other values."""
        if value.term.kind == "stablehlo.negate":
            return self.part(value, 0), index_maps.constant(0)
        if value.term.kind != "stablehlo.subtract":
            return None
        known = self.known(self.part(value, 0))
        return None if known is None else (self.part(value, 1), known)

    def _clamp_limits(self, value: SymbolicValue) -> tuple[IndexMap, IndexMap] | None:
        """The known limits of a clamp, if the lower one is nowhere the larger one; None for other values."""
        if value.term.kind != _CLAMP:
            return None
        low, high = self.known(self.part(value, 0)), self.known(self.part(value, 2))
        if low is None or high is None or not (is_exact(low) and is_exact(high)):
            return None
        if 1 in pointwise_known(np.greater, low, high).taken:
            return None
        return low, high


def limits_of_type(element: str) -> tuple[int, int]:
    """The bounds of a type; of 64 bits, those of exact numbers, which stand for all integers beyond these."""
    least, most = numbers.range_of_type(element)
    return max(least, -_EXACT), min(most, _EXACT)


def _clipped(number: IndexMap, element: str) -> IndexMap:
    """Numbers, which compare with exact ones as before, within the bounds of their type."""
    if is_exact(number):
        return number
    least, most = limits_of_type(element)
    return pointwise_known(lambda n: np.minimum(np.maximum(n, least), most), number)


def is_exact(number: IndexMap) -> bool:
    """Whether sums and differences of two such numbers are exact in 64 bits."""
    given = number.bounds()
    return given is None or (given[0] > -_EXACT and given[1] < _EXACT)
