"""The few figures that programs with other annotations are compared by."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from gspmd import api
from gspmd.costs.program_cost import cost_of
from gspmd.tables import table
from gspmd.text_report import bytes_text, time_text


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What a program costs a device: bytes sent, estimated seconds of a step, bytes of memory at the peak.

    `fits` is whether the memory of the target holds that.
    """

    sent_bytes: int
    step_s: float
    memory_bytes: int
    fits: bool = True

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON holds them."""
        return dataclasses.asdict(self)


Figure = Callable[[Outcome], tuple[float, ...]]
"""What outcomes are compared by, the first number first."""

FIGURES: Mapping[str, Figure] = {
    "time": lambda o: (o.step_s, o.sent_bytes, o.memory_bytes),
    "bytes": lambda o: (o.sent_bytes, o.step_s, o.memory_bytes),
    "memory": lambda o: (o.memory_bytes, o.step_s, o.sent_bytes),
}
"""What can be saved."""


def outcome_of(product: api.Partitioned, target: str, most_bytes: float = 0.0) -> Outcome:
    """What a partitioned program costs on a target, of whose memory `most_bytes` may be used, by default all."""
    cost = cost_of(product.module, target)
    most = most_bytes or cost.memory.capacity
    return Outcome(cost.sent_bytes, cost.timeline.total_s, cost.memory.peak, not most or cost.memory.peak <= most)


def outcome_table(outcomes: Mapping[str, Outcome]) -> list[str]:
    """The figures of programs, by what they are called."""
    rows = [("", "step", "sent", "memory")]
    for name, outcome in outcomes.items():
        held = bytes_text(outcome.memory_bytes) + ("" if outcome.fits else " (too much)")
        rows.append((name, time_text(outcome.step_s), bytes_text(outcome.sent_bytes), held))
    return table(rows, right=(1, 2, 3))
