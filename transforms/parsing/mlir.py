"""The interface to jaxlib's MLIR: contexts, reading modules, locations, and MLIR's errors as gspmd errors.

Nothing in `transforms` imports jax, only the bindings inside jaxlib.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import weakref
from collections.abc import Iterator
from typing import Protocol

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext, _mlirHlo
from jaxlib.mlir.dialects import chlo, sdy, stablehlo
from jaxlib.mlir.passmanager import PassManager

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, Note, ParseError, SourceLocation
from gspmd.dialect.notation import unquote
from gspmd.dialect.source_text import STDIN, as_utf8, keep, reading
from gspmd.transforms.parsing.mlir_faults import code_of, code_of_invalid
from gspmd.transforms.parsing.nesting import location_in
from gspmd.transforms.parsing.suspicion import check_text, first_oddity
from gspmd.transforms.parsing.trial import Format, tried

_LOCATION = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')
BYTECODE_MAGIC = b"ML\xefR"
_registered = False
_contexts: weakref.WeakSet[ir.Context] = weakref.WeakSet()
# Operations of unregistered dialects that programs may contain.
_foreign: set[str] = set()


def allow_foreign(name: str) -> None:
    """Allow an operation of this name, possibly of an unregistered dialect."""
    if not new_context().is_registered_operation(name):
        _foreign.add(name)


def forget_foreign(name: str) -> None:
    """Undo `allow_foreign`."""
    _foreign.discard(name)


def new_context(allow_unregistered: bool = False) -> ir.Context:
    """A context with the dialects of programs: func, stablehlo, chlo, mhlo, sdy and core ones."""
    global _registered
    context = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (sdy, stablehlo, chlo):
        dialect.register_dialect(context)
    _mlirHlo.register_mhlo_dialect(context)
    if not _registered:
        _mlirHlo.register_mhlo_passes()
        stablehlo.register_stablehlo_passes()
        _registered = True
    context.allow_unregistered_dialects = allow_unregistered or bool(_foreign)
    # Passes and diagnostic handlers in Python need the interpreter lock, which the thread running MLIR holds.
    context.enable_multithreading(False)
    _contexts.add(context)
    return context


def is_our_context(context: ir.Context) -> bool:
    """Whether `new_context` created a context, so that passes can run in it."""
    return context in _contexts


def source_location(location: ir.Location) -> SourceLocation | None:
    """The location of an operation: in the user's source if the module has it, else in the text.

    For a call stack, it is the innermost frame, which JAX writes first.
    """
    innermost = location
    while isinstance(innermost, ir.NameLoc | ir.CallSiteLoc):  # the text of a stack is long
        innermost = innermost.child_loc if isinstance(innermost, ir.NameLoc) else innermost.callee
    match = _LOCATION.search(str(innermost)) or _LOCATION.search(str(location))
    if match is None:
        return None
    return SourceLocation(match[1], int(match[2]), int(match[3]))


def name_in(location: ir.NameLoc) -> str:
    """The name of a location, parsed from its text, since the bindings crash on names that are not UTF-8."""
    match = re.match(r'loc\(("(?:[^"\\]|\\.)*")', str(location))
    return os.fsencode(unquote(match[1])).decode(errors="backslashreplace") if match else ""


@contextlib.contextmanager
def mlir_errors(context: ir.Context, kind: type[Error] = ParseError, filename: str | None = None) -> Iterator[None]:
    """In this context, a failure of MLIR becomes one located error, from the first diagnostic; `filename` replaces `-`.

    A handler collects diagnostics, since the bindings crash on those that quote invalid UTF-8. Existing listeners
    (`diagnostics.listening`) get them, too.
    """
    heard: list[tuple[str, SourceLocation | None, tuple[Note, ...]]] = []

    def hear(diagnostic: ir.Diagnostic) -> bool:
        if diagnostic.severity == ir.DiagnosticSeverity.ERROR:
            place = _named(source_location(diagnostic.location), filename)
            heard.append((message_of(diagnostic), place, _notes(diagnostic, filename)))
        return True

    listened = context.emit_error_diagnostics
    handler: ir.DiagnosticHandler | None = None if listened else context.attach_diagnostic_handler(hear)
    context.emit_error_diagnostics = True
    try:
        yield
    except ir.MLIRError as error:
        if not heard:
            raise kind(error.message or str(error)) from None
        text, location, notes = heard[0]
        op, message = split_subject(text)
        code = code_of_invalid(text) if kind is ParseError else code_of(text)
        raise kind(message, location=location, op=op, code=code, notes=notes) from None
    except (RuntimeError, ValueError, MemoryError) as error:  # raised in C++, for example for sizes beyond memory
        raise kind(f"jaxlib fails: {' '.join(str(error).split())}") from None
    finally:
        context.emit_error_diagnostics = listened
        if handler is not None:
            handler.detach()


_LONGEST_WORD, _LONGEST_MESSAGE = 200, 1000  # characters; MLIR quotes types of any number of dimensions


def message_of(diagnostic: ir.Diagnostic) -> str:
    """The message of a diagnostic, on one line of bounded length."""
    try:
        words = str(diagnostic.message).split()
    except RuntimeError:  # raised for invalid UTF-8
        return "is refused, in a message that is not UTF-8"
    text = " ".join(word if len(word) <= _LONGEST_WORD else f"{word[:150]}...{word[-40:]}" for word in words)
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:800]} ... {text[-150:]}"


def _notes(diagnostic: ir.Diagnostic, filename: str | None) -> tuple[Note, ...]:
    """The notes with other locations, without MLIR's dump of the operation."""
    notes = []
    for note in diagnostic.notes:
        message = message_of(note)
        if not message.startswith("see current operation:"):
            notes.append(Note(message, _named(source_location(note.location), filename)))
    return tuple(notes)


