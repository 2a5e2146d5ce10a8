"""Hostile inputs: those that once broke something, a sample of new ones, and whether the fuzzer would notice."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import samples

from hostile.case import Case, from_json, read_cases, to_json
from hostile.command_lines import command_line
from hostile.entries import Outcome
from hostile.judgement import fault
from hostile.making import FORMATS, made
from hostile.places import complaint, prepare, state
from hostile.supervision import Limits, Supervisor
from hostile.wanted import Wanted

_FOLDER = Path(__file__).parent
CORPUS = read_cases(_FOLDER / "corpus")
_READING = ("opt", "partition", "explain", "cost", "compare", "report", "suggest", "search", "api.partition")
_MORE_WORDS = {
    "opt": ("--gspmd-partition",),
    "report": ("-o", "-"),
    "suggest": ("--tries", "1"),
    "search": ("--time-limit", "0.1"),
}
_QUICK = [name for name in FORMATS if name not in ("compiled", "npz", "small", "demo", "terminal")]
_SEED, _COUNT = 14, 150 * samples.TIMES


@pytest.fixture(scope="module")
def supervisor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    """One worker for all cases of this file; most are done in a few hundredths of a second."""
    found = Supervisor(str(tmp_path_factory.mktemp("hostile")), Limits(30))
    yield found
    found.stop()


def said(case: Case, outcome: Outcome) -> str:
    """The fault with its case, "" if there is none."""
    found = fault(case, outcome)
    return f"{found.family}\n{case}\n{found.told}" if found else ""


# ---- inputs ----


@pytest.mark.parametrize("name", CORPUS)
def test_what_once_broke_something(name: str, supervisor: Supervisor) -> None:
    case = CORPUS[name]
    assert said(case, supervisor.outcome(case)) == ""


@pytest.mark.parametrize(
    "name", [name for name, case in CORPUS.items() if case.files and case.files[0][0].startswith("p.")]
)
def test_a_kept_program_in_every_command(name: str, supervisor: Supervisor) -> None:
    kept = CORPUS[name]
    for command in _READING:
        words = ("bytes", "{}") if command == "api.partition" else (kept.files[0][0],)
        words += _MORE_WORDS.get(command, (kept.files[0][0],) if command == "compare" else ())
        case = Case(command, words, kept.files)
        assert said(case, supervisor.outcome(case)) == ""


def test_a_sample_of_changed_inputs(supervisor: Supervisor) -> None:
    cases = [made(_SEED, number, _QUICK, Wanted(terminals=False)) for number in range(_COUNT)]
    told = [said(case, supervisor.outcome(case)) for case in cases]
    assert "\n\n".join(text for text in told if text) == ""


# ---- the fuzzer itself ----


def test_a_seed_names_the_same_cases_in_every_process() -> None:
    code = (
        "import hashlib; from hostile.case import to_json; from hostile.making import FORMATS, made\n"
        "formats = [name for name in FORMATS if name != 'compiled']\n"
        "print(hashlib.sha256(''.join(to_json(made(3, i, formats)) for i in range(200)).encode()).hexdigest())"
    )
    path = os.pathsep.join(map(str, (_FOLDER.parent, _FOLDER.parents[1] / "docs")))
    digests = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed}, check=True,
            capture_output=True
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(digests) == 1


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "compiled"])
def test_cases_are_kept_as_text(name: str) -> None:
    for number in range(30):
        case = made(5, number, [name])
        assert from_json(to_json(case)) == case


def test_death_is_noticed(supervisor: Supervisor) -> None:
    outcome = supervisor.watched(os.abort)
    assert outcome.status == -signal.SIGABRT
    assert said(Case("opt", ()), outcome).startswith("SIGABRT: ")


def test_the_place_of_a_crash_is_told(supervisor: Supervisor) -> None:
    outcome = supervisor.watched(_crash)
    assert outcome.status == -signal.SIGSEGV
    assert "in _crash" in outcome.stderr


def _crash() -> Outcome:
    os.kill(os.getpid(), signal.SIGSEGV)
    return Outcome(0)


def test_what_never_ends_is_noticed(tmp_path: Path) -> None:
    impatient = Supervisor(str(tmp_path), Limits(seconds=0.5))
    started = time.perf_counter()
    outcome = impatient.watched(time.sleep, 100)  # type: ignore[arg-type]
    impatient.stop()
    assert time.perf_counter() - started < 60
    assert said(Case("opt", ()), outcome).startswith("hang: ")


def test_hunger_is_noticed(tmp_path: Path) -> None:
    frugal = Supervisor(str(tmp_path), Limits(seconds=30, memory_bytes=2**28))
    outcome = frugal.watched(_hungry)
    frugal.stop()
    assert said(Case("opt", ()), outcome).startswith("memory: ")


def _hungry() -> Outcome:
    held = [bytes(b"x" * 2**24) for _ in range(64)]
    time.sleep(10)
    return Outcome(len(held))


GOOD = Outcome(0, stdout="module {\n}\n")
REFUSED = Outcome(1, stderr="p.mlir:1:2: error: is wrong; do better\n")


@pytest.mark.parametrize(
    ("command", "outcome", "expected"),
    [
        ("partition", GOOD, ""),
        ("partition", REFUSED, ""),
        ("partition", dataclasses.replace(REFUSED, status=0), "success with an error"),
        ("partition", dataclasses.replace(REFUSED, status=9), "exit code 9 of partition"),
        ("partition", dataclasses.replace(REFUSED, stdout="module"), "output: partition prints and refuses"),
        ("partition", dataclasses.replace(REFUSED, stderr=REFUSED.stderr * 2), "several errors"),
        ("partition", dataclasses.replace(REFUSED, stderr=f"gspmd: error: {'x' * 3000}"), "long message"),
        ("partition", dataclasses.replace(REFUSED, stderr="gspmd: error: a\x1b[31m"), "control characters"),
        ("partition", Outcome(1), "silent refusal: partition"),
        ("partition", Outcome(70, stderr="gspmd: internal error: KeyError: 'x'; please report this"), "KeyError: '_'"),
        ("partition", Outcome(1, stderr="Traceback (most recent call last):\n  File\nKeyError: 1"),
         "traceback: KeyError: N"),
        ("partition", Outcome(-11), "SIGSEGV: "),
        ("partition", Outcome(0, complaint="replaced: null"), "output: partition"),
        ("check", Outcome(3, stdout="FAIL: 1 of 1 results differ"), "check says FAIL"),
        ("api.partition", Outcome(70, error="KeyError: 1", is_ours=False), "KeyError: N"),
        ("api.partition", Outcome(1, error="ParseError: p: error: x"), ""),
    ],
)  # fmt: skip
def test_faults_are_told_apart(command: str, outcome: Outcome, expected: str) -> None:
    found = fault(Case(command, ("p.mlir",)), outcome)
    assert (found.family if found else "").startswith(expected)
    assert (found is None) == (expected == "")


@pytest.mark.parametrize(
    ("kind", "deed", "succeeded", "expected"),
    [
        ("nothing", "out.file", True, ""),
        ("nothing", "", True, "success without an output"),
        ("nothing", "out.file", False, "after a refusal: out.file nothing -> file"),
        ("nothing", "other", True, ""),
        ("a file", "", False, ""),
        ("a file", "", True, "success, and the output is as before"),
        ("a file", "out.file", False, "after a refusal"),
        ("a fifo", "fifo", True, "replaced: fifo"),
        ("a link to a file", "link", True, "replaced: link"),
        ("a missing folder", "", True, "success, though the output is a missing folder"),
        ("stdout", "-", True, "a file that nobody named: -"),
    ],
)
def test_what_is_at_an_output_afterwards(
    kind: str, deed: str, succeeded: bool, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = prepare(kind)
    before = state(tmp_path)
    if deed:
        (tmp_path / "new").write_text("changed")
        os.replace("new", deed)
    found = complaint(kind, succeeded, before, state(tmp_path))
    place.close()
    assert found.startswith(expected)
    assert bool(found) == bool(expected)


def test_command_lines_name_the_program() -> None:
    from random import Random

    for command in ("opt", "partition", "explain", "cost", "check", "run", "compile"):
        assert "p.mlir" in command_line(Random(1), command, "p.mlir")
