"""Diagnostics: errors, warnings, remarks and notes, in one stream.

A listener receives them with `telling`; without one they are printed to stderr, one line each.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import enum
import functools
import sys
from collections.abc import Callable, Iterator

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, SourceLocation


class Severity(enum.Enum):
    ERROR = "error"
    WARNING = "warning"
    REMARK = "remark"
    NOTE = "note"


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnostic:
    """A message with its location, which is None if unknown.

    The message ends with the hint, if there is one. Errors have a code.
    """

    severity: Severity
    message: str
    location: SourceLocation | None = None
    notes: tuple[Diagnostic, ...] = ()
    hint: str | None = dataclasses.field(default=None, compare=False)
    code: Code | None = dataclasses.field(default=None, compare=False)

    def __str__(self) -> str:
        where = self.location or "gspmd"
        return f"{where}: {self.severity.value}: {self.message}"

    @property
    def problem(self) -> str:
        """The message without the hint."""
        return self.message if self.hint is None else self.message.removesuffix(f"; {self.hint}")


Sink = Callable[[Diagnostic], None]


def of_error(error: Error) -> Diagnostic:
    """An exception as a diagnostic."""
    subject = f"'{error.op}' op " if error.op else ""
    hint = f"; {error.hint}" if error.hint else ""
    notes = tuple(Diagnostic(Severity.NOTE, note.message, note.location) for note in error.notes)
    message = f"{subject}{error.message}{hint}"
    return Diagnostic(Severity.ERROR, message, error.location, notes, error.hint, error.code)


def _to_stderr(diagnostic: Diagnostic) -> None:
    print(diagnostic, file=sys.stderr)


_sink: contextvars.ContextVar[Sink] = contextvars.ContextVar("gspmd_diagnostics", default=_to_stderr)


def send(diagnostic: Diagnostic) -> None:
    """Send a diagnostic to the listener."""
    _sink.get()(diagnostic)


@functools.lru_cache(maxsize=256)
def remark_once(message: str) -> None:
    """Send a diagnostic without location, once in a process."""
    send(Diagnostic(Severity.REMARK, message))


def listener() -> Sink:
    """The current listener, for one that forwards to it."""
    return _sink.get()


@contextlib.contextmanager
def telling(sink: Sink) -> Iterator[None]:
    """Inside, `sink` receives the diagnostics."""
    token = _sink.set(sink)
    try:
        yield
    finally:
        _sink.reset(token)
