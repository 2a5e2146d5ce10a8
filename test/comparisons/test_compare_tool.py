"""`gspmd compare`, with one program and with two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.compared_programs import GATHERED, PRODUCT

from gspmd.tools import cli


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("p.mlir").write_text(PRODUCT)
    Path("less.mlir").write_text(PRODUCT.replace('[{"x"}, {"y"}]', '[{}, {"y"}]', 1))
    Path("bad.mlir").write_text("func.func @main(")
    return tmp_path


def run(*arguments: str) -> int:
    return cli.main(["compare", *arguments])


@pytest.mark.usefixtures("folder")
def test_text_of_a_second_opinion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("p.mlir") == 0
    output = capsys.readouterr()
    assert output.err == ""
    lines = output.out.splitlines()
    assert lines[0] == "x=4, y=2 (8 devices), target neutral"
    assert lines[2].split() == ["gspmd", "XLA", "GSPMD", "XLA", "Shardy"]
    rows = {line.strip().split("  ")[0]: line.split()[-1] for line in lines[3:12] if line}
    assert rows["results"] == "agree"
    assert rows["bytes sent"] == "KiB"
    assert lines[-1] == "the traffic of every line is the same for all"
    assert max(map(len, lines)) <= 80


@pytest.mark.usefixtures("folder")
def test_json_of_a_second_opinion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("p.mlir", "--json", "--no-run", "--max-increase", "0") == 0
    found: Any = json.loads(capsys.readouterr().out)
    assert found["mesh"] == {"x": 4, "y": 2}
    assert [opinion["partitioner"] for opinion in found["opinions"]] == ["gspmd", "XLA GSPMD", "XLA Shardy"]
    assert found["opinions"][0]["figures"]["sent_bytes"] == GATHERED
    assert found["opinions"][0]["agrees"] is None
    assert found["increases"] == []


@pytest.mark.usefixtures("folder")
def test_two_versions(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("less.mlir", "p.mlir") == 0
    assert "traffic of the lines that changed:" in capsys.readouterr().out
    assert run("less.mlir", "p.mlir", "--max-increase", "memory=1000%", "--max-increase", "5%") == 3
    output = capsys.readouterr()
    assert "gspmd: limit exceeded: bytes sent: 6.0 KiB (6144 bytes), against 0 B (0 bytes)" in output.err
    assert max(map(len, output.out.splitlines())) <= 80
    assert run("p.mlir", "less.mlir", "--max-increase", "0", "--json") == 0
    found: Any = json.loads(capsys.readouterr().out)
    assert found["old"]["sent_bytes"] == GATHERED
    assert found["new"]["sent_bytes"] == 0
    assert [each["name"] for each in found["arguments"]] == ["argument 1"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["missing.mlir"], 1, "cannot read 'missing.mlir'"),
        (["bad.mlir"], 1, "bad.mlir:1:"),
        (["p.mlir", "bad.mlir"], 1, "bad.mlir:1:"),
        (["p.mlir", "less.mlir", "--seed", "3"], 2, "--seed with two versions: they are not run"),
        (["p.mlir", "less.mlir", "--no-run"], 2, "--no-run with two versions: they are not run"),
        (["p.mlir", "--seed", "-1"], 2, "--seed is -1, expected at least 0"),
        (["-", "-"], 2, "both versions are read from stdin"),
        (["p.mlir", "--max-increase", "a lot"], 2, "'a lot' is not a fraction such as 0.05 or 5%"),
        (["p.mlir", "--max-increase", "flops=5%"], 2, "names no figure"),
        (["p.mlir", "--max-increase", "5%", "--max-increase", "4%"], 2, "--max-increase is given twice"),
        (["p.mlir", "--target", "abacus"], 2, "unknown target 'abacus'"),
        (["p.mlir", "--inputs", "missing.npz"], 1, "cannot read 'missing.npz'"),
    ],
)
def test_errors(capsys: pytest.CaptureFixture[str], words: list[str], status: int, message: str) -> None:
    assert run(*words) == status
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert "Traceback" not in output.err
