"""Making something smaller as long as something holds of it: the loop that all who minimise programs share."""

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
    """The smallest item found of which `holds` is true, as it is of the given one.

    `smaller` gives the items with one thing less, those with most less first. The first of them that will do is what
    is made smaller next; what has been tried is not tried again. It ends when there is none, or after so many `tries`
    or `seconds`.
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
