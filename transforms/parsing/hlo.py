"""HLO as MLIR text, by the converter inside jaxlib: C++ that crashes on unexpected input.

So these functions are called only in a separate process (`trial`).
"""

from __future__ import annotations

import re

from jaxlib import _hlo, _jax, xla_client

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, ParseError, SourceLocation
from gspmd.transforms.parsing.trial import FORMATS

_POSITION = re.compile(r"(?:was parsing )?(\d+):(\d+): error: ([^\n]*)")


def text_to_mlir(text: str) -> bytes:
    """The module for an HLO text. Raises ParseError, located in `-` if XLA gives a location."""
    try:
        return _convert(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
    except (RuntimeError, ValueError, TypeError) as error:
        raise _error(error) from None


def proto_to_mlir(data: bytes) -> bytes:
    """The module of a serialized `HloModuleProto`, or of the `HloProto` around one. Raises ParseError."""
    payload = _first_field(data)
    # Field 1 of an HloProto is a module, which starts with its own field 1; that of an HloModuleProto is its name.
    for proto in [payload, data] if payload[:1] == b"\x0a" else [data]:
        try:
            if not _hlo.HloModule.from_serialized_hlo_module_proto(proto).computations():
                continue
        except (RuntimeError, ValueError, TypeError):
            continue
        try:
            return _convert(proto)
        except (RuntimeError, ValueError, TypeError) as error:
            raise _error(error) from None
    raise ParseError("'-' is in no format that gspmd reads", hint=f"give {FORMATS}", code=Code.UNKNOWN_FORMAT)


def _convert(proto: bytes) -> bytes:
    text: str | bytes = _jax.mlir.xla_computation_to_mlir_module(xla_client.XlaComputation(proto))
    return text if isinstance(text, bytes) else text.encode()


def _error(error: Exception) -> Error:
    match = _POSITION.search(str(error))
    if match is None:
        return ParseError(f"'-' is not valid HLO: {_first_line(error)}")
    message = match[3].split(", error: ")[-1]
    return ParseError(message[:1].lower() + message[1:], location=SourceLocation("-", int(match[1]), int(match[2])))


def _first_field(data: bytes) -> bytes:
    """The payload of a protocol buffer that starts with a length-delimited field 1; else empty."""
    length = 0
    for index, byte in enumerate(data[1:11]):
        length |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return data[index + 2 : index + 2 + length] if data[0] == 0x0A else b""
    return b""


def _first_line(error: BaseException) -> str:
    return re.sub(r"^[A-Z_]+: ", "", str(error)).strip().partition("\n")[0]
