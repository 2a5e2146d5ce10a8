"""`gspmd check --bisect`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.planted import PLANTED, PROGRAM

from gspmd.tools import cli

SORT = next(planted for planted in PLANTED if planted.name == "a localizer fails")
SUM = next(planted for planted in PLANTED if planted.name == "partial sums are not summed")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    Path("p.mlir").write_text(PROGRAM)
    return tmp_path


def run(*arguments: str) -> int:
    return cli.main(["check", *arguments])


def test_the_fault_is_told_and_a_small_program_written(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    SUM.plant(monkeypatch)
    assert run("p.mlir", "--bisect") == 3
    output = capsys.readouterr()
    (told,) = [line for line in output.out.splitlines() if line.startswith("at fault: ")]
    line = 1 + next(n for n, text in enumerate(PROGRAM.splitlines()) if "stablehlo.dot_general" in text)
    assert told.startswith(f"at fault: pass 'gspmd-localize', at 'stablehlo.dot_general' %0 at p.mlir:{line}:")
    assert "'sdy.all_reduce'" in told
    found = re.search(r"a reduced program to report is in (\S+)", output.out)
    assert found
    assert Path(found[1]).parent == folder
    assert run(found[1]) == 3
    assert output.err == ""


@pytest.mark.usefixtures("folder")
def test_json_and_a_file(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    SORT.plant(monkeypatch)
    assert run("p.mlir", "--bisect", "--json", "--reduced", "small.mlir") == 3
    found: Any = json.loads(capsys.readouterr().out)
    assert not found["passed"]
    assert found["runs"] == []
    fault = found["fault"]
    assert (fault["pass_name"], fault["operation"], fault["value"]) == ("gspmd-localize", "stablehlo.sort", "%5")
    assert fault["problem"].startswith("cannot be partitioned: KeyError")
    assert Path("small.mlir").read_text() == fault["reduced"]


def test_a_program_that_is_right(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("p.mlir", "--bisect", "--reduced", "small.mlir") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "PASS: 4 results agree"
    assert [path.name for path in folder.iterdir()] == ["p.mlir"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["p.mlir", "--reduced", "small.mlir"], 2, "--reduced without --bisect"),
        (["p.mlir", "--bisect", "--platform", "tpu"], 2, "--bisect with --platform"),
        (["p.mlir", "--bisect", "--reduced", "nowhere/small.mlir"], 1, "cannot write 'nowhere/small.mlir'"),
        (["missing.mlir", "--bisect"], 1, "cannot read 'missing.mlir'"),
        (["p.mlir", "--bisect", "--strict"], 1, "reshard"),
        (["p.mlir", "--bisect", "--seed", "-1"], 2, "--seed is -1"),
        (["p.mlir", "--bisect", "--inputs", "missing.npz"], 1, "cannot read 'missing.npz'"),
    ],
)
def test_errors(capsys: pytest.CaptureFixture[str], words: list[str], status: int, message: str) -> None:
    assert run(*words) == status
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert "Traceback" not in output.err
