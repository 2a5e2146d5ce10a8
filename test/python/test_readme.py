"""What README.md shows runs as it stands, from its beginning to its end in one folder, and prints what it says.

Lines that begin with `$` have their output below them; `...` stands for lines, or the rest of one, that are left out.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
_TOOLS = {"gspmd": "gspmd.tools.cli", "gspmd-opt": "gspmd.tools.opt"}
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]\d+)?")
_SMALL = 1e-3  # differences of results are no larger, and never the same


@dataclasses.dataclass(frozen=True)
class Shown:
    """A command line, with the lines that should be printed."""

    command: str
    output: tuple[str, ...] = ()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


def commands() -> list[Shown]:
    """The commands of our tools, in order."""
    found: list[Shown] = []
    lines = README.read_text().split("\n")
    for index, line in enumerate(lines):
        match = re.match(r"    (\$ )?((?:gspmd|gspmd-opt) .*?)(?:  +# .*)?$", line)
        if match is None:
            continue
        output: list[str] = []
        for below in lines[index + 1 :] if match[1] else ():
            if below and (not below.startswith("    ") or below.startswith("    $ ")):
                break
            output.append(below[4:])
        found.append(Shown(match[2], tuple(output)))
    return found


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program, *words = shlex.split(command)
    target = None
    if ">" in words:
        at = words.index(">")
        target, words = words[at + 1], words[:at]
    rest = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "GSPMD_DIAGNOSTICS")}
    finished = subprocess.run(
        [sys.executable, "-P", "-m", _TOOLS[program], *words],
        cwd=folder,
        env=rest | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    if target:
        (folder / target).write_text(finished.stdout)
    return finished


def same(shown: str, printed: str) -> bool:
    """Whether a line was printed as shown, except for small differences of its numbers."""
    head = shown.removesuffix("...") if shown.endswith(" ...") else None
    if head is not None:
        return printed.startswith(head)
    if _NUMBER.sub("#", shown).split() != _NUMBER.sub("#", printed).split():
        return False
    pairs = zip(map(float, _NUMBER.findall(shown)), map(float, _NUMBER.findall(printed)), strict=True)
    return all(math.isclose(one, other, rel_tol=0.01) or max(one, other) < _SMALL for one, other in pairs)


def missing(output: tuple[str, ...], printed: list[str]) -> list[str]:
    """The lines that were shown and not printed, in their order; after the last they may be followed by others."""
    rest = iter(printed)
    wanted = [line for line in output if line.strip() not in ("", "...")]
    return [line for line in wanted if not any(same(line, given) for given in rest)]


def prepare(folder: Path) -> None:
    (program,) = blocks("mlir")
    (folder / "program.mlir").write_text(program)
    (folder / "wrong.mlir").write_text(program.replace('[{"x"}, {}]', '[{"q"}, {}]', 1))


def test_the_readme_has_examples() -> None:
    found = commands()
    assert len(found) >= 15
    assert sum(bool(shown.output) for shown in found) >= 5


def test_commands_print_what_is_shown(tmp_path: Path) -> None:
    prepare(tmp_path)
    for shown in commands():
        if "tpu:" in shown.command and importlib.util.find_spec("libtpu") is None:
            continue
        finished = run(shown.command, tmp_path)
        assert finished.returncode == int("wrong.mlir" in shown.command), f"{shown.command}\n{finished.stderr}"
        printed = [*finished.stdout.split("\n"), *finished.stderr.split("\n")]
        assert missing(shown.output, printed) == [], shown.command


def test_the_demo_prints_what_is_shown(tmp_path: Path) -> None:
    text = README.read_text()
    output = tuple(line[4:] for line in text[text.index("    decoder_lm: ") :].split("\n\n`gspmd demo")[0].split("\n"))
    finished = run("gspmd demo", tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert missing(output, finished.stdout.split("\n")) == []


@pytest.mark.parametrize("index", range(len(blocks("python"))))
def test_python_runs(index: int, tmp_path: Path) -> None:
    prepare(tmp_path)
    (tmp_path / "example.py").write_text(blocks("python")[index])
    rest = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    finished = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env=rest | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr


def test_a_line_that_differs_is_noticed() -> None:
    assert same("a  1.50 KiB ...", "a  1.50 KiB and more")
    assert same("loss 4.0  1e-07", "loss  4.001 0.0e+00")
    assert not same("loss 4.0", "loss 5.0")
    assert not same("kind x", "kind y")
    assert missing(("b", "...", "a"), ["a", "b"]) == ["a"]


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)", README.read_text()):
        assert "://" in link or (README.parent / link).exists(), link
