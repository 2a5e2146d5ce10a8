"""Cells of a table that take minutes each: every one in a process of its own, bounded in time, and kept in a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Cell = dict[str, Any]


class Store:
    """What is known of the cells, in a JSON file; `version` says what a row's figures depend on beside our own code."""

    def __init__(self, path: Path, version: Callable[[str], str]) -> None:
        self.path, self._version = path, version
        self.cells: dict[str, Cell] = json.loads(path.read_text()) if path.exists() else {}

    def measured(self, script: str, row: str, how: str, limit_s: int, again: bool) -> Cell:
        """The cell, measured by `script --cell ROW HOW` unless it is known."""
        key, version = f"{row}, {how}", self._version(row)
        if again or self.cells.get(key, {}).get("version") != version:
            self.cells[key] = {**run(script, row, how, limit_s), "version": version}
            self.path.write_text(json.dumps(dict(sorted(self.cells.items())), indent=1) + "\n")
        return self.cells[key]


def run(script: str, row: str, how: str, limit_s: int) -> Cell:
    """One cell: the last line that the process prints, as JSON, or what went wrong under `error`."""
    command = [sys.executable, script, "--cell", row, how]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {limit_s} s"}
    if done.returncode:
        return {"error": _reason(done.stderr.strip().splitlines())}
    found: Cell = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _reason(lines: Sequence[str]) -> str:
    """The last line, without the names of what raised it."""
    return (lines or ["no message"])[-1].rpartition("gspmd: error: ")[2][:400]


def libraries() -> str:
    """What compiled, by version."""
    from importlib import metadata

    return f"jaxlib {metadata.version('jaxlib')}, libtpu {metadata.version('libtpu')}"


def brief(cell: Cell) -> str:
    """The cell in a line."""
    if "error" in cell:
        return f"failed: {cell['error']}"
    low, scheduled, high = (cell["utilisation"][key] for key in ("no_overlap", "scheduled", "all_overlap"))
    sent = sum(cell["sent"].values()) / 2**30
    return (
        f"partitioned in {cell['partition_s']:.1f} s, compiled in {cell['compile_s']:.0f} s, peak "
        f"{cell['peak'] / 2**30:.1f} GiB, sends {sent:.1f} GiB, utilisation {low:.1%}, {scheduled:.1%}, {high:.1%}"
    )
