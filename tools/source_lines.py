"""The source line of a diagnostic, with a caret below its column."""

from __future__ import annotations

import unicodedata

from gspmd.dialect.errors import SourceLocation
from gspmd.dialect.source_text import source_bytes

_LEAD = 24  # characters shown before the mark of a line that is too long
_CUT = "..."


def excerpt(location: SourceLocation, width: int) -> tuple[str, str, str] | None:
    """The number of a line, its text, and a second line with a caret; None if there is nothing to show.

    Columns count bytes, as in MLIR. Lines longer than `width` are cut around the caret.
    """
    if location.line < 1:
        return None
    raw = _line(location.file, location.line)
    if raw is None or not raw.strip():
        return None
    before = printable(raw[: max(location.column - 1, 0)].decode(errors="replace"))
    text = before + printable(raw[max(location.column - 1, 0) :].decode(errors="replace"))
    number = str(location.line)
    room = max(width - len(number) - 4, 2 * _LEAD)
    text, before = _cut(text.rstrip(), before, room)
    caret = " " * _columns(before) + "^" if location.column > 0 else ""
    return number, text, caret


def printable(text: str) -> str:
    """The text without control characters; tabs become four spaces."""
    return "".join(
        c if not unicodedata.category(c).startswith("C") else f"\\x{ord(c):02x}" for c in text.replace("\t", "    ")
    )


def _line(file: str, number: int) -> bytes | None:
    """The bytes of a line of the input, or of a regular file that is not too large."""
    source = source_bytes(file)
    if source is None:
        return None
    lines = source.split(b"\n", number)
    return lines[number - 1].rstrip(b"\r") if number <= len(lines) else None


def _cut(text: str, before: str, room: int) -> tuple[str, str]:
    """The part of the line around the caret, and its prefix before the caret."""
    if len(text) <= room:
        return text, before
    start = 0 if len(before) < room - _LEAD else len(before) - _LEAD
    head = _CUT if start else ""
    shown = text[start : start + room - len(head)]
    tail = _CUT if start + len(shown) < len(text) else ""
    return head + (shown[: -len(tail)] if tail else shown) + tail, head + before[start:]


def _columns(text: str) -> int:
    """The columns of the text: East Asian wide characters take two, combining characters none."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)
