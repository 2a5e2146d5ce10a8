"""Diagnostics of passes: remarks and warnings of ours and MLIR's own, in one stream.

MLIR's Python bindings let a pass emit errors only, so what is not an error goes through `remark` and `warning`.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import enum
import sys
from collections.abc import Callable, Iterator
from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.errors import Error, SourceLocation
from gspmd.transforms.support.mlir import message_of, source_location, split_subject


class Severity(enum.Enum):
    ERROR = "error"
    WARNING = "warning"
    REMARK = "remark"
    NOTE = "note"


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message about one place; `location` is None where that is unknown."""

    severity: Severity
    message: str
    location: SourceLocation | None = None
    notes: tuple[Diagnostic, ...] = ()

    def __str__(self) -> str:
        where = self.location or "gspmd"
        return f"{where}: {self.severity.value}: {self.message}"

    def as_error(self, kind: type[Error]) -> Error:
        """The diagnostic as an exception."""
        op, message = split_subject(self.message)
        return kind(message, op=op, location=self.location)


Sink = Callable[[Diagnostic], None]


def _to_stderr(diagnostic: Diagnostic) -> None:
    print(diagnostic, file=sys.stderr)


_sink: contextvars.ContextVar[Sink] = contextvars.ContextVar("gspmd_diagnostics", default=_to_stderr)


def send(diagnostic: Diagnostic) -> None:
    """Give a diagnostic to whoever listens; by default it is printed to stderr."""
    _sink.get()(diagnostic)


def remark(op: Any, message: str) -> None:
    """Tell the user something about an operation that needs no action."""
    send(_about(op, Severity.REMARK, message))


def warning(op: Any, message: str) -> None:
    """Tell the user something about an operation that probably needs action."""
    send(_about(op, Severity.WARNING, message))


def of_error(error: Error) -> Diagnostic:
    """An exception as a diagnostic."""
    subject = f"'{error.op}' op " if error.op else ""
    hint = f"; {error.hint}" if error.hint else ""
    return Diagnostic(Severity.ERROR, f"{subject}{error.message}{hint}", error.location)


@contextlib.contextmanager
def listening(sink: Sink, context: ir.Context) -> Iterator[None]:
    """Inside, `sink` gets every diagnostic, in order: those of passes of ours, and of MLIR in `context`.

    An `ir.MLIRError` raised inside carries no diagnostics, as they have been given to `sink`.
    """

    def handle(diagnostic: Any) -> bool:
        sink(_from_mlir(diagnostic))
        return True

    handler: Any = context.attach_diagnostic_handler(handle)
    before = context.emit_error_diagnostics
    context.emit_error_diagnostics = True
    token = _sink.set(sink)
    try:
        yield
    finally:
        _sink.reset(token)
        context.emit_error_diagnostics = before
        handler.detach()


def _about(op: Any, severity: Severity, message: str) -> Diagnostic:
    operation = op.operation
    return Diagnostic(severity, f"'{operation.name}' op {message}", source_location(operation.location))


def _from_mlir(diagnostic: Any) -> Diagnostic:
    severity = Severity[diagnostic.severity.name]
    notes = tuple(_from_mlir(note) for note in diagnostic.notes)
    return Diagnostic(severity, message_of(diagnostic), source_location(diagnostic.location), notes)
