"""Cells of a table that take minutes each: every one in a process of its own, bounded in time, and kept in a file."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Cell = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows, which are dataclasses, by name, and ways to measure each; `script` is the file that has them.

    `measure(name, how)` makes a cell, `page(cells)` the documentation of all; `fits` are the rows that have to fit
    into the memory of a device. `brief` is a cell in a line. On the command line rows are separated by `separator`.
    """

    script: str
    about: str
    rows: Mapping[str, Any]
    hows: Sequence[str]
    measure: Callable[[str, str], Cell]
    page: Callable[[Mapping[str, Cell]], str]
    separator: str
    limit_s: int
    fits: Callable[[str], bool] = lambda name: True
    brief: Callable[[Cell], str] | None = None

    def main(self, arguments: list[str] | None = None) -> int:
        """Measure what is asked for and not known; returns 1 if a cell is not as it should be."""
        options = self._parse(arguments)
        if options.cell:
            print(json.dumps(self.measure(*options.cell)))
            return 0
        store = Store(Path(self.script).with_suffix(".json"), self._version)
        failed = False
        for name in options.rows:
            for how in options.how:
                cell = store.measured(self.script, name, how, options.limit, options.again)
                failed |= ("error" in cell) == self.fits(name)
                failure = f"failed: {cell['error']}" if "error" in cell else ""
                print(f"{name}, {how}: {failure or (self.brief or brief)(cell)}", flush=True)
        if options.markdown:
            Path(options.markdown).write_text(self.page(store.cells))
        return int(failed)

    def _version(self, name: str) -> str:
        """What the figures of a row depend on, besides our own code: delete the store, or say --again, for that."""
        return f"{dataclasses.astuple(self.rows[name])}, {libraries()}"

    def _parse(self, arguments: list[str] | None) -> argparse.Namespace:
        mark = self.separator
        parser = argparse.ArgumentParser(description=self.about.split("\n", 1)[0])
        parser.add_argument(
            "--rows",
            type=_names(self.rows, mark),
            default=list(self.rows),
            metavar=f"NAME{mark}..",
            help=f"{mark} ".join(self.rows),
        )
        parser.add_argument(
            "--how", type=_names(self.hows, ";"), default=list(self.hows), metavar="NAME;..", help="; ".join(self.hows)
        )
        parser.add_argument(
            "--limit", type=int, default=self.limit_s, metavar="SECONDS", help=f"for one cell ({self.limit_s})"
        )
        parser.add_argument("--again", action="store_true", help="measure what is stored, too")
        parser.add_argument("--markdown", metavar="FILE", help="write the page of the documentation to FILE")
        parser.add_argument("--cell", nargs=2, metavar=("ROW", "HOW"), help=argparse.SUPPRESS)
        return parser.parse_args(arguments)


def _names(known: Any, separator: str) -> Callable[[str], list[str]]:
    def parsed(text: str) -> list[str]:
        names = [name.strip() for name in text.split(separator)]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"unknown '{name}'; known are {f'{separator} '.join(known)}")
        return names

    return parsed


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
    if done.returncode < 0:
        return {"error": f"the process was ended by {signal.Signals(-done.returncode).name}"}
    if done.returncode:
        return {"error": _reason(done.stderr.strip().splitlines())}
    found: Cell = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _reason(lines: Sequence[str]) -> str:
    """The last line, without the names of what raised it."""
    return re.sub(r"^[\w.]+Error: ", "", (lines or ["no message"])[-1].rpartition("gspmd: error: ")[2])[:400]


def libraries() -> str:
    """What compiled, by version."""
    from importlib import metadata

    found = {each for each in ("jaxlib", "libtpu") if importlib.util.find_spec(each) is not None}
    return ", ".join(f"{each} {metadata.version(each)}" for each in sorted(found))


def brief(cell: Cell) -> str:
    """The cell in a line."""
    low, scheduled, high = (cell["utilisation"][key] for key in ("no_overlap", "scheduled", "all_overlap"))
    sent = sum(cell["sent"].values()) / 2**30
    return (
        f"partitioned in {cell['partition_s']:.1f} s, compiled in {cell['compile_s']:.0f} s, peak "
        f"{cell['peak'] / 2**30:.1f} GiB, sends {sent:.1f} GiB, utilisation {low:.1%}, {scheduled:.1%}, {high:.1%}"
    )
