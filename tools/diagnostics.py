"""The forms of errors, warnings and remarks.

The full form is that of clang: a first line `file:line:column: error: what is wrong [code]`, which every editor
understands, then the source line with a caret, the hint, and notes at other locations. The short form is one line that
ends with the hint. JSON is one object per line, with the keys "severity", "code", "message", "hint", "location"
("file", "line", "column") and "notes" (of "message" and "location"); unknown fields are null.
"""

from __future__ import annotations

import json
import textwrap
import traceback
from collections.abc import Iterator

from gspmd.dialect.diagnostic import Diagnostic, Severity, of_error
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, SourceLocation
from gspmd.tools.presentation import Form, Presentation, current, tell
from gspmd.tools.source_lines import excerpt, printable

_LONGEST = 600  # characters of a message; longer ones quote whole operations
_RESET = "\x1b[0m"
_STYLES = {
    "place": "\x1b[1m",
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;35m",
    "remark": "\x1b[1;34m",
    "note": "\x1b[1;36m",
    "hint": "\x1b[1;32m",
    "mark": "\x1b[1;32m",
    "code": "\x1b[2m",
}


def print_error(program: str, error: Error) -> None:
    """Print an error, and those found together with it, on stderr."""
    for told in (error, *error.others):
        print_diagnostic(program, of_error(told))
    chosen = current()
    if chosen.is_terminal and chosen.form is Form.FULL:
        tell(_styled("code", f"for details, run gspmd explain-error {error.code}", chosen))


def print_diagnostic(program: str, diagnostic: Diagnostic) -> None:
    """Print a diagnostic on stderr in the chosen form; `program` stands in for an unknown location."""
    chosen = current()
    if chosen.is_quiet and diagnostic.severity is not Severity.ERROR:
        return
    tell("\n".join(render(program, diagnostic, chosen)))


def render(program: str, diagnostic: Diagnostic, chosen: Presentation) -> list[str]:
    """A diagnostic as lines of text."""
    if chosen.form is Form.JSON:
        return [json.dumps(_as_dict(diagnostic))]
    if chosen.form is Form.SHORT:
        return [_head(program, diagnostic, _flat(diagnostic.message), Presentation())]
    return [*_full(program, diagnostic, chosen)]


def print_note(program: str, text: str) -> None:
    """Print a note that belongs to the previous error."""
    tell("\n".join(render(program, Diagnostic(Severity.NOTE, text), current())))


def print_traceback() -> None:
    """Print the traceback of the current exception on stderr, for `--debug`."""
    for line in traceback.format_exc().splitlines():
        tell(printable(line))


def _full(program: str, diagnostic: Diagnostic, chosen: Presentation) -> Iterator[str]:
    yield _head(program, diagnostic, _flat(diagnostic.problem), chosen) + _code(diagnostic.code, chosen)
    yield from _source(diagnostic.location, chosen)
    if diagnostic.hint:
        yield from _hint(_flat(diagnostic.hint), chosen)
    for note in _shown(diagnostic.notes):
        yield _head(program, note, _flat(note.message), chosen)
        if note.location != diagnostic.location:
            yield from _source(note.location, chosen)


def _head(program: str, diagnostic: Diagnostic, message: str, chosen: Presentation) -> str:
    where = _shortened(printable(str(diagnostic.location or program)))
    severity = diagnostic.severity.value
    word = f"internal {severity}" if diagnostic.code is Code.INTERNAL else severity
    return f"{_styled('place', f'{where}:', chosen)} {_styled(severity, f'{word}:', chosen)} {message}"


def _code(code: Code | None, chosen: Presentation) -> str:
    return f" {_styled('code', f'[{code}]', chosen)}" if code else ""


def _source(location: SourceLocation | None, chosen: Presentation) -> Iterator[str]:
    """The source line after its number, and the caret below it."""
    found = excerpt(location, chosen.width) if location else None
    if found is None:
        return
    number, text, caret = found
    yield f" {number} | {text}"
    if caret:
        yield f" {' ' * len(number)} | {' ' * (len(caret) - 1)}{_styled('mark', '^', chosen)}"


def _hint(text: str, chosen: Presentation) -> Iterator[str]:
    lines = textwrap.wrap(text, max(chosen.width - 8, 40)) if chosen.is_terminal else [text]
    yield f"  {_styled('hint', 'hint:', chosen)} {lines[0]}"
    yield from (" " * 8 + line for line in lines[1:])


def _shown(notes: tuple[Diagnostic, ...]) -> Iterator[Diagnostic]:
    """The notes without MLIR's dumps of whole operations."""
    return (note for note in notes if not note.message.startswith("see current operation:"))


def _styled(style: str, text: str, chosen: Presentation) -> str:
    return f"{_STYLES[style]}{text}{_RESET}" if chosen.is_colored else text


def _flat(message: str) -> str:
    """The message on one line, without control characters."""
    return _shortened(printable(" ".join(message.split())))


def _in_one_line(message: str) -> str:
    """The message on one line for JSON, which escapes control characters itself."""
    return _shortened(" ".join(message.split()))


def _shortened(text: str) -> str:
    """The text, with its middle elided if it is very long."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 150]} ... {text[-145:]}"


def _as_dict(diagnostic: Diagnostic) -> dict[str, object]:
    return {
        "severity": diagnostic.severity.value,
        "code": diagnostic.code,
        "message": _in_one_line(diagnostic.problem),
        "hint": diagnostic.hint,
        "location": _place(diagnostic.location),
        "notes": [
            {"message": _in_one_line(note.message), "location": _place(note.location)}
            for note in _shown(diagnostic.notes)
        ],
    }


def _place(location: SourceLocation | None) -> dict[str, object] | None:
    if location is None:
        return None
    return {"file": location.file, "line": location.line or None, "column": location.column or None}
