"""Diagnostics of passes: remarks of ours and MLIR's own, in one stream.

MLIR's Python bindings let a pass emit errors only, so what is not an error goes through `remark`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from jaxlib.mlir import ir

from gspmd.dialect.diagnostic import Diagnostic, Severity, Sink, send, telling
from gspmd.dialect.errors import Error
from gspmd.transforms.parsing.mlir import Located, message_of, source_location, split_subject
from gspmd.transforms.parsing.mlir_faults import code_of


def as_error(diagnostic: Diagnostic, kind: type[Error]) -> Error:
    """A diagnostic as an exception."""
    op, message = split_subject(diagnostic.problem)
    code = diagnostic.code or code_of(message) or kind.usual_code
    return kind(message, op=op, location=diagnostic.location, hint=diagnostic.hint, code=code)


def remark(op: Located, message: str) -> None:
    """Emit a remark on an operation, which needs no action."""
    send(Diagnostic(Severity.REMARK, f"'{op.name}' op {message}", source_location(op.location)))


@contextlib.contextmanager
def listening(sink: Sink, context: ir.Context) -> Iterator[None]:
    """In this context, `sink` gets every diagnostic, in order: those of gspmd's passes, and of MLIR in `context`.

    An `ir.MLIRError` raised inside has no diagnostics, because `sink` got them.
    """

    def handle(diagnostic: ir.Diagnostic) -> bool:
        sink(_from_mlir(diagnostic))
        return True

    handler: ir.DiagnosticHandler = context.attach_diagnostic_handler(handle)
    before = context.emit_error_diagnostics
    context.emit_error_diagnostics = True
    try:
        with telling(sink):
            yield
    finally:
        context.emit_error_diagnostics = before
        handler.detach()


def _from_mlir(diagnostic: ir.Diagnostic) -> Diagnostic:
    severity = Severity[diagnostic.severity.name]
    notes = tuple(_from_mlir(note) for note in diagnostic.notes)
    return Diagnostic(severity, message_of(diagnostic), source_location(diagnostic.location), notes)
