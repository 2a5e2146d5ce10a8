"""The source lines of a report with their costs and text, numbered on first use."""

from __future__ import annotations

from gspmd.costs.cost_report import CostReport
from gspmd.costs.lines import Line, LineCost, line_costs, line_of
from gspmd.dialect.errors import SourceLocation
from gspmd.dialect.source_text import lines_of
from gspmd.reports.data import LineData, Table

_SHOWN_FILES = (".py", ".mlir", ".hlo", ".txt")
_MAX_CHARACTERS = 160


class LineNumbers:
    """Numbers source lines: first those with a cost, the most expensive first."""

    def __init__(self, cost: CostReport) -> None:
        self._costs = {each.line: each for each in line_costs(cost) if each.line[0]}
        self._numbers: dict[Line, int] = {line: number for number, line in enumerate(self._costs)}

    def number(self, location: SourceLocation | None) -> int:
        """The number of the line of a location."""
        if location is None or not location.file:
            return -1
        return self._numbers.setdefault(line_of(location), len(self._numbers))

    def table(self) -> Table:
        """All lines, in the order of their numbers."""
        files: dict[str, list[str]] = {}
        for file, _ in self._numbers:
            if file not in files:
                files[file] = lines_of(file) if file == "-" or file.endswith(_SHOWN_FILES) else []
        return Table(_line(line, self._costs.get(line) or LineCost(line), files[line[0]]) for line in self._numbers)


def _line(line: Line, cost: LineCost, text: list[str]) -> LineData:
    file, number = line
    return LineData(
        file=file,
        line=number,
        text=text[number - 1].strip()[:_MAX_CHARACTERS] if 1 <= number <= len(text) else "",
        time_s=cost.time_s,
        sent_bytes=cost.sent_bytes,
        communication_s=cost.communication_s,
        flops=cost.flops,
        compute_s=cost.compute_s,
        traffic_bytes=cost.traffic_bytes,
        traffic_s=cost.traffic_s,
        held_bytes=cost.held_bytes,
    )
