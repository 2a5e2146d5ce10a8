"""Compiled files: what is damaged, made up or too large is refused before any of it runs."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gspmd
from gspmd.compiled.file import CompiledFile, FileHeader, compiled_bytes, is_compiled, read_compiled
from gspmd.dialect.errors import InputError
from gspmd.tools import cli

PROGRAM = """
sdy.mesh @mesh = <["x"=4]>
func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.negate %a : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""
ABOUT = FileHeader("cpu", (0, 1, 2, 3), "0.10.2", "cpu")
FILE = CompiledFile(ABOUT, b"module", b"code")
_MAGIC = b"gspmd compiled program 2\n"


@pytest.fixture(scope="module")
def compiled() -> bytes:
    return gspmd.compile_for(PROGRAM, "cpu").serialized()


def read(tmp_path: Path, content: bytes) -> CompiledFile:
    path = tmp_path / "program.gspmd"
    path.write_bytes(content)
    assert is_compiled(path)
    return read_compiled(path)


def made_up(header: bytes, parts: bytes = b"") -> bytes:
    """A file with a digest that is right, whatever its header says."""
    rest = len(header).to_bytes(8, "little") + header + parts
    return _MAGIC + hashlib.sha256(rest).digest() + rest


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, compiled_bytes(FILE)) == FILE


def test_no_flipped_bit_goes_unnoticed(tmp_path: Path, compiled: bytes) -> None:
    rng = random.Random(0)
    for _ in range(200):
        at, bit = rng.randrange(len(_MAGIC), len(compiled)), 1 << rng.randrange(8)
        changed = compiled[:at] + bytes([compiled[at] ^ bit]) + compiled[at + 1 :]
        with pytest.raises(InputError, match="is not as it was written"):
            read(tmp_path, changed)


def test_no_part_may_be_missing_or_added(tmp_path: Path, compiled: bytes) -> None:
    for length in (len(_MAGIC), len(_MAGIC) + 31, len(_MAGIC) + 40, len(compiled) // 2, len(compiled) - 1):
        with pytest.raises(InputError, match="is not as it was written"):
            read(tmp_path, compiled[:length])
    with pytest.raises(InputError, match="is not as it was written"):
        read(tmp_path, compiled + b"\0")


def said(**changes: Any) -> bytes:
    header = {"target": "cpu", "ids": [0], "jaxlib": "1", "compiler": "c", "partitioned": 0, "executable": 0}
    return json.dumps({**header, **changes}).encode()


HEADERS: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{",
    "no UTF-8": b"\xff\xfe{}",
    "deep": b"[" * 100_000,
    "an object without keys": b"{}",
    "a list": b"[]",
    "null": b"null",
    "a key too many": said(more=1),
    "a target that is a number": said(target=5),
    "an empty target": said(target=""),
    "no ids": said(ids=[]),
    "ids twice": said(ids=[0, 0]),
    "negative ids": said(ids=[-1]),
    "ids that are no numbers": said(ids=["0"]),
    "ids that are truths": said(ids=[True]),
    "huge ids": said(ids=[10**12]),
    "ids in an object": said(ids={"0": 0}),
    "a negative size": said(partitioned=-1, executable=1),
    "a size that is not there": said(executable=10**15),
    "a size that is a fraction": said(executable=0.0),
}


@pytest.mark.parametrize("what", HEADERS)
def test_headers_that_cannot_be(what: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not as it was written"):
        read(tmp_path, made_up(HEADERS[what]))


def test_a_header_longer_than_the_file(tmp_path: Path) -> None:
    rest = (1 << 63).to_bytes(8, "little") + said()
    with pytest.raises(InputError, match="its header is too short or too long"):
        read(tmp_path, _MAGIC + hashlib.sha256(rest).digest() + rest)


LOADED: dict[str, Callable[[CompiledFile], CompiledFile]] = {
    "a module that is none": lambda file: CompiledFile(file.about, b"module", file.executable),
    "code that is none": lambda file: CompiledFile(file.about, file.partitioned, b"code"),
    "no code": lambda file: CompiledFile(file.about, file.partitioned, b""),
    "other devices": lambda file: CompiledFile(
        FileHeader("cpu", (0, 1), file.about.jaxlib, file.about.compiler), file.partitioned, file.executable
    ),
    "no such platform": lambda file: CompiledFile(
        FileHeader("npu", file.about.ids, file.about.jaxlib, file.about.compiler), file.partitioned, file.executable
    ),
}


@pytest.mark.parametrize("what", LOADED)
def test_files_made_up_with_the_right_digest(what: str, tmp_path: Path, compiled: bytes) -> None:
    """In a process of its own, which native code may end."""
    changed = LOADED[what](read(tmp_path, compiled))
    path = tmp_path / "changed.gspmd"
    path.write_bytes(compiled_bytes(changed))
    finished = subprocess.run(
        [sys.executable, "-m", "gspmd.tools.cli", "run", str(path)], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 1, finished.stderr
    assert finished.stderr.count("error: ") == 1
    assert "Traceback" not in finished.stderr


def test_a_file_of_an_earlier_gspmd(tmp_path: Path) -> None:
    path = tmp_path / "old.gspmd"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("about.json", "{}")
    with pytest.raises(InputError, match="was compiled by an earlier gspmd; compile it again"):
        read_compiled(path)


def test_an_archive_that_unpacks_to_more_than_memory_is_not_unpacked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As arguments of a run: their sizes are looked at first."""
    program, archive = tmp_path / "p.mlir", tmp_path / "in.npz"
    program.write_text(PROGRAM)
    head = b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("0.npy", head.ljust(127) + b"\n" + bytes(1 << 20))
    assert cli.main(["run", str(program), "--inputs", str(archive)]) == 1
    assert "argument 0 has shape (1000000000000,), expected the global shape (8,)" in capsys.readouterr().err
