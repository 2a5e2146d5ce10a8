"""The benchmark that looks for losses: it runs, its programs can be made again, and what it shrinks still loses."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def test_a_few_programs_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    words = ["--count", "3", "--start", "3", "--check", "--devices", "2,4", "--json", str(path)]
    finished = subprocess.run(
        [sys.executable, str(BENCHMARKS / "losses.py"), *words], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert "programs compared with the better peer" in finished.stdout
    cases = json.loads(path.read_text())
    assert [case["name"] for case in cases] == ["seed 0, case 3", "seed 0, case 4", "seed 0, case 5"]
    for case in cases:
        assert list(case["outcomes"]) == ["gspmd", "XLA GSPMD", "XLA Shardy"]
        assert case["outcomes"]["gspmd"]["sent"] is not None
        assert not case["outcomes"]["gspmd"]["wrong"], case["name"]


def test_single_operations_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    words = ["--single", "--seed", "1", "--start", "50", "--count", "3", "--check", "--json", str(path)]
    finished = subprocess.run(
        [sys.executable, str(BENCHMARKS / "losses.py"), *words], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    cases = json.loads(path.read_text())
    assert len({case["name"] for case in cases}) == 3
    for case in cases:
        ours = case["outcomes"]["gspmd"]
        assert ours["sent"] is not None, case["name"]
        assert not ours["wrong"], case["name"]
        assert not ours["unchecked"], case["name"]


def test_single_operations_are_made_again_from_their_seed(load: Any) -> None:
    single = load("single_operations")
    programs = [single.made(1, number) for number in range(40)]
    assert programs == [single.made(1, number) for number in range(40)]
    assert len({text for _, text in programs}) > 30


def test_a_program_is_made_again_from_its_seed(load: Any) -> None:
    drafts = load("made_up.drafts")
    programs = [drafts.made(1, number, (2, 4, 8, 64)) for number in range(4)]
    assert programs == [drafts.made(1, number, (2, 4, 8, 64)) for number in range(4)]
    assert len(set(programs)) == 4
    assert all(program.devices in (2, 4, 8, 64) for program in programs)


def test_programs_shrink_to_what_matters(load: Any) -> None:
    drafts, shrinking = load("made_up.drafts"), load("made_up.shrinking")
    program = next(p for p in (drafts.made(2, n, (4,)) for n in range(40)) if "binary" in p.kinds and len(p.kinds) > 8)
    least = shrinking.shrunk(program, lambda p: "binary" in p.kinds)
    assert least.kinds == ["binary"]
    assert all(step.dims is None for step in least.steps)
    assert len(least.results) == 1
