"""Files as editors and shells on Windows write them mean what others do: CRLF, byte order marks, UTF-16."""

from __future__ import annotations

import codecs
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import gspmd
from gspmd.dialect.source_text import as_utf8
from gspmd.tools import cli

PROGRAM = """// A product.
module @product {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func @main(%a: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                  %w: tensor<32x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<64x128xf32> {
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]  // over two lines
      : (tensor<64x32xf32>, tensor<32x128xf32>) -> tensor<64x128xf32>
    return %0 : tensor<64x128xf32>
  }
}
"""
HLO = """HloModule product, num_partitions=8, entry_computation_layout={(f32[64]{0})->f32[64]{0}}

ENTRY %main (a: f32[64]) -> f32[64] {
  %a = f32[64]{0} parameter(0), sharding={devices=[8]<=[8]}
  ROOT %r = f32[64]{0} add(%a, %a)
}
"""
TARGET = """like = "h100"

[memory]
bytes = 1000000
"""
REFUSED = """func.func @unknown(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{custom op 'stablehlo.nonsense' is unknown}}
  %0 = stablehlo.nonsense %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

sdy.mesh @mesh = <["x"=4]>
// expected-error @below {{duplicate axis ref: "x"}}
func.func @twice(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"x"}]>}) {
  return
}
"""


def utf_16(text: bytes) -> bytes:
    return text.decode().encode("utf-16")


def with_mark(text: bytes) -> bytes:
    return text.decode().encode("utf-8-sig")


Encoding = Callable[[bytes], bytes]
ENCODED = pytest.mark.parametrize("encoded", [with_mark, utf_16])


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=["\n", "\r\n"], ids=["lf", "crlf"])
def ending(request: pytest.FixtureRequest, in_folder: Path) -> bytes:
    return str(request.param).encode()


def write(name: str, text: str, ending: bytes) -> None:
    Path(name).write_bytes(text.encode().replace(b"\n", ending))


def opt(*args: str, stdin: bytes = b"") -> tuple[int, str, str]:
    command = [sys.executable, "-P", "-m", "gspmd.tools.opt", *args]
    done = subprocess.run(command, input=stdin, capture_output=True, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize(("name", "text"), [("p.mlir", PROGRAM), ("p.hlo", HLO)])
def test_programs_are_partitioned(name: str, text: str, capsys: pytest.CaptureFixture[str], ending: bytes) -> None:
    written = []
    for one in (b"\n", ending):
        write(name, text, one)
        assert cli.main(["partition", name, "--report", "-o", "out.mlir"]) == 0
        written.append((Path("out.mlir").read_bytes(), capsys.readouterr()))
    assert written[0] == written[1]
    assert b"num_partitions = 8" in written[0][0]
    assert b"\r" not in written[0][0]


def test_values_are_found_by_their_names_in_the_file(capsys: pytest.CaptureFixture[str], ending: bytes) -> None:
    write("p.mlir", PROGRAM, ending)
    assert cli.main(["explain", "p.mlir", "--value", "%w"]) == 0
    assert "p.mlir:5" in capsys.readouterr().out


def test_targets_and_budgets_are_read(capsys: pytest.CaptureFixture[str], ending: bytes) -> None:
    write("p.mlir", PROGRAM, ending)
    write("small.toml", TARGET, ending)
    assert cli.main(["cost", "p.mlir", "--target", "small.toml", "--write-budget", "budget.json"]) == 0
    write("budget.json", Path("budget.json").read_text(), ending)
    assert cli.main(["cost", "p.mlir", "--budget", "budget.json"]) == 0
    write("budget.toml", "sent_bytes = 1\n", ending)
    assert cli.main(["cost", "p.mlir", "--budget", "budget.toml"]) == 3
    write("small.toml", TARGET.replace("1000000", '"many"'), ending)
    capsys.readouterr()
    assert cli.main(["cost", "p.mlir", "--target", "small.toml"]) != 0
    assert "small.toml:4:1: error: 'memory.bytes' is 'many'; expected a number" in capsys.readouterr().err


def test_programs_are_split_and_their_diagnostics_verified(ending: bytes) -> None:
    write("p.mlir", REFUSED, ending)
    checked = ["p.mlir", "--split-input-file", "--verify-diagnostics", "--gspmd-ingest"]
    assert opt(*checked) == (0, "", "")
    code, _, printed = opt("p.mlir", "--split-input-file", "--gspmd-ingest")
    assert code == 1
    assert "p.mlir:3:8: error: custom op 'stablehlo.nonsense' is unknown" in printed
    assert "p.mlir:11:1: error: 'func.func' op arg 0 - duplicate axis ref" in printed
    write("p.mlir", REFUSED.replace("duplicate", "second"), ending)
    code, _, printed = opt(*checked)
    assert code == 1
    assert 'p.mlir:10:4: error: expected error "second axis ref: "x"" was not produced' in printed


def test_programs_come_from_stdin(ending: bytes) -> None:
    code, printed, _ = opt("--gspmd-partition", stdin=PROGRAM.encode().replace(b"\n", ending))
    assert code == 0
    assert (code, printed, "") == opt("--gspmd-partition", stdin=PROGRAM.encode())


@ENCODED
@pytest.mark.parametrize(("name", "text"), [("p.mlir", PROGRAM), ("p.hlo", HLO)])
def test_encodings_of_programs(encoded: Encoding, name: str, text: str, in_folder: Path) -> None:
    Path("plain" + name).write_text(text)
    Path(name).write_bytes(encoded(text.encode()))
    assert str(gspmd.partition(Path(name))) == str(gspmd.partition(Path("plain" + name)))


@ENCODED
def test_encodings_of_streams(encoded: Encoding) -> None:
    split = ["--split-input-file", "--gspmd-ingest"]
    assert opt(*split, stdin=encoded(PROGRAM.encode())) == opt(*split, stdin=PROGRAM.encode())


@ENCODED
def test_encodings_of_refused_programs(encoded: Encoding, in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.mlir").write_bytes(encoded(REFUSED.encode()))
    assert cli.main(["partition", "p.mlir", "--diagnostics=full"]) == 1
    where, line, caret = capsys.readouterr().err.splitlines()[:3]
    assert where.startswith("p.mlir:3:8: error: custom op")
    assert line == " 3 |   %0 = stablehlo.nonsense %a : tensor<4xf32>"
    assert caret == "   |        ^"


@ENCODED
def test_encodings_of_targets_and_budgets(encoded: Encoding, in_folder: Path) -> None:
    Path("p.mlir").write_text(PROGRAM)
    Path("small.toml").write_bytes(encoded(TARGET.encode()))
    assert cli.main(["cost", "p.mlir", "--target", "small.toml", "--write-budget", "budget.json"]) == 0
    Path("budget.json").write_bytes(encoded(Path("budget.json").read_bytes()))
    assert cli.main(["cost", "p.mlir", "--budget", "budget.json"]) == 0
    Path("budget.toml").write_bytes(encoded(b"sent_bytes = 1\n"))
    assert cli.main(["cost", "p.mlir", "--budget", "budget.toml"]) == 3


def test_a_mark_of_utf_16_before_what_is_none() -> None:
    data = codecs.BOM_UTF16_LE + b"\x00\xd8"
    assert as_utf8(data) == data
