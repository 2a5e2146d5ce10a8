"""Diagnostics that a test expects, written beside the program: `// expected-error@+1 {{text in the message}}`.

As in MLIR: severities error, warning, remark and note; places `@+N`, `@-N`, `@above`, `@below` (the nearest line
without an expectation) and `@unknown` (no place in this file); nothing means the same line. `expected-error-re` takes
text in which `{{...}}` inside the outer braces is a regular expression.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from gspmd.dialect.diagnostic import Diagnostic, Severity
from gspmd.dialect.errors import SourceLocation

_EXPECTED = re.compile(
    r"expected-(error|warning|remark|note)(-re)? *(?:@([+-][0-9]{1,9}|above|below|unknown))? *\{\{(.*)\}\}\s*$"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Expectation:
    """A diagnostic that has to come; `line` is 0 for one that has no place in the file."""

    severity: Severity
    line: int
    pattern: re.Pattern[str]
    text: str
    written_at: SourceLocation

    def matches(self, diagnostic: Diagnostic, file: str) -> bool:
        where = diagnostic.location
        line = where.line if where and where.file in (file, "-") else 0
        same_place = diagnostic.severity is self.severity and line == self.line
        return same_place and self.pattern.search(diagnostic.message) is not None


def read_expectations(source: str, file: str) -> list[Expectation]:
    """The expectations in a text, whose lines count from 1."""
    lines = source.split("\n")
    bare = [_EXPECTED.search(line) is None for line in lines]
    found = []
    for index, line in enumerate(lines):
        match = _EXPECTED.search(line)
        if match is None:
            continue
        severity, is_regex, place, text = match.groups()
        at = SourceLocation(file, index + 1, match.start() + 1)
        found.append(
            Expectation(Severity(severity), _line(place, index, bare), _pattern(text, bool(is_regex)), text, at)
        )
    return found


def mismatches(expected: Iterable[Expectation], seen: Iterable[Diagnostic], file: str) -> list[Diagnostic]:
    """Errors for diagnostics that nothing expected, and for expectations that nothing met. Empty if all is well."""
    open_expectations = list(expected)
    errors = []
    for diagnostic in _with_notes(seen, open_expectations):
        met = next((e for e in open_expectations if e.matches(diagnostic, file)), None)
        if met:
            open_expectations.remove(met)
        else:
            message = f"unexpected {diagnostic.severity.value}: {diagnostic.message}"
            errors.append(Diagnostic(Severity.ERROR, message, diagnostic.location))
    for left in open_expectations:
        message = f'expected {left.severity.value} "{left.text}" was not produced'
        errors.append(Diagnostic(Severity.ERROR, message, left.written_at))
    return errors


def _with_notes(seen: Iterable[Diagnostic], expected: list[Expectation]) -> Iterator[Diagnostic]:
    """The diagnostics and their notes; MLIR's dump of the operation at fault needs no expectation."""
    for diagnostic in seen:
        yield diagnostic
        for note in diagnostic.notes:
            wanted = any(e.severity is Severity.NOTE and e.pattern.search(note.message) for e in expected)
            if wanted or not note.message.startswith("see current operation:"):
                yield note


def _line(place: str | None, index: int, bare: list[bool]) -> int:
    """The line, from 1, that an expectation on the line with this index, from 0, is about."""
    if place is None:
        return index + 1
    if place == "unknown":
        return 0
    if place == "above":
        return next((i + 1 for i in range(index - 1, -1, -1) if bare[i]), 1)
    if place == "below":
        return next((i + 1 for i in range(index + 1, len(bare)) if bare[i]), len(bare))
    return index + 1 + int(place)


def _pattern(text: str, is_regex: bool) -> re.Pattern[str]:
    if not is_regex:
        return re.compile(re.escape(text))
    parts = re.split(r"\{\{(.*?)\}\}", text)
    return re.compile("".join(f"(?:{p})" if i % 2 else re.escape(p) for i, p in enumerate(parts)))
