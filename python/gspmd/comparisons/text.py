"""Text that comparisons share, wrapped to 80 columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from gspmd.comparisons.figures import Figures, SentCollectives
from gspmd.tables import table, text_width
from gspmd.text_report import bytes_text, time_text

_COLUMNS = 80  # if the width of the terminal is not known
NONE = "-"


def figure_rows(sides: Sequence[Figures | None]) -> list[tuple[str, ...]]:
    """The rows that comparisons share, a cell for each side."""

    def row(label: str, of: Callable[[Figures], str]) -> tuple[str, ...]:
        return label, *(of(figures) if figures is not None else NONE for figures in sides)

    rows = [row("bytes sent", lambda f: bytes_text(f.sent_bytes))]
    kinds = dict.fromkeys(sorted(key for figures in sides if figures is not None for key in figures.by_axes))
    for kind, axes in kinds:
        rows.append(row(f"  {kind} {axes}", lambda f, key=(kind, axes): _by_axes(f, key)))  # type: ignore[misc]
    rows.append(row("collectives", lambda f: str(f.collectives)))
    rows.append(row("bytes held", lambda f: bytes_text(f.held_bytes)))
    rows.append(row("step, all overlaps", lambda f: time_text(f.lower_bound_s)))
    rows.append(row("step, nothing overlaps", lambda f: time_text(f.upper_bound_s)))
    if any(figures is not None and figures.ready_s is not None for figures in sides):
        rows.append(row("compile time", lambda f: time_text(f.ready_s or 0.0)))
    return rows


def _by_axes(figures: Figures, key: tuple[str, str]) -> str:
    size, number = figures.by_axes.get(key, (0, 0))
    return f"{bytes_text(size)} in {number}" if number else NONE


def narrow_table(rows: Sequence[Sequence[str]], right: Iterable[int] = (), indent: int = 0) -> list[str]:
    """The lines of a table that will be indented by so many columns."""
    return table(rows, right=right, most=columns() - indent)


def columns() -> int:
    """The maximum width of a line."""
    return text_width() or _COLUMNS


def line_text(line: str) -> str:
    """`main.py:80` for `/path/to/main.py:80`."""
    return os.path.basename(line)


def collective_text(each: SentCollectives) -> str:
    """`all_reduce over x`."""
    return f"{each.kind} over {each.axes}" if each.axes else each.kind
