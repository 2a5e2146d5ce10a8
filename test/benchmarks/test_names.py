"""Most benchmarks are called by no test: the names, attributes and arguments in them have to be those of today."""

from __future__ import annotations

import os
import subprocess
import sys

import lint

_CODES = ("[attr-defined]", "[name-defined]", "[call-arg]")


def test_benchmarks_use_what_there_is() -> None:
    folder = lint.ROOT / "benchmarks"
    files = sorted(path.name for path in folder.glob("*.py"))
    paths = os.pathsep.join(str(lint.ROOT / name) for name in ("benchmarks", "test", "docs", "python"))
    options = ["--no-incremental", "--explicit-package-bases", "--ignore-missing-imports", "--no-error-summary"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", f"--config-file={lint.ROOT / 'pyproject.toml'}", *options, *files],
        cwd=folder,
        env=os.environ | {"MYPYPATH": paths, "PYTHONPATH": str(lint.ROOT / "python")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "error:" in done.stdout, done.stderr  # not all types are given there
    assert [line for line in done.stdout.splitlines() if line.endswith(_CODES)] == []
