"""Names operations after their source lines: Shardy's passes keep only the names in locations."""

from __future__ import annotations

from jaxlib.mlir import ir

from gspmd.dialect.errors import SourceLocation
from gspmd.dialect.location_marks import LINE
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.parsing.mlir import source_location


def name_by_lines(module: ir.Module) -> tuple[str, ...]:
    """Name every operation of a module, in place, by the number of its line; returns the lines (see `line_of`)."""
    lines: dict[str, int] = {}
    with in_memory(module) as top:
        for op in top.walk():
            number = lines.setdefault(line_of(source_location(op.location)), len(lines))
            op.location = ir.Location.name(f"{LINE}{number}", op.location)
    return tuple(lines)


def line_of(location: SourceLocation | None) -> str:
    """`file:line`, or empty if unknown."""
    return f"{location.file}:{location.line}" if location is not None and location.line else ""
