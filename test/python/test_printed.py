"""What Python's functions return prints as what the commands of the same name print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gspmd
from gspmd.tools import cli

PROGRAM = """
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(
    %x: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>},
    %w: tensor<256x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}
) -> tensor<64x128xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<64x256xf32>, tensor<256x128xf32>) -> tensor<64x128xf32>
  return %0 : tensor<64x128xf32>
}
"""


def untimed(text: str) -> list[str]:
    """The words of a text, but for how long compilers took."""
    return [word for line in text.splitlines() if not line.startswith("  compile time") for word in line.split()]


@pytest.mark.parametrize(
    ("command", "function"),
    [
        (["cost"], gspmd.cost),
        (["check"], gspmd.check),
        (["explain"], gspmd.explain),
        (["compare", "--no-run"], lambda path: gspmd.compare(path, run=False)),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
@pytest.mark.parametrize("width", ["", "80"])
def test_a_report_prints_as_the_command_does(
    command: list[str],
    function: Any,
    width: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    path = tmp_path / "program.mlir"
    path.write_text(PROGRAM)
    assert cli.main([command[0], str(path), *command[1:]]) == 0
    printed = capsys.readouterr().out.rstrip("\n")
    assert untimed(str(function(str(path)))) == untimed(printed)


def test_representations_are_one_line() -> None:
    assert repr(gspmd.check(PROGRAM)) == "<CheckReport: 1 results agree>"
    shown = repr(gspmd.cost(PROGRAM))
    assert shown.startswith("<CostReport on neutral: ")
    assert shown.endswith(" KiB sent>")


def test_of_many_results_that_agree_the_worst_stand_for_all() -> None:
    names = [f"%{index}" for index in range(30)]
    body = "\n".join(f"  {name} = stablehlo.sine %x : tensor<8xf32>" for name in names)
    results = ", ".join(["tensor<8xf32>"] * 30)
    program = f"""
sdy.mesh @mesh = <["x"=8]>
func.func @main(%x: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}}) -> ({results}) {{
{body}
  return {", ".join(names)} : {results}
}}
"""
    lines = str(gspmd.check(program)).splitlines()
    assert sum(line.startswith("  pass") for line in lines) == 10
    assert "  ... and 20 more that agree, and are less far off (-v lists all)" in lines
    assert lines[-1] == "PASS: 30 results agree"
