"""The diagnostics of one part of gspmd-opt's input: printed once each, or compared with a test's expectations."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator

from gspmd.dialect.diagnostic import Diagnostic, Severity, of_error
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, InternalError, SourceLocation
from gspmd.pass_manager.expected_diagnostics import mismatches, read_expectations
from gspmd.tools.diagnostics import print_diagnostic
from gspmd.tools.exit_codes import EXIT_FAILURE, EXIT_INTERNAL, exit_code
from gspmd.tools.opt_arguments import PROGRAM
from gspmd.transforms.parsing.mlir_faults import code_of, code_of_invalid


class DiagnosticLog:
    """The diagnostics of one part of the input, in order."""

    def __init__(self) -> None:
        self._seen: list[Diagnostic] = []
        self._read = 0  # how many of these were emitted while reading
        self._failure: Error | None = None

    def read(self, diagnostic: Diagnostic) -> None:
        """Record a diagnostic that MLIR emits while it reads the module."""
        self._seen.append(_coded(diagnostic, code_of_invalid(diagnostic.message)))
        self._read = len(self._seen)

    def run(self, diagnostic: Diagnostic) -> None:
        """Record a diagnostic that is emitted while passes run."""
        self._seen.append(_coded(diagnostic, code_of(diagnostic.message) or Code.UNSUPPORTED))

    def fail(self, error: Error) -> None:
        """Record the exception that ended the run, unless it was recorded before."""
        self._failure = error
        if isinstance(error, InternalError):  # it includes the diagnostics of MLIR's verifier
            self._seen = [d for d in self._seen if d.severity is not Severity.ERROR]
        if not any(d.severity is Severity.ERROR for d in self._seen):
            self._seen.append(of_error(error))

    def report(self, args: argparse.Namespace, name: str, source: str | bytes | None) -> int:
        """Print the diagnostics, or compare them with the expected ones; the resulting exit code."""
        status = exit_code(self._failure) if self._failure else 0
        told = _each_mistake_once(self._seen, self._read)
        if args.verify_diagnostics and status != EXIT_INTERNAL:
            expected = read_expectations(source, name) if isinstance(source, str) else []
            told = iter(mismatches(expected, self._seen, name))
        some = False
        for diagnostic in told:
            print_diagnostic(PROGRAM, _in_file(diagnostic, name))
            some = True
        if args.verify_diagnostics and status != EXIT_INTERNAL:
            return EXIT_FAILURE if some else 0
        return status


def _coded(diagnostic: Diagnostic, code: Code) -> Diagnostic:
    if diagnostic.severity is not Severity.ERROR or diagnostic.code is not None:
        return diagnostic
    return dataclasses.replace(diagnostic, code=code)


def _each_mistake_once(seen: list[Diagnostic], read: int) -> Iterator[Diagnostic]:
    """The diagnostics without errors that only follow from an earlier one; the first `read` are from reading.

    An MLIR parser stops at a mistake, and each parser that called it reports a failure, too. A verifier may emit
    several diagnostics for one operation.
    """
    first: Diagnostic | None = None
    for number, diagnostic in enumerate(seen):
        if diagnostic.severity is Severity.ERROR and diagnostic.hint is None and diagnostic.code is not Code.RESHARD:
            if first is not None and (number < read or first.location == diagnostic.location):
                continue
            first = diagnostic
        yield diagnostic


def _in_file(diagnostic: Diagnostic, name: str) -> Diagnostic:
    """The diagnostic and its notes, with the name of the input in place of `-`."""
    where = diagnostic.location
    if where and where.file == "-":
        where = SourceLocation(name, where.line, where.column)
    notes = tuple(_in_file(note, name) for note in diagnostic.notes)
    return dataclasses.replace(diagnostic, location=where, notes=notes)
