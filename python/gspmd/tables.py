"""Text for people: tables, and lines that fit the terminal."""

from __future__ import annotations

import contextvars
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence

_CODES = re.compile(r"\x1b\[[\d;]*m")
_GOOD, _BAD, _RESET = "\x1b[1;32m", "\x1b[1;31m", "\x1b[0m"
_color_choice: contextvars.ContextVar[str] = contextvars.ContextVar("gspmd_color", default="never")
_NARROWEST = 24  # the least width of a text column while others can still shrink
_GAP = 2


def text_width() -> int | None:
    """The width of the terminal of stdout, or `$COLUMNS`; None if lines are not limited."""
    if os.environ.get("COLUMNS", "").isdigit() or (sys.stdout is not None and sys.stdout.isatty()):
        return max(shutil.get_terminal_size().columns, 40)
    return None


def wants_color() -> bool:
    """Whether the environment allows color on a terminal."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def choose_color(choice: str) -> None:
    """Say when text on stdout has colors: `always`, `auto` (on a terminal) or `never`, which holds without a choice."""
    _color_choice.set(choice)


def is_colored() -> bool:
    """Whether to color text on stdout."""
    choice = _color_choice.get()
    return choice == "always" or (choice == "auto" and _is_a_terminal() and wants_color())


def _is_a_terminal() -> bool:
    try:
        return sys.stdout.isatty()
    except (AttributeError, ValueError):  # no stdout, or a closed one
        return False


class _Painted(str):
    """Text of a color, of which `table` and `fitted` know that it takes no room."""

    __slots__ = ("color",)
    color: str


def good(text: str) -> str:
    """Text that stands out for what won, or passed."""
    return _painted(text, _GOOD)


def good_row(row: Iterable[str]) -> list[str]:
    """A row of a table that won."""
    return [good(cell) for cell in row]


def bad(text: str) -> str:
    """Text that stands out for what failed."""
    return _painted(text, _BAD)


def _painted(text: str, color: str) -> str:
    painted = _Painted(text)
    painted.color = color
    return painted


def _paint(text: str, like: str) -> str:
    """The text in the color of another one, where there are colors."""
    return f"{like.color}{text}{_RESET}" if text and isinstance(like, _Painted) and is_colored() else text


def table(rows: Sequence[Sequence[str]], right: Iterable[int] = (), most: int | None = None) -> list[str]:
    """Columns of equal width, indented; those in `right` are aligned to the right.

    Cells wrap at word boundaries so that lines have at most `most` characters, by default the width of the terminal.
    """
    if not rows:
        return []
    to_right, width = set(right), most or text_width()
    widths = _widths(rows, to_right, width)
    if width is not None and _is_crowded(rows, widths, width):
        return _stacked(rows, to_right, width)
    return [line for row in rows for line in _row_lines(row, widths, to_right)]


def _row_lines(row: Sequence[str], widths: Sequence[int], to_right: Collection[int]) -> list[str]:
    cells = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
    lines = []
    for index in range(max(map(len, cells))):
        parts = [cell[index] if index < len(cell) else "" for cell in cells]
        line = ""
        for column, (part, width) in enumerate(zip(parts, widths, strict=True)):
            room = " " * (width - len(part))
            painted = _paint(part, row[column])
            line += " " * _GAP + (room + painted if column in to_right else painted + room)
        lines.append(line.rstrip())
    return lines


def _is_crowded(rows: Sequence[Sequence[str]], widths: Sequence[int], most: int) -> bool:
    """Whether the last column, which has the texts, is too narrow."""
    if len(widths) < 2 or (_total(widths) <= most and widths[-1] >= min(max(len(row[-1]) for row in rows), _NARROWEST)):
        return False
    return any(row[-1] for row in rows)


def _stacked(rows: Sequence[Sequence[str]], to_right: Collection[int], most: int) -> list[str]:
    """Rows with the last cell on its own line, indented."""
    others = [row[:-1] for row in rows]
    widths = _widths(others, to_right, most)
    indent = " " * (3 * _GAP)
    lines = []
    for row, rest in zip(rows, others, strict=True):
        lines += _row_lines(rest, widths, to_right)
        lines += [indent + _paint(text, row[-1]) for text in _wrapped(row[-1], most - len(indent)) if text]
    return lines


def fitted(lines: Iterable[str], most: int | None = None) -> list[str]:
    """The lines, with those that are wider than the terminal continued on indented lines.

    `most` is the width without a terminal.
    """
    width = text_width() or most
    found: list[str] = []
    for line in lines:
        if width is None or len(_CODES.sub("", line)) <= width:
            found.append(_paint(line, line))
            continue
        indent = " " * (len(line) - len(line.lstrip()))
        parts = textwrap.wrap(
            line.strip(),
            width,
            initial_indent=indent,
            subsequent_indent=indent + "    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        found += [_paint(part, line) for part in parts]
    return found


def _widths(rows: Sequence[Sequence[str]], fixed: Collection[int], most: int | None) -> list[int]:
    """The width of each column; the widest shrink until a line fits or words would break.

    Columns in `fixed`, which hold numbers, keep their width.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    if most is None:
        return widths
    words = [max((len(word) for cell in column for word in cell.split()), default=0) for column in columns]
    for floor in (_NARROWEST, 0):
        least = [
            width if column in fixed else max(word, min(floor, width))
            for column, (word, width) in enumerate(zip(words, widths, strict=True))
        ]
        while _total(widths) > most:
            wide = [(width, column) for column, width in enumerate(widths) if width > least[column]]
            if not wide:
                break
            widths[max(wide)[1]] -= 1
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * len(widths)


def _wrapped(cell: str, width: int) -> list[str]:
    if len(cell) <= width:
        return [cell]
    return textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False) or [""]
