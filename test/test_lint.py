"""The source keeps to its own rules: style, types, and imports that run one way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
