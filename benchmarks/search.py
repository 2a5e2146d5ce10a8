"""Plans that `gspmd search` finds for the paper's dense Transformers, beside the annotations of their authors.

Usage: `python benchmarks/search.py [--rows 64B,128B,256B,1T] [--time-limit 120] [--markdown FILE]`. The programs are
those of `paper_table.py`, without their annotations; steps are estimated on the paper's TPU v3 topologies.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import paper_cell
from jax.sharding import AbstractMesh, AxisType
from paper_table import ROWS, TABLE_2

import gspmd
from gspmd import api
from gspmd.costs.outcome import Outcome, outcome_of
from gspmd.costs.text import time_text
from gspmd.examples.common.running import lowered
from gspmd.reading import read_program
from gspmd.runtime.unannotated import strip
from gspmd.text_report import bytes_text
from gspmd.transforms.ir.modules import main_function
from gspmd.transforms.ir.signature import DONATION, dictionaries, set_dictionaries
from gspmd.transforms.ir.writing import in_memory

_HEAD = ("model", "annotations", "step", "sends", "memory", "plans", "searched")


def main(arguments: list[str] | None = None) -> int:
    """Print a table, and write it as a page where that is asked for."""
    options = _parse(arguments)
    rows = [_HEAD, ("---", "---", *("--:",) * 5)]
    for name in options.rows:
        for row in _rows(name, options.time_limit):
            rows.append(row)
            print("  ".join(row), flush=True)
    if options.markdown:
        table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
        Path(options.markdown).write_text(f"{_INTRODUCTION}\n{table}\n", encoding="utf-8")
    return 0


_INTRODUCTION = """# Searched plans beside the paper's annotations

Written by `python benchmarks/search.py --markdown docs/measured/search.md`. The paper's dense Transformers (arXiv
2105.04663, section 5.1) without their annotations, on the paper's meshes and topologies of TPU v3: a training step as
estimated for the annotations of the paper's authors, for the plan that `gspmd search` finds, and for the ways to split
a model that it starts from, with its length in steps of the authors' in brackets. Memory is what a device holds at its
peak, of 16 GiB. Nothing is measured on a TPU.
"""


def unannotated(module: Any) -> Any:
    """The program without shardings; what is donated stays so."""
    program = read_program(module)
    with in_memory(program) as top:
        function = main_function(top)
        count = len(function.regions[0].arguments)
        donated = [
            {name: value for name, value in entry.items() if name in DONATION}
            for entry in dictionaries(function, "arg_attrs", count)
        ]
        strip(top)
        entries = dictionaries(function, "arg_attrs", count)
        for entry, kept in zip(entries, donated, strict=True):
            entry.update(kept)
        set_dictionaries(function, "arg_attrs", entries)
    return program


def _rows(name: str, time_limit_s: float) -> list[tuple[str, ...]]:
    row = ROWS[name]
    mesh = AbstractMesh((row.x, row.y), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    program = lowered(paper_cell.program(row, True), mesh).program
    authors = outcome_of(api.partition(program, target=row.target), row.target)
    plan = gspmd.search(
        unannotated(program), mesh={"x": row.x, "y": row.y}, target=row.target, time_limit_s=time_limit_s
    )
    found = _row(name, "`gspmd search`", plan.outcome, authors)
    rows = [_row(name, "the paper's", authors), (*found[:-2], str(plan.tried), f"{plan.seconds:.0f} s")]
    return [*rows, *(_row(name, way, outcome, authors) for way, outcome in plan.baselines.items())]


def _row(name: str, way: str, outcome: Outcome, authors: Outcome | None = None) -> tuple[str, ...]:
    ratio = "" if authors is None else f" ({outcome.step_s / authors.step_s:.2f})"
    memory = bytes_text(outcome.memory_bytes) + ("" if outcome.fits else ", too much")
    return name, way, time_text(outcome.step_s) + ratio, bytes_text(outcome.sent_bytes), memory, "", ""


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=lambda text: text.split(","), default=list(TABLE_2))
    parser.add_argument("--time-limit", type=float, default=120.0)
    parser.add_argument("--markdown", metavar="FILE")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
