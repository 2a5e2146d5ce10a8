"""The communication, memory and compute of each source line of the model on a device."""

from __future__ import annotations

import dataclasses

from gspmd.costs.cost_report import CostReport
from gspmd.dialect.errors import SourceLocation

Line = tuple[str, int]
"""A file and a line number; the name is empty if the program has no location."""


@dataclasses.dataclass(slots=True)
class LineCost:
    """The costs of a source line in one call of the program.

    `held_bytes` are live at the memory peak. `collectives` are indices into the collectives of the report.
    """

    line: Line
    sent_bytes: int = 0
    communication_s: float = 0.0
    flops: float = 0.0
    compute_s: float = 0.0
    traffic_bytes: float = 0.0
    traffic_s: float = 0.0
    held_bytes: int = 0
    collectives: list[int] = dataclasses.field(default_factory=list)

    @property
    def time_s(self) -> float:
        """The key by which lines are ranked: communication, plus the longer of compute and memory traffic."""
        return self.communication_s + max(self.compute_s, self.traffic_s)


def line_of(location: SourceLocation | None) -> Line:
    """The line of a location."""
    return ("", 0) if location is None else (location.file, location.line)


def line_costs(report: CostReport) -> list[LineCost]:
    """All lines with a cost, the most expensive first."""
    found: dict[Line, LineCost] = {}

    def at(location: SourceLocation | None) -> LineCost:
        line = line_of(location)
        return found.setdefault(line, LineCost(line))

    for number, priced in enumerate(report.collectives):
        cost = at(priced.collective.location)
        cost.sent_bytes += priced.total_bytes
        cost.communication_s += priced.total_time_s
        cost.collectives.append(number)
    for operation in report.operations:
        cost = at(operation.location)
        cost.flops += operation.runs * operation.flops
        cost.compute_s += operation.runs * operation.compute_s
        cost.traffic_bytes += operation.runs * operation.traffic_bytes
        cost.traffic_s += operation.runs * operation.traffic_s
    for buffer in report.memory.buffers:
        at(buffer.location).held_bytes += buffer.bytes
    return sorted(found.values(), key=lambda cost: (-cost.time_s, -cost.held_bytes, cost.line))
