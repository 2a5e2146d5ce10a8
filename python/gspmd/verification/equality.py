"""Compares a value with the wanted one, wherever the wanted one is known."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from gspmd.verification import index_maps
from gspmd.verification.algebra import Algebra
from gspmd.verification.blocks import Blocks
from gspmd.verification.index_maps import Label, pointwise
from gspmd.verification.values import SymbolicValue


@dataclasses.dataclass(frozen=True, slots=True)
class Mismatch:
    """The reason that two values differ, and the place: digits of the device, and an index."""

    reason: str
    place: dict[Label, int]


UNLIKE = "it is computed differently"
ELSEWHERE = "it reads another element"
UNKNOWN_CONTENT = "an element outside the padding is unknown"


def difference(algebra: Algebra, wanted: SymbolicValue, found: SymbolicValue) -> Mismatch | None:
    """The first difference of a value from the wanted one, None if there is none."""
    for mask in found.valid:
        good = pointwise(lambda m, *others: _implied(m, others), mask, *wanted.valid)
        place = index_maps.disagreement(good, index_maps.constant(1))
        if place is not None:
            return Mismatch(UNKNOWN_CONTENT, place)
    seen = algebra.value(found.term, found.maps, found.shape, wanted.valid)
    pairs = algebra.terms.paired(wanted.instance, seen.instance)
    if pairs is None:
        return Mismatch(UNLIKE, {})
    for left, right in pairs:
        place = index_maps.disagreement(left, right)
        if place is not None:
            return Mismatch(ELSEWHERE, place)
    return None


def _implied(mask: Blocks, others: tuple[Blocks, ...]) -> Any:
    return functools.reduce(np.logical_or, [other != 1 for other in others], mask == 1)
