"""The paper's dense Transformers through the TPU compiler: gspmd beside XLA's own partitioners, row by row.

python benchmarks/paper_table.py [--rows 64B,..] [--how gspmd,..] [--limit SECONDS] [--markdown FILE] [--again]

Needs libtpu (pip install 'gspmd[tpu]') and no TPU. Every cell runs in a process of its own, for at most --limit
seconds, and is kept in benchmarks/paper_table.json until sizes, jaxlib or libtpu change, so that single rows can be run
alone. XLA's partitioners are timed by the passes of jaxlib's XLA, which stops after them; libtpu has a copy of its own,
so its seconds include partitioning once more for these.

Source: arXiv 2105.04663, section 5.1, table 2.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import cells
from topologies import GSPMD, OURS, SHARDY

MATMUL = "gspmd, collective matmul"
HOWS = (OURS, MATMUL, GSPMD, SHARDY)
STORE = Path(__file__).with_suffix(".json")


@dataclasses.dataclass(frozen=True)
class Row:
    """A model of the paper on TPU v3: sizes, chips of the torus, and the mesh."""

    layers: int
    model: int
    heads: int
    hidden: int
    batch: int
    chips: str
    x: int
    y: int

    @property
    def target(self) -> str:
        return f"tpu:v3:{self.chips}"

    @property
    def devices(self) -> int:
        return self.x * self.y


ROWS = {
    "64B": Row(32, 8192, 128, 65536, 64, "8x8", 8, 16),
    "128B": Row(64, 8192, 128, 65536, 128, "8x16", 16, 16),
    "256B": Row(128, 8192, 128, 65536, 256, "16x16", 16, 32),
    "1T": Row(128, 16384, 256, 131072, 512, "32x32", 32, 64),
}


def main(arguments: list[str] | None = None) -> int:
    """Returns 1 if a cell failed."""
    options = _parse(arguments)
    if options.cell:
        import paper_cell

        print(json.dumps(paper_cell.measure(ROWS[options.cell[0]], options.cell[1])))
        return 0
    store = cells.Store(STORE, _version)
    failed = False
    for name in options.rows:
        for how in options.how:
            cell = store.measured(__file__, name, how, options.limit, options.again)
            failed |= "error" in cell
            print(f"{name}, {how}: {cells.brief(cell)}", flush=True)
    if options.markdown:
        import report_paper

        Path(options.markdown).write_text(report_paper.page(ROWS, HOWS, store.cells))
    return int(failed)


def _version(name: str) -> str:
    """What the figures of a row depend on, besides our own code: delete the store, or say --again, for that."""
    return f"{dataclasses.astuple(ROWS[name])}, {cells.libraries()}"


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    def names(known: Any) -> Any:
        return lambda text: [_known(name.strip(), known) for name in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--rows", type=names(ROWS), default=list(ROWS), metavar="NAME,..", help=", ".join(ROWS))
    parser.add_argument(
        "--how",
        type=lambda t: [_known(n.strip(), HOWS) for n in t.split(";")],
        default=list(HOWS),
        metavar="NAME;..",
        help="; ".join(HOWS),
    )
    parser.add_argument("--limit", type=int, default=3000, metavar="SECONDS", help="for one cell (3000)")
    parser.add_argument("--again", action="store_true", help="measure what is stored, too")
    parser.add_argument("--markdown", metavar="FILE", help="write the page of the documentation to FILE")
    parser.add_argument("--cell", nargs=2, metavar=("ROW", "HOW"), help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _known(name: str, known: Any) -> str:
    if name not in known:
        raise argparse.ArgumentTypeError(f"unknown '{name}'; known are {', '.join(known)}")
    return name


if __name__ == "__main__":
    sys.exit(main())
