"""The source keeps to its own rules: style, types, and imports that run one way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parent.parent

CHECKS = {
    "style": ["-m", "ruff", "check", "--no-cache", "--output-format=concise", "."],
    "format": ["-m", "ruff", "format", "--no-cache", "--check", "."],
    "types": ["-m", "mypy"],
    "imports": ["-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache"],
}


@pytest.mark.parametrize("check", CHECKS)
def test_source_passes(check: str) -> None:
    command = [sys.executable, *CHECKS[check]]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, f"{finished.stdout}{finished.stderr}"


def test_what_users_import_stands_on_the_compiler_and_not_the_other_way_round() -> None:
    """The modules of python/gspmd lie between the tools and the transforms; a contract would have to list them all."""
    graph = grimp.build_graph("gspmd", cache_dir=None)
    below = ("gspmd.dialect", "gspmd.transforms")
    upward = [
        f"{importer} imports {imported}"
        for importer in sorted(graph.modules)
        for imported in sorted(graph.find_modules_directly_imported_by(importer))
        if (importer.startswith(below) and not imported.startswith(below))
        or (imported.startswith("gspmd.tools") and not importer.startswith("gspmd.tools"))
    ]
    assert upward == []
