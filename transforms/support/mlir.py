"""The door to jaxlib's MLIR: contexts, reading modules, locations, and MLIR's errors as ours.

Nothing here or above it in `transforms` imports jax, only the bindings inside jaxlib.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext, _mlirHlo
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, InputError, Note, ParseError, SourceLocation, Unsupported
from gspmd.dialect.source_text import STDIN, keep
from gspmd.transforms.support.mlir_faults import code_of, code_of_invalid

_LOCATION = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')
_BYTECODE_MAGIC = b"ML\xefR"
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
    # Passes and diagnostic handlers in Python need the interpreter lock, which the thread that runs MLIR holds.
    context.enable_multithreading(False)
    return context


def main_function(module: ir.Module) -> Any:
    """The function @main. Raises ParseError where there is none, Unsupported where its body is not one block."""
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    for function in functions:
        if function.sym_name.value == "main":
            if len(function.regions[0].blocks) != 1:
                location = source_location(function.location)
                raise Unsupported(
                    "has a body of several blocks; expected one", op="func.func", location=location, code=Code.CALLS
                )
            return function
    names = ", ".join(f"'@{function.sym_name.value}'" for function in functions) or "none"
    raise ParseError(
        f"the module has no function '@main'; its functions are {names}",
        hint="rename the entry function to '@main'",
        code=Code.NO_MAIN,
    )


def free_symbol(module: ir.Module, stem: str) -> str:
    """The first of `stem_0`, `stem_1`, ... that is no symbol of the module's."""
    symbols = {str(op.attributes["sym_name"]) for op in module.body.operations if "sym_name" in op.attributes}
    return next(name for i in range(len(symbols) + 1) if f'"{(name := f"{stem}_{i}")}"' not in symbols)


def function_named(op: Any, name: str) -> Any:
    """The function of that name in the module that the operation is in; operations that name one were verified."""
    top = op
    while top.parent is not None:
        top = top.parent
    found = (view.operation for view in top.regions[0].blocks[0].operations)
    return next(f for f in found if f.name == "func.func" and ir.StringAttr(f.attributes["sym_name"]).value == name)


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
    location = _named(source_location(first.location), filename)
    text = " ".join(first.message.split())
    op, message = split_subject(text)
    code = code_of_invalid(text) if kind is ParseError else code_of(text)
    return kind(message, location=location, op=op, code=code, notes=_notes(first, filename))


def _notes(diagnostic: Any, filename: str | None) -> tuple[Note, ...]:
    """The notes that name another place, without MLIR's dump of the operation."""
    notes = []
    for note in diagnostic.notes:
        message, location = " ".join(str(note.message).split()), source_location(note.location)
        if not message.startswith("see current operation:"):
            notes.append(Note(message, _named(location, filename)))
    return tuple(notes)


def _named(location: SourceLocation | None, filename: str | None) -> SourceLocation | None:
    """The location in the file of this name, if MLIR does not know the name."""
    if location is not None and location.file == "-" and filename:
        return SourceLocation(filename, location.line, location.column)
    return location


def split_subject(message: str) -> tuple[str | None, str]:
    """MLIR's `'stablehlo.add' op is wrong` as the operation's name, if there is one, and the rest."""
    match = re.match(r"'([\w.]+)' op ", message)
    return (match[1], message[match.end() :]) if match else (None, message)


def parse_module(source: str | bytes, context: ir.Context, filename: str = "-") -> ir.Module:
    """Read a module from MLIR text or bytecode and verify it. Raises ParseError, located in `filename`.

    Operations without locations of their own get their place in the text, under the name `-`.
    """
    try:
        if isinstance(source, bytes) and not source.startswith(_BYTECODE_MAGIC):
            source = source.decode()
        with context, ir.Location.unknown(context):
            return ir.Module.parse(source)
    except UnicodeDecodeError as error:
        raise ParseError(
            f"'{filename}' is neither MLIR text nor MLIR bytecode", hint="give a .mlir file", code=Code.UNKNOWN_FORMAT
        ) from error
    except ir.MLIRError as error:
        raise error_from_mlir(error, ParseError, filename) from None


def read_module(path: str, context: ir.Context) -> ir.Module:
    """Read and verify the module in a file of MLIR text or bytecode; `-` is stdin.

    Operations without locations of their own get their place in the file, under `path`.
    Raises InputError if there is nothing to read, ParseError with the location if it is not a module.
    """
    source, regular = read_source(path)
    if not regular or source.startswith(_BYTECODE_MAGIC):
        return parse_module(source, context, "<stdin>" if path == "-" else path)
    try:
        source.decode()
        with context, ir.Location.unknown(context):
            return ir.Module.parseFile(path)
    except UnicodeDecodeError as error:
        raise ParseError(
            f"'{path}' is neither MLIR text nor MLIR bytecode", hint="give a .mlir file", code=Code.UNKNOWN_FORMAT
        ) from error
    except ir.MLIRError as error:
        raise error_from_mlir(error, ParseError, path) from None


def read_source(path: str) -> tuple[bytes, bool]:
    """The bytes of a file, or of stdin for `-`, and whether it can be read a second time. Raises InputError."""
    if path == "-":
        return keep(STDIN, sys.stdin.buffer.read()), False
    try:
        with open(path, "rb") as file:
            return file.read(), stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except IsADirectoryError:
        raise InputError(f"'{path}' is a directory", hint="give a .mlir file, or - for stdin") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"cannot read '{path}': {reason.lower()}", hint="give a .mlir file, or - for stdin") from None


@contextlib.contextmanager
def located(op: Any) -> Iterator[None]:
    """Errors raised inside get this operation's name and location, unless they have their own."""
    try:
        yield
    except Error as error:
        operation = op.operation
        raise error.at(source_location(operation.location), operation.name) from None


def splice(op: Any) -> None:
    """Replace an operation by the content of its single block, whose arguments are its operands."""
    block = op.regions[0].blocks[0]
    for argument, operand in zip(block.arguments, op.operands, strict=True):
        argument.replace_all_uses_with(operand)
    *content, last = [view.operation for view in block.operations]
    for inner in content:
        inner.move_before(op)
    for result, value in zip(op.results, last.operands, strict=True):
        result.replace_all_uses_with(value)
    op.erase()
