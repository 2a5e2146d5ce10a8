"""Reading programs: a program in any supported format becomes a verified MLIR module.

The formats are MLIR text and bytecode, StableHLO portable artifacts, HLO text (`HloModule ...`), serialized
`HloModuleProto` and `HloProto` messages, MLIR modules of any context, and the results of JAX's `lower` and `export`.
jaxlib does the conversion from HLO; jax itself is not needed.
"""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import ParseError, SourceLocation, UsageError
from gspmd.dialect.limits import count_of
from gspmd.transforms.parsing.mlir import (
    BYTECODE_MAGIC,
    is_our_context,
    mlir_errors,
    new_context,
    parse_module,
    parse_written,
    read_module,
    read_source,
)
from gspmd.transforms.parsing.trial import FORMATS, Format, tried

_PORTABLE_PRODUCER = b"StableHLO_v"
_HLO_TEXT = re.compile(r"\s*(?://[^\n]*\n\s*|/\*.*?\*/\s*)*HloModule\b", re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_HLO_INSTRUCTION = re.compile(r"^[ \t]*(?:ROOT )?%?([\w.\-]+) = ", re.MULTILINE)
_ELIDED = re.compile(r"\bconstant\(\{\.\.\.\}\)")
_NAME_LOCATION = re.compile(r'loc\("([^"\\]+)"\)')


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramFile:
    """A path, even if its name looks like a program (`p{1}.mlir`), or `-` for stdin.

    For `pathlib.Path`, `./-` is `-`.
    """

    path: str

    def __fspath__(self) -> str:
        return self.path


def read_program(source: Any, context: ir.Context | None = None, filename: str | None = None) -> ir.Module:
    """Read a program into `context`; the result is a separate module, independent of `source`.

    Without a context, a module whose context was created here stays in it, which takes a tenth of the time; any other
    source gets a new context.

    `source` is the path of a file, the program itself as str or bytes, an `ir.Module`, or an object of JAX
    that holds one (`jax.jit(f).lower(...)`, `jax.export.export(...)(...)`). A str with a line break or a brace is a
    program, any other a path. `filename` is the name of the source in locations and errors.

    Raises InputError if a file cannot be read, ParseError if it is not a program (located if possible), UsageError for
    other objects.
    """
    if context is None:
        stays = isinstance(source, ir.Module) and is_our_context(source.context)
        context = source.context if stays else new_context()
    if isinstance(source, os.PathLike) or (isinstance(source, str) and not re.search(r"[\n{]", source)):
        return read_program_file(os.fspath(source), context)
    if isinstance(source, str | bytes | bytearray | memoryview):
        return parse_program(source if isinstance(source, str) else bytes(source), context, filename or "-")
    if isinstance(source, ir.Module):
        return _copy(source, context, filename)
    serialized = getattr(source, "mlir_module_serialized", None)
    if isinstance(serialized, bytes):
        return parse_program(serialized, context, filename or "-")
    if callable(getattr(source, "compiler_ir", None)):
        return _copy(source.compiler_ir("stablehlo"), context, filename)
    hint = "lower it first, as 'jax.jit(f).lower(*arguments)'" if callable(source) else f"give a path, {FORMATS}"
    raise UsageError(f"cannot read a program from an object of type '{type(source).__name__}'", hint=hint)


def read_program_file(path: str, context: ir.Context) -> ir.Module:
    """Read a program from a file in any of the formats; `-` is stdin. Raises InputError and ParseError."""
    source, regular = read_source(path)
    if regular and _is_mlir_text(source):
        return read_module(path, context)  # MLIR opens the file again, to give operations locations in it
    return parse_program(source, context, "<stdin>" if path == "-" else path)


def parse_program(source: str | bytes, context: ir.Context, filename: str = "-") -> ir.Module:
    """Read a program given as str or bytes, in any of the formats. Raises ParseError."""
    if isinstance(source, str):
        is_hlo = _HLO_TEXT.match(source) is not None
        return _from_hlo_text(source, context, filename) if is_hlo else parse_module(source, context, filename)
    if source.startswith(BYTECODE_MAGIC):
        portable = _PORTABLE_PRODUCER in source[:64]
        return (_from_portable_artifact if portable else parse_module)(source, context, filename)
    text = _decode(source)
    return _from_proto(source, context, filename) if text is None else parse_program(text, context, filename)


def _copy(module: ir.Module, context: ir.Context, filename: str | None) -> ir.Module:
    """Copy a module into another context, through text with locations, which unlike bytecode every context reads.

    Within a context, only attributes of the module that the bindings cannot read go through text.
    """
    attributes = _attributes(module) if module.context is context else None
    if attributes is not None:
        with mlir_errors(context, ParseError, filename), module.operation.location:
            copy = ir.Module.create()
            for op in module.body.operations:
                op.operation.clone(ir.InsertionPoint(copy.body))
            for name, attribute in attributes.items():
                copy.operation.attributes[name] = attribute
            copy.operation.verify()
            return copy
    return parse_written(module.operation.get_asm(enable_debug_info=True), context, filename or "-")


def _attributes(module: ir.Module) -> dict[str, ir.Attribute] | None:
    """The attributes of a module; None if the bindings cannot read one of them, such as a complex constant."""
    try:
        return dict(module.operation.attributes.items())
    except TypeError:
        return None


def _decode(source: bytes) -> str | None:
    """The bytes as text; None if they have control characters, as serialized messages do."""
    try:
        return None if _CONTROL.search(source) else source.decode()
    except UnicodeDecodeError:
        return None


def _is_mlir_text(source: bytes) -> bool:
    """Whether the bytes match no other format."""
    text = None if source.startswith(BYTECODE_MAGIC) else _decode(source)
    return text is not None and _HLO_TEXT.match(text) is None


def _from_portable_artifact(data: bytes, context: ir.Context, filename: str) -> ir.Module:
    """VHLO bytecode, as `jax.export` and `stablehlo.serialize_portable_artifact` write it."""
    return parse_written(tried(data, Format.PORTABLE_ARTIFACT, filename), context, filename)


# ---- HLO ------------------------------------------------------------------------------------------


def _from_hlo_text(text: str, context: ir.Context, filename: str) -> ir.Module:
    if elided := _ELIDED.search(text):  # XLA's parser would read zeros
        start = elided.start()
        raise ParseError(
            "the elements of a constant were left out of the text",
            hint="print it with large constants, or give the serialized HloModuleProto",
            location=SourceLocation(filename, text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)),
            code=Code.ELIDED,
        )
    converted = tried(_encode(text, filename), Format.HLO_TEXT, filename).decode()
    module = parse_module(_with_lines(converted, text, filename), context, filename)
    # The converter drops the number of partitions, which is not part of the proto.
    count = re.search(r"\bnum_partitions=(\d+)", text[text.index("HloModule") :].split("\n", 1)[0])
    if count:
        number = count_of(count[1])
        if number is None or number >= 1 << 31:
            raise ParseError(f"'num_partitions' is {count[1]:.40}", hint="give the number of devices", code=Code.SYNTAX)
        with context:
            int32 = ir.IntegerType.get_signless(32)
            module.operation.attributes["mhlo.num_partitions"] = ir.IntegerAttr.get(int32, number)
    return module


def _from_proto(data: bytes, context: ir.Context, filename: str) -> ir.Module:
    return parse_module(tried(data, Format.HLO_PROTO, filename), context, filename)


def _encode(text: str, filename: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ParseError(f"'{filename}' is not valid HLO: it is not UTF-8", hint=f"give {FORMATS}") from None


def _with_lines(converted: str, hlo: str, filename: str) -> str:
    """Give each operation with the name of an HLO instruction the location of that instruction."""
    places: dict[str, str] = {}
    quoted = filename.replace("\\", "\\\\").replace('"', '\\"')
    line, position = 1, 0
    for match in _HLO_INSTRUCTION.finditer(hlo):
        start = match.start(1)
        line += hlo.count("\n", position, start)
        position = start
        column = start - hlo.rfind("\n", 0, start)
        places[match[1]] = f'loc("{match[1]}"("{quoted}":{line}:{column}))'
    return _NAME_LOCATION.sub(lambda match: places.get(match[1], match[0]), converted)