def _named(location: SourceLocation | None, filename: str | None) -> SourceLocation | None:
    """The location, with this file name if MLIR does not know it."""
    if location is not None and location.file == "-" and filename:
        return SourceLocation(filename, location.line, location.column)
    return location


def split_subject(message: str) -> tuple[str | None, str]:
    """MLIR's `'stablehlo.add' op is wrong` split into the name of the operation, if any, and the rest."""
    match = re.match(r"'([\w.]+)' op ", message)
    return (match[1], message[match.end() :]) if match else (None, message)


def parse_module(source: str | bytes, context: ir.Context, filename: str = "-") -> ir.Module:
    """Read a module from a user's MLIR text or bytecode, and verify it.

    Input that could crash the process is refused, or tried in another process. Operations without locations get their
    position in the text, with the file name `-`. Raises ParseError, located in `filename`.
    """
    if isinstance(source, bytes) and source.startswith(BYTECODE_MAGIC):
        rewritten = tried(source, Format.BYTECODE, filename, context.allow_unregistered_dialects)
        return parse_written(rewritten, context, filename)
    return parse_written(_checked(source, context, filename), context, filename)


def parse_written(source: str | bytes, context: ir.Context, filename: str = "-") -> ir.Module:
    """Read text written by MLIR, in this process or in a trial, which is safe."""
    with mlir_errors(context, ParseError, filename), context, ir.Location.unknown(context):
        return ir.Module.parse(source)


def read_module(path: str, context: ir.Context) -> ir.Module:
    """Read and verify the module in a file of MLIR text or bytecode; `-` is stdin.

    Operations without locations get their position in the file, with the file name `path`. Raises InputError if the
    file cannot be read, ParseError with the location if it is not a module.
    """
    source, regular = read_source(path)
    if not regular or source.startswith(BYTECODE_MAGIC) or not _is_text(path):
        return parse_module(source, context, "<stdin>" if path == "-" else path)
    _checked(source, context, path)
    with mlir_errors(context, ParseError, path), context, ir.Location.unknown(context):
        return ir.Module.parseFile(path)


def _is_text(path: str) -> bool:
    """Whether the bindings accept a path: file names may be any bytes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _checked(source: str | bytes, context: ir.Context, filename: str) -> str:
    """The text, checked for parsing in this process. Raises ParseError."""
    try:
        data, text = (source, source.decode()) if isinstance(source, bytes) else (source.encode(), source)
    except UnicodeError as error:
        raise ParseError(
            f"'{filename}' is neither MLIR text nor MLIR bytecode", hint="give a .mlir file", code=Code.UNKNOWN_FORMAT
        ) from error
    check_text(data, filename)
    odd = first_oddity(data)
    if odd is not None:
        try:
            tried(data, Format.TEXT, filename, context.allow_unregistered_dialects)
        except ParseError as error:
            raise error.at(location_in(data, odd, filename)) from None
    return text


def upgraded(module: ir.Module, filename: str | None = None) -> None:
    """Convert the versioned dialect of portable artifacts to StableHLO, in place. Raises ParseError."""
    upgrade = f"vhlo-to-version{{target={stablehlo.get_current_version()}}},vhlo-legalize-to-stablehlo"
    with mlir_errors(module.context, ParseError, filename), module.context:
        PassManager.parse(f"builtin.module({upgrade})").run(module.operation)


def read_source(path: str) -> tuple[bytes, bool]:
    """The bytes of a file, or of stdin for `-`, and whether it can be read again. Raises InputError."""
    if path == "-":
        return keep(STDIN, as_utf8(sys.stdin.buffer.read())), False
    with reading(path, hint="give a .mlir file, or - for stdin") as file:
        written = file.read()
        is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    source = as_utf8(written)
    return source, source is written and is_regular


class Located(Protocol):
    """The interface that errors need of an operation, of MLIR or in memory."""

    @property
    def name(self) -> str: ...

    @property
    def location(self) -> ir.Location: ...


@contextlib.contextmanager
def located(op: Located) -> Iterator[None]:
    """In this context, errors get the name and location of this operation, unless they have their own."""
    try:
        yield
    except Error as error:
        raise error.at(source_location(op.location), op.name) from None
