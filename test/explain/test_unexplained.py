"""An explanation that fails costs its sentence: commands print that and all the rest, and exit as they would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gspmd
from gspmd.explanations import conflicts, derivations
from gspmd.tools import cli
from gspmd.transforms.propagate.derivation import Derivations

PROGRAM = """
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(
    %x: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %w: tensor<256x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}
) -> tensor<64x128xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<64x256xf32>, tensor<256x128xf32>) -> tensor<64x128xf32>
  return %0 : tensor<64x128xf32>
}
"""


def fail(*_: Any, **__: Any) -> Any:
    raise KeyError("a defect")


@pytest.fixture(
    params=[
        (Derivations, "chains", "how %x got its sharding"),
        (derivations.Explainer, "_annotations", "what is annotated"),
        (derivations.Explainer, "_sites", "which values there are"),
        (conflicts._ConflictFinder, "_reasons", "why stablehlo.dot_general %0 communicates"),
        (conflicts._ConflictFinder, "conflict", "what is sent, and why"),
    ],
    ids=lambda param: param[1],
)
def failing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is not explained, as a part of the explanation fails."""
    owner, name, what = request.param
    monkeypatch.setattr(owner, name, fail)
    return str(what)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "program.mlir"
    path.write_text(PROGRAM)
    return str(path)


def test_the_sentence_and_the_rest_are_printed(failing: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", file]) == 0
    printed = capsys.readouterr()
    assert f"{failing}: KeyError: 'a defect' (test_unexplained.py:" in printed.out
    assert "mesh: x=4, y=2 (8 devices)" in printed.out
    assert "this decision is proven optimal under the objective" in printed.out
    assert printed.err.count(f"warning: not explained is {failing}: KeyError: 'a defect'") == 1


@pytest.mark.parametrize("words", [["--conflicts"], ["--all"], ["--all", "--conflicts"]], ids=" ".join)
def test_selections_are_printed(failing: str, file: str, words: list[str]) -> None:
    assert cli.main(["explain", file, *words]) == 0


@pytest.mark.parametrize(
    "words", [["suggest", "--tries", "2"], ["report", "-o", "report.html"], ["search", "--time-limit", "2"]], ids=str
)
def test_commands_that_stand_on_explanations_go_on(
    failing: str, file: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([words[0], file, *words[1:]]) == 0


def test_json_has_what_is_not_explained(failing: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", file, "--json"]) == 0
    (sentence, *_) = json.loads(capsys.readouterr().out)["unexplained"]
    assert sentence.startswith(failing)


def test_nothing_is_said_where_all_is_explained(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", file]) == 0
    printed = capsys.readouterr()
    assert "not explained" not in printed.out + printed.err
    explanation = gspmd.explain(PROGRAM)
    assert explanation.conflicts
    assert "unexplained" not in explanation.to_dict()
