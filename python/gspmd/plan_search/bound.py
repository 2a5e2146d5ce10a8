"""What no step of a program takes less than, by the estimate that plans are compared by."""

from __future__ import annotations

import dataclasses
from typing import Any

from gspmd.costs.outcome import Outcome


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """Seconds that no plan takes less than, and why."""

    seconds: float
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON holds them."""
        return dataclasses.asdict(self)


ARITHMETIC = "arithmetic alone, divided evenly"
WORK = "arithmetic and memory traffic of one device, divided evenly"
COMMUNICATION = "what has to be computed and sent where like values are split alike, by the integer program"


def largest_bound(ideal_s: float, whole: Outcome | None, devices: int, least_s: float) -> Bound:
    """The largest of what is known.

    `ideal_s` are the seconds of all arithmetic, divided evenly. `whole` is the program on devices that all do
    everything, None where it is not known; a device that does a part of each operation does at least its share of
    that. `least_s` is the bound of the integer program.
    """
    bounds = [Bound(ideal_s, ARITHMETIC), Bound(least_s, COMMUNICATION)]
    if whole is not None and not whole.sent_bytes:
        bounds.append(Bound(whole.step_s / devices, WORK))
    return max(bounds, key=lambda bound: bound.seconds)
