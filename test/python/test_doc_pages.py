"""The Python on pages of the documentation runs as it stands, one page in one process."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from generate import NAMES, page_of
from generate_api import GROUPS
from support.simple_code import users_environment

import gspmd
from gspmd.tools import cli
from gspmd.transforms.optimize import PASSES as COLLECTIVE_PASSES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_NEEDED = {"jax.md": "orbax"} | dict.fromkeys(
    [
        f"{name}.md"
        for name in ("extending", "first_steps", "kernels", "migrating", "search", "suggest", "transformer", "verify")
    ],
    "jax",
)
_EXCERPTS = {"command_line", "ecosystem", "errors", "multihost", "report"}  # need files, processes or packages
_ELSEWHERE = {"coverage", "errors", "pass_table"}  # what is generated and compared in the tests of its source
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(#([^)\s]+))?\)")
_TITLE = re.compile(r"^#+ (.*)$", re.MULTILINE)


def python_of(page: Path) -> str:
    """The blocks of a page, at the lines where they are."""
    lines, inside = [], False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            inside = line == "```python"
            lines.append("")
        else:
            lines.append(line if inside else "")
    return "\n".join(lines)


@pytest.mark.parametrize("page", _NEEDED)
def test_a_page_runs(page: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(_NEEDED[page]) is None:
        pytest.skip(f"{_NEEDED[page]} is not installed")
    (tmp_path / "page.py").write_text(python_of(DOCS / page))
    environment = users_environment(JAX_NUM_CPU_DEVICES="8", JAX_PLATFORMS="cpu")
    command = [sys.executable, str(tmp_path / "page.py")]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert finished.returncode == 0, finished.stderr


def test_every_page_with_python_runs_or_is_an_excerpt() -> None:
    pages = {page.name for page in DOCS.rglob("*.md") if "```python" in page.read_text(encoding="utf-8")}
    assert pages == {*_NEEDED, *(f"{name}.md" for name in _EXCERPTS)}


@pytest.mark.parametrize("name", sorted(set(NAMES) - _ELSEWHERE))
def test_generated_pages_are_of_this_source(name: str) -> None:
    page, text = page_of(name)
    assert page.read_text(encoding="utf-8") == text, f"run python docs/generate.py {name}"


def test_the_page_of_the_api_has_every_public_name_once() -> None:
    assert sorted(name for group in GROUPS.values() for name in group) == sorted(gspmd.__all__)


@pytest.mark.parametrize("argument", [declaration.argument for declaration in COLLECTIVE_PASSES])
def test_every_pass_on_collectives_has_its_line_and_section(argument: str) -> None:
    text = (DOCS / "optimization.md").read_text(encoding="utf-8")
    assert f"| [`{argument}`](#{argument}) |" in text
    assert f"\n## {argument}\n" in text


@pytest.mark.parametrize("name", [command.NAME for command in cli.commands()])
def test_every_command_is_on_the_page_of_commands(name: str) -> None:
    assert f"gspmd {name}" in (DOCS / "command_line.md").read_text(encoding="utf-8")


PAGES = [*ROOT.glob("*.md"), *DOCS.glob("**/*.md"), *(ROOT / "benchmarks").glob("*.md")]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    for target, _, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        assert not anchor or anchor in map(_anchor, _TITLE.findall(linked.read_text(encoding="utf-8"))), anchor


def test_every_page_is_in_the_index() -> None:
    linked = {(DOCS / target).resolve() for target, _, _ in _LINK.findall((DOCS / "README.md").read_text())}
    assert {page.resolve() for page in DOCS.glob("**/*.md")} - linked == {(DOCS / "README.md").resolve()}


def _anchor(title: str) -> str:
    """As pages on the web name a title."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
