"""Compares a value with the wanted one, wherever the wanted one is known."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from gspmd.verification import index_maps
from gspmd.verification.blocks import ANY, Blocks
from gspmd.verification.conditions import Conditions
from gspmd.verification.index_maps import IndexMap, Label, TooLarge, pointwise
from gspmd.verification.not_known import NotKnown
from gspmd.verification.renewal import renewed
from gspmd.verification.terms import MASK
from gspmd.verification.values import SymbolicValue

_MAX_CASES = 32  # in which two values are compared


@dataclasses.dataclass(frozen=True, slots=True)
class Mismatch:
    """The reason that two values differ, and the place: digits of the device, and an index."""

    reason: str
    place: dict[Label, int]


UNLIKE = "it is computed differently"
ELSEWHERE = "it reads another element"
UNKNOWN_CONTENT = "an element outside the padding is unknown"


def difference(algebra: Conditions, wanted: SymbolicValue, found: SymbolicValue) -> Mismatch | None:
    """The first difference of a value from the wanted one, None if there is none."""
    for mask in found.valid:
        good = pointwise(lambda m, *others: _implied(m, others), mask, *wanted.valid)
        place = index_maps.disagreement(good, index_maps.constant(1))
        if place is not None:
            return Mismatch(UNKNOWN_CONTENT, place)
    seen = algebra.value(found.term, found.maps, found.shape, wanted.valid)
    first = _mismatch(algebra, wanted, seen)
    return None if first is None or _same_in_all_cases(algebra, wanted, seen) else first


def _mismatch(algebra: Conditions, wanted: SymbolicValue, seen: SymbolicValue) -> Mismatch | None:
    """The first difference of two normal forms."""
    pairs = algebra.terms.paired(wanted.instance, seen.instance)
    if pairs is None:
        return Mismatch(UNLIKE, {})
    for left, right in pairs:
        place = index_maps.disagreement(left, right)
        if place is not None:
            return Mismatch(ELSEWHERE, place)
    return None


def _same_in_all_cases(algebra: Conditions, wanted: SymbolicValue, seen: SymbolicValue) -> bool:
    """Whether two values are equal wherever the choices in them take the same parts, one case after the other.

    In each case they are computed again, without these choices.
    """
    cases = [(wanted, seen)]
    try:
        for _ in range(_MAX_CASES):
            if not cases:
                return True
            pair = [renewed(algebra, each) for each in cases.pop()]
            if _mismatch(algebra, *pair) is None:
                continue
            which = next(filter(None, map(_selector, pair)), None)
            if which is None:
                return False
            for number in which.taken:
                here = functools.partial(_taking, number)
                left, right = (algebra.value(v.term, v.maps, v.shape, [pointwise(here, which, *v.valid)]) for v in pair)
                cases.append((left, right))
    except (NotKnown, TooLarge):
        pass
    return False


def _selector(value: SymbolicValue) -> IndexMap | None:
    """The numbers of the parts that a choice in a value takes at its places; None if it has no such choice."""
    for kind, each in zip(value.term.kinds, value.maps, strict=True):
        if kind.startswith(MASK) and not any(label.kind == "bound" for label in each.labels):
            return each
    return None


def _taking(number: int, which: Blocks, *valid: Blocks) -> Any:
    """Where a value is known and takes the part of this number, or no part in particular."""
    return functools.reduce(np.logical_and, [mask == 1 for mask in valid], (which == number) | (which == ANY))


def _implied(mask: Blocks, others: tuple[Blocks, ...]) -> Any:
    return functools.reduce(np.logical_or, [other != 1 for other in others], mask == 1)
