"""Every way in says the same single line about a program it refuses, and leaves the output alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.bad_programs import BAD

import gspmd
from gspmd.tools import cli, opt

EXIT_FAILURE = 1


def opt_partition(source: str, out: str) -> int:
    return opt.main(["--gspmd-partition", source, "-o", out])


def partition(source: str, out: str) -> int:
    return cli.main(["partition", source, "-o", out])


def run(source: str, out: str) -> int:
    return cli.main(["run", source, "-o", out])


def check(source: str, out: str) -> int:
    return cli.main(["check", source])


@pytest.mark.parametrize("tool", [opt_partition, partition, run, check])
@pytest.mark.parametrize("name", BAD)
def test_a_tool_refuses(
    name: str, tool: Callable[[str, str], int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = BAD[name]
    source, out = tmp_path / "bad.mlir", tmp_path / "out"
    source.write_text(bad.text)
    out.write_text("before")
    status = tool(str(source), str(out))
    printed = capfd.readouterr()
    errors = [line for line in printed.err.splitlines() if ": note: " not in line]  # gspmd-opt shows MLIR's notes
    assert errors == [f"{source}:{bad.place}: error: {bad.message}"]
    assert printed.out == ""
    assert status == EXIT_FAILURE
    assert out.read_text() == "before"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.mlir", "out"]


@pytest.mark.parametrize("name", BAD)
def test_the_api_refuses(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bad = BAD[name]
    source = tmp_path / "bad.mlir"
    source.write_text(bad.text)
    with pytest.raises(gspmd.Error) as caught:
        gspmd.partition(source)
    assert str(caught.value) == f"{source}:{bad.place}: error: {bad.message}"
    assert caught.value.kind is not gspmd.ErrorKind.INTERNAL
    assert capfd.readouterr().err == ""


def test_what_is_unsupported_is_computed_whole_when_asked(tmp_path: Path) -> None:
    source = tmp_path / "custom_call.mlir"
    source.write_text(BAD["an unknown custom call"].text)
    product = gspmd.partition(source, replicate_unsupported=True)
    assert [c.kind for c in product.collectives] == ["all_gather"]
