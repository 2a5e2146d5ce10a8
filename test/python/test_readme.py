"""What README.md and some pages show runs as it stands, in order and in one folder, and prints what it says.

The folder is empty at first: files are made by the commands of the page itself, or are the programs that it shows, in
Python as `model.py`.
Lines that begin with `$` have their output below them; `...` stands for lines, or the rest of one, that are left out.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.simple_code import users_environment

_SHOWN = ("command_line", "cost", "explain", "report", "search", "suggest")
ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = {page.name: page for page in (README, *(ROOT / "docs" / f"{name}.md" for name in _SHOWN))}
_TOOLS = {"gspmd": ["-m", "gspmd.tools.cli"], "gspmd-opt": ["-m", "gspmd.tools.opt"], "python": []}
_MODEL = "# model.py\n"
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]\d+)?")
_SMALL = 1e-3  # differences of results are no larger, and never the same


@dataclasses.dataclass(frozen=True)
class Shown:
    """A command line, with the lines that should be printed."""

    command: str
    output: tuple[str, ...] = ()


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[Shown]:
    """The commands of our tools, in order."""
    found: list[Shown] = []
    lines = page.read_text().split("\n")
    for index, line in enumerate(lines):
        match = re.match(r"    (\$ )?((?:gspmd|gspmd-opt|python model\.py)(?: .*?)?)(?:  +# .*)?$", line)
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
    environment = users_environment(JAX_PLATFORMS="cpu")
    del environment["GSPMD_DIAGNOSTICS"]
    finished = subprocess.run(
        [sys.executable, "-P", *_TOOLS[program], *words],
        cwd=folder,
        env=environment,
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


def prepare(folder: Path, page: Path) -> None:
    """Write the program that a page shows, and one with a mistake."""
    for program in blocks(page, "mlir"):
        (folder / "program.mlir").write_text(program)
        (folder / "wrong.mlir").write_text(program.replace('[{"x"}, {}]', '[{"q"}, {}]', 1))
    for program in blocks(page, "python"):
        if program.startswith(_MODEL):
            (folder / "model.py").write_text(program)


def test_the_readme_is_short_and_has_examples() -> None:
    assert len(README.read_text().splitlines()) <= 170
    found = commands(README)
    assert found[0].command == "gspmd demo --save-program step.mlir"
    assert len(found) >= 10
    assert sum(bool(shown.output) for shown in found) >= 2
    assert not blocks(README, "mlir")


@pytest.mark.parametrize("name", PAGES)
def test_commands_print_what_is_shown(name: str, tmp_path: Path) -> None:
    page = PAGES[name]
    prepare(tmp_path, page)
    for shown in commands(page):
        if "tpu:" in shown.command and importlib.util.find_spec("libtpu") is None:
            continue
        finished = run(shown.command, tmp_path)
        assert finished.returncode == int("wrong.mlir" in shown.command), f"{shown.command}\n{finished.stderr}"
        printed = [*finished.stdout.split("\n"), *finished.stderr.split("\n")]
        expected = demonstrated() if shown.command.startswith("gspmd demo --save") and page == README else shown.output
        assert missing(expected, printed) == [], shown.command


def demonstrated() -> tuple[str, ...]:
    """What README.md says that its demo prints, which stands below the explanation of the two commands."""
    text = README.read_text()
    found = text[text.index("    decoder_lm: ") :].split("\n\n`gspmd demo")[0].split("\n")
    assert len(found) > 10
    return tuple(line[4:] for line in found)


@pytest.mark.parametrize(
    ("name", "index"),
    [(name, index) for name in ("README.md", "command_line.md") for index in range(len(blocks(PAGES[name], "python")))],
)
def test_python_runs(name: str, index: int, tmp_path: Path) -> None:
    prepare(tmp_path, PAGES[name])
    (tmp_path / "example.py").write_text(blocks(PAGES[name], "python")[index])
    finished = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env=users_environment(JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES="8"),
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
