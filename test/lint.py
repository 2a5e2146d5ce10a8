"""Checks the source: `python test/lint.py` for style, format, types and imports, or with the names of some of them.

The checkers mypy and import-linter find modules by where their files lie. They get a copy of the package, put together
as in a wheel. What they print names the files of the source tree.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("dialect", "examples", "tools", "transforms")
_SETTINGS = str(ROOT / "pyproject.toml")
CHECKS = {
    "style": ["-m", "ruff", "check", "--no-cache", "--output-format=concise", "."],
    "format": ["-m", "ruff", "format", "--no-cache", "--check", "."],
    "types": ["-m", "mypy", "-p", "gspmd", "--config-file", _SETTINGS, "--cache-dir", str(ROOT / ".mypy_cache")],
    "imports": [
        *("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"),
        *("--config", _SETTINGS, "--no-cache"),
    ],
}
_OF_PACKAGE = ("types", "imports")


@contextlib.contextmanager
def package() -> Iterator[Path]:
    """A folder with the package in one piece."""
    with tempfile.TemporaryDirectory(prefix="gspmd-") as name:
        directory = Path(name)
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / "python", directory, ignore=ignored, dirs_exist_ok=True)
        for folder in FOLDERS:
            shutil.copytree(ROOT / folder, directory / "gspmd" / folder, ignore=ignored)
        yield directory


def in_source_tree(printed: str) -> str:
    """What a check of the package printed, with the files' places in the source tree."""
    printed = re.sub(rf"\bgspmd[/\\]({'|'.join(FOLDERS)})(?=[/\\])", r"\1", printed)
    return re.sub(r"(?<![\w./\\])(gspmd[/\\][\w/\\]+\.py)\b", r"python/\1", printed)


def run(check: str) -> tuple[int, str]:
    """The exit code of a check, and what it printed."""
    command = [sys.executable, *CHECKS[check]]
    with package() if check in _OF_PACKAGE else contextlib.nullcontext(ROOT) as directory:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr
    return done.returncode, in_source_tree(printed) if check in _OF_PACKAGE else printed


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        print(f"lint: error: no check '{unknown[0]}'; there are {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    failed = 0
    for name in names or CHECKS:
        code, printed = run(name)
        print(f"{name}: {'failed' if code else 'passed'}\n{printed if code else ''}", end="")
        failed += code != 0
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
