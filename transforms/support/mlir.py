"""The door to jaxlib's MLIR: contexts, reading modules, locations, and MLIR's errors as ours.

Nothing here or above it in `transforms` imports jax, only the bindings inside jaxlib.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext, _mlirHlo
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

from gspmd.dialect.errors import Error, ParseError, SourceLocation

_LOCATION = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')
_registered = False


def new_context(allow_unregistered: bool = False) -> ir.Context:
    """A context with the dialects that programs come in: func, stablehlo, chlo, mhlo, sdy and core ones."""
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
    context.allow_unregistered_dialects = allow_unregistered
    return context


def source_location(location: ir.Location) -> SourceLocation | None:
    """Where an operation comes from: the user's source if the module says so, else its place in the text.

    Of a call chain the innermost frame is taken, as JAX writes it first.
    """
    match = _LOCATION.search(str(location))
    if match is None:
        return None
    return SourceLocation(match[1], int(match[2]), int(match[3]))


def error_from_mlir(error: ir.MLIRError, kind: type[Error] = ParseError, filename: str | None = None) -> Error:
    """The first diagnostic of an MLIR failure as one located error; `filename` replaces MLIR's `-`."""
    diagnostics = list(error.error_diagnostics)
    if not diagnostics:
        return kind(error.message or str(error))
    first = diagnostics[0]
    location = source_location(first.location)
    if location is not None and location.file == "-" and filename:
        location = SourceLocation(filename, location.line, location.column)
    message = " ".join(first.message.split())
    op = re.match(r"'([\w.]+)' op ", message)
    if op:
        message = message[op.end() :]
    return kind(message, location=location, op=op[1] if op else None)


def parse_module(source: str | bytes, context: ir.Context, filename: str = "-") -> ir.Module:
    """Read a module from MLIR text or bytecode and verify it. Raises ParseError with the location.

    Operations without locations of their own get their place in the text, under `filename`.
    """
    try:
        if isinstance(source, bytes) and not source.startswith(b"ML\xefR"):
            source = source.decode()
        with context, ir.Location.unknown(context):
            return ir.Module.parse(source)
    except UnicodeDecodeError as error:
        raise ParseError(
            f"'{filename}' is neither MLIR text nor MLIR bytecode", hint="give a .mlir file"
        ) from error
    except ir.MLIRError as error:
        raise error_from_mlir(error, ParseError, filename) from None


@contextlib.contextmanager
def located(op: Any) -> Iterator[None]:
    """Errors raised inside get this operation's name and location, unless they have their own."""
    try:
        yield
    except Error as error:
        operation = op.operation
        raise error.at(source_location(operation.location), operation.name) from None
