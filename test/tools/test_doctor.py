"""`gspmd doctor` says what there is and what each part is for, and fails only where gspmd cannot work."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gspmd import surroundings
from gspmd.tools import cli

PROJECT: dict[str, Any] = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
GROUPS = ["versions", "extras", "devices", "compilers", "solvers"]


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What other processes are said to print."""
    answers = {"cpu": "8 cpu", "gpu": "RuntimeError: none", "tpu": "RuntimeError: none", "self-test": "agrees"}
    answers["TPU compiler"] = "4"
    monkeypatch.setattr(surroundings, "_probe", answers.__getitem__)
    return answers


def test_a_working_environment_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line in GROUPS] == GROUPS
    assert any(line.split()[:3] == ["yes", "a", "small"] for line in lines)
    assert lines[-1] == "PASS: gspmd works here"


def test_devices_and_compilers_that_fail_are_no_fault(
    probed: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(surroundings, "_version", lambda name: "1.0")
    probed["TPU compiler"] = "RuntimeError: a plugin of another time"
    assert cli.main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    by_name = {(each["group"], each["name"]): each for each in found["findings"]}
    assert not by_name["devices", "gpu"]["is_there"]
    assert by_name["compilers", "tpu"]["advice"] == "libtpu 1.0 fails: RuntimeError: a plugin of another time"
    assert by_name["versions", "jax"]["advice"] == "versions 0.10 to 0.12 are tested"


@pytest.mark.parametrize(
    ("probe", "answer"), [("cpu", "RuntimeError: no CPU"), ("self-test", "FAIL: 1 of 1 results differ")]
)
def test_what_gspmd_cannot_do_without_is_a_fault(
    probe: str, answer: str, probed: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    probed[probe] = answer
    assert cli.main(["doctor"]) == 3
    printed = capsys.readouterr().out
    assert answer in " ".join(printed.split())
    assert "  NO  " in printed
    assert printed.endswith("FAIL: see the rows with NO\n")


def test_a_process_that_crashes_or_hangs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(surroundings._PROBES, "crash", "import os; os.abort()")
    monkeypatch.setitem(surroundings._PROBES, "hang", "import time; time.sleep(60)")
    monkeypatch.setattr(surroundings, "_TIME_S", 0.5)
    assert surroundings._probe("crash").startswith(("Failure: exit code", "TimeoutError"))
    assert surroundings._probe("hang").startswith("TimeoutError")


def test_every_extra_is_named_with_a_distribution_that_it_brings() -> None:
    extras = PROJECT["optional-dependencies"]
    assert {name for name, *_ in surroundings._EXTRAS} == set(extras)
    for name, distribution, _ in surroundings._EXTRAS:
        assert name == "tpu" or any(text.startswith(distribution) for text in extras[name])


def test_the_versions_that_are_tested_are_those_of_the_project() -> None:
    (least, largest) = surroundings._TESTED
    (required,) = (text for text in PROJECT["dependencies"] if text.startswith("jaxlib"))
    assert required.startswith(f"jaxlib>={least[0]}.{least[1]}.")
    assert required.endswith(f",<{largest[0]}.{largest[1] + 1}")
