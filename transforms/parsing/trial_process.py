"""The process of a trial: input on stdin, result or error on stdout.

The result follows a line `{}`; an error is a line of JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from gspmd.dialect.errors import Error, ParseError
from gspmd.transforms.parsing.mlir import new_context, parse_written, source_location, upgraded
from gspmd.transforms.parsing.suspicion import check_text
from gspmd.transforms.parsing.trial import Format


def main(arguments: Sequence[str]) -> int:
    """Exit code 0, also for an error that is reported."""
    name, memory, *flags = arguments
    _limit(int(memory))
    data = sys.stdin.buffer.read()
    try:
        allow = "--allow-unregistered" in flags
        result = _run(data, flags[0], allow) if name == Format.PASSES.value else _read(data, Format(name), allow)
    except Exception as raised:  # noqa: BLE001 - C++ may raise anything
        error = raised if isinstance(raised, Error) else ParseError(f"jaxlib fails: {' '.join(str(raised).split())}")
        place = error.location
        location = [place.file, place.line, place.column] if place else None
        said = {
            "message": error.message,
            "op": error.op,
            "hint": error.hint,
            "code": error.code,
            "location": location,
        }
        sys.stdout.buffer.write(json.dumps(said).encode() + b"\n")
        return 0
    sys.stdout.buffer.write(b"{}\n" + result)
    sys.stdout.buffer.flush()
    return 0


def _limit(memory: int) -> None:
    """Limit memory and disable core dumps, on platforms with resource limits."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def _read(data: bytes, kind: Format, allow_unregistered: bool) -> bytes:
    if kind in (Format.HLO_TEXT, Format.HLO_PROTO):
        from gspmd.transforms.parsing import hlo

        return hlo.text_to_mlir(data.decode()) if kind is Format.HLO_TEXT else hlo.proto_to_mlir(data)
    context = new_context(allow_unregistered)
    module = parse_written(data.decode() if kind is Format.TEXT else data, context)
    if kind is Format.PORTABLE_ARTIFACT:
        upgraded(module)
    text = module.operation.get_asm(binary=True, enable_debug_info=True)
    check_text(text, "-")
    _touch(module.operation)
    if kind is Format.TEXT:
        return b""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    parse_written(buffer.getvalue(), context)
    return buffer.getvalue()


def _run(data: bytes, pipeline: str, allow_unregistered: bool) -> bytes:
    """Run passes on a module and discard it; an error is fine."""
    module = parse_written(data, new_context(allow_unregistered))
    manager = PassManager("builtin.module", module.context)
    manager.add(pipeline)
    with contextlib.suppress(ir.MLIRError):
        manager.run(module.operation)
    return b""


def _touch(op: ir.Operation) -> None:
    """Read all attributes in Python, since the bindings may crash on locations. Raises ParseError."""
    for name in op.attributes:
        try:
            _touch_attribute(op.attributes[name])
        except TypeError as error:  # raised for complex constants, which is harmless
            if "Loc" in str(error):
                location = source_location(op.location)
                raise ParseError(f"attribute '{name}' has a location for a value", location=location) from None
    for region in op.regions:
        for block in region:
            for inner in block:
                _touch(inner.operation)


def _touch_attribute(attribute: ir.Attribute) -> None:
    if isinstance(attribute, ir.DictAttr):
        for entry in attribute:
            _touch_attribute(attribute[entry.name])
    elif isinstance(attribute, ir.ArrayAttr):
        for element in attribute:
            _touch_attribute(element)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
