"""Checks the source: `python test/lint.py` for style, format, types and imports, or with the names of some of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("dialect", "examples", "tools", "transforms")
CHECKS = {
    "style": ["-m", "ruff", "check", "--no-cache", "--output-format=concise", "."],
    "format": ["-m", "ruff", "format", "--no-cache", "--check", "."],
    "types": ["-m", "mypy"],
    "imports": ["-c", "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"],
}


def run(check: str) -> tuple[int, str]:
    """The exit code of a check, and what it printed."""
    command = [sys.executable, *CHECKS[check]]
    source = os.environ | {"PYTHONPATH": str(ROOT / "python")}  # and not what may be installed
    done = subprocess.run(command, cwd=ROOT, env=source, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


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
