"""Reduction: make an item smaller while a property holds. All reducers of programs share this loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def reduced(
    item: T,
    smaller: Callable[[T], Iterable[T]],
    holds: Callable[[T], bool],
    *,
    tries: int = 1 << 30,
    seconds: float = math.inf,
) -> T:
    """The smallest item found for which `holds` is true, as it is for the given one.

    `smaller` yields reduced items, the most reduced first. The first of them for which `holds` is true is reduced next;
    no item is tried twice. The loop ends when there is none, or after so many `tries` or `seconds`.
    """
    end = time.perf_counter() + seconds
    seen = {item}
    progress = True
    while progress:
        progress = False
        for candidate in smaller(item):
            if candidate in seen:
                continue
            if tries <= 0 or time.perf_counter() > end:
                return item
            seen.add(candidate)
            tries -= 1
            if holds(candidate):
                item, progress = candidate, True
                break
    return item
