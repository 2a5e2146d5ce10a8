"""Every format of programs is read, into the same module; what is none is refused with a place and a reason."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest
from jax import export
from jaxlib import _hlo
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from gspmd.dialect.errors import Error, InputError, ParseError, SourceLocation, UsageError
from gspmd.reading import parse_program, read_program
from gspmd.transforms.parsing.mlir import new_context, source_location

TEXT = """func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %arg0 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
HLO = """HloModule f, entry_computation_layout={(f32[4]{0})->f32[4]{0}}, num_partitions=2

ENTRY main.1 {
  a.1 = f32[4]{0} parameter(0), sharding={devices=[2]<=[2]}
  ROOT t.1 = f32[4]{0} tanh(a.1)
}
"""


def hlo_module() -> bytes:
    proto: bytes = _hlo.hlo_module_from_text(HLO).as_serialized_hlo_module_proto()
    return proto


def hlo_proto() -> bytes:
    """The module as field 1 of a message, as XLA dumps it, with a field 3 behind it."""
    module, length = hlo_module(), b""
    size = len(module)
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return b"\x0a" + length + bytes([size]) + module + b"\x1a\x00"


def bytecode() -> bytes:
    out = io.BytesIO()
    parse_program(TEXT, new_context()).operation.write_bytecode(out)
    return out.getvalue()


def portable_artifact() -> bytes:
    module = parse_program(TEXT, new_context())
    artifact: bytes = stablehlo.serialize_portable_artifact(module, "1.0.0")
    return artifact


@pytest.mark.parametrize(
    "source",
    [lambda: TEXT, TEXT.encode, bytecode, portable_artifact, lambda: HLO, HLO.encode, hlo_module, hlo_proto],
    ids=["text", "text-bytes", "bytecode", "portable", "hlo-text", "hlo-bytes", "hlo-module-proto", "hlo-proto"],
)
@pytest.mark.parametrize("from_file", [False, True])
def test_every_format(source: Callable[[], str | bytes], from_file: bool, tmp_path: Path) -> None:
    content = source()
    path = tmp_path / "program.bin"
    if from_file:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    module = read_program(path if from_file else content, new_context())
    assert module.operation.verify()
    assert "stablehlo.tanh %arg0 : tensor<4xf32>" in str(module)


@pytest.mark.parametrize("context", [None, new_context()], ids=["the same", "another"])
def test_modules_are_copied(context: ir.Context | None) -> None:
    original = parse_program(TEXT, new_context())
    copy = read_program(original, context)
    assert (copy.context is original.context) == (context is None)
    assert copy.operation.get_asm(enable_debug_info=True) == original.operation.get_asm(enable_debug_info=True)
    copy.body.operations[0].operation.erase()
    assert "stablehlo.tanh" in str(original)
    assert "stablehlo.tanh" not in str(copy)


@pytest.mark.parametrize("hold", [lambda low, _: low, lambda low, _: low.compiler_ir(), lambda _, exp: exp])
def test_what_jax_returns(hold: Callable[[object, object], object]) -> None:
    function, x = jax.jit(jax.numpy.tanh), np.ones(4, np.float32)
    module = read_program(hold(function.lower(x), export.export(function)(x)), new_context())
    assert "stablehlo.tanh" in str(module)


def test_locations_of_jax_survive() -> None:
    module = read_program(jax.jit(jax.numpy.tanh).lower(np.ones(4, np.float32)), new_context())
    place = source_location(module.body.operations[0].regions[0].blocks[0].operations[0].location)
    assert place is not None
    assert place.file == __file__


def test_operations_are_where_they_are_in_their_file(tmp_path: Path) -> None:
    for name, text, line in (("program.mlir", TEXT, 2), ("program.hlo", HLO, 5)):
        path = tmp_path / name
        path.write_text(text)
        module = read_program(path, new_context())
        function = next(op for op in module.body if op.operation.name == "func.func")
        place = source_location(function.regions[0].blocks[0].operations[0].location)
        assert place is not None
        assert (place.file, place.line) == (str(path), line)


def test_hlo_text_keeps_the_number_of_partitions() -> None:
    attributes = read_program(HLO, new_context()).operation.attributes
    assert ir.IntegerAttr(attributes["mhlo.num_partitions"]).value == 2


@pytest.mark.parametrize(
    ("source", "kind", "message", "place"),
    [
        ("no/such/file.mlir", InputError, "cannot read 'no/such/file.mlir': no such file or directory", None),
        (b"\xff\xfe\x00", ParseError, "'-' is in no format that gspmd reads", None),
        (b"\x0a\x03abc", ParseError, "'-' is in no format that gspmd reads", None),
        (TEXT.replace("%arg0 :", ":"), ParseError, "expected SSA operand", SourceLocation("-", 2, 22)),
        (HLO.replace("tanh(", "tahn("), ParseError, "unknown opcode: tahn", SourceLocation("-", 5, 24)),
        (
            HLO.replace("f32[4]{0} parameter", "f32[4]{0 parameter"),
            ParseError,
            "expects layout to end",
            SourceLocation("-", 4, 18),
        ),
        (HLO.replace("tanh(a.1)", "constant({...})"), ParseError, "elements of a constant", SourceLocation("-", 5, 24)),
        (b"ML\xefRnonsense", ParseError, "", SourceLocation("-", 0, 0)),
        (portable_artifact()[:60], ParseError, "", SourceLocation("-", 0, 0)),
        (3, UsageError, "cannot read a program from an object of type 'int'", None),
        (len, UsageError, "lower it first", None),
    ],
)
def test_refusals(source: object, kind: type[Error], message: str, place: SourceLocation | None) -> None:
    with pytest.raises(kind) as raised:
        read_program(source, new_context())
    assert message in str(raised.value)
    if place is not None:
        assert raised.value.location == place


def test_gspmd_opt_reads_hlo_text_without_jax(tmp_path: Path) -> None:
    path = tmp_path / "program.hlo"
    path.write_text(HLO)
    code = (
        "import sys; from gspmd.tools.opt import main\n"
        f"status = main(['--gspmd-ingest', {str(path)!r}])\n"
        "assert 'jax' not in sys.modules; sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '#sdy.sharding<@mesh, [{"axis_0"}]>' in done.stdout
