"""The figures by which differently annotated programs are compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gspmd import api
from gspmd.costs.program_cost import cost_of
from gspmd.tables import good_row, table
from gspmd.text_report import bytes_text, time_text


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The cost of a program on a device: bytes sent, estimated seconds of a step, bytes of peak memory.

    `fits` says whether the peak is within the limit, by default the memory of the target.
    """

    sent_bytes: int
    step_s: float
    memory_bytes: int
    fits: bool = True

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return dataclasses.asdict(self)


Figure = Callable[[Outcome], tuple[float, ...]]
"""The keys by which outcomes are compared, the first number first."""

FIGURES: Mapping[str, Figure] = {
    "time": lambda o: (o.step_s, o.sent_bytes, o.memory_bytes),
    "bytes": lambda o: (o.sent_bytes, o.step_s, o.memory_bytes),
    "memory": lambda o: (o.memory_bytes, o.step_s, o.sent_bytes),
}
"""The figures that a search can minimize."""


def outcome_of(product: api.Partitioned, target: str, most_bytes: float = 0.0) -> Outcome:
    """The outcome of a partitioned program on a target; `most_bytes` limits its memory, by default to all of it."""
    cost = cost_of(product.module, target)
    most = most_bytes or cost.memory.capacity
    return Outcome(cost.sent_bytes, cost.timeline.total_s, cost.memory.peak, not most or cost.memory.peak <= most)


def outcome_table(outcomes: Mapping[str, Outcome], best: str = "") -> list[str]:
    """The figures of programs by name; the row of the `best` one stands out."""
    rows: list[Sequence[str]] = [("", "step", "sent", "memory")]
    for name, outcome in outcomes.items():
        held = bytes_text(outcome.memory_bytes) + ("" if outcome.fits else " (too much)")
        row = (name, time_text(outcome.step_s), bytes_text(outcome.sent_bytes), held)
        rows.append(good_row(row) if name == best else row)
    return table(rows, right=(1, 2, 3))
