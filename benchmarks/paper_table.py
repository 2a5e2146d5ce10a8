"""The paper's dense Transformers through the TPU compiler: gspmd beside XLA's own partitioners, row by row.

Usage: `python benchmarks/paper_table.py [--rows 64B,..] [--how gspmd;..] [--limit SECONDS] [--markdown FILE]
[--again]`.

Needs libtpu (pip install 'gspmd[tpu]') and no TPU. Every cell runs in a process of its own, for at most --limit
seconds, and is kept in benchmarks/paper_table.json until sizes, jaxlib or libtpu change, so that single rows can be run
alone. XLA's partitioners are timed by the passes of jaxlib's XLA, which stops after them; libtpu has a copy of its own,
so its seconds include partitioning once more for these.

Source: arXiv 2105.04663, section 5.1, table 2.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping

import cells
from topologies import GSPMD, OURS, SHARDY

REGATHERED = ", gathered again"  # what a layer needs late is not kept, but gathered again
OVERLAPPED = ", overlapped"  # with what hides communication, of ours and of the compiler
HOWS = (OURS, OURS + REGATHERED, GSPMD, SHARDY, OURS + OVERLAPPED, GSPMD + OVERLAPPED)


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


def _measure(name: str, how: str) -> cells.Cell:
    import paper_cell

    return paper_cell.measure(ROWS[name], how)


def _page(known: Mapping[str, cells.Cell]) -> str:
    import report_paper

    return report_paper.page(ROWS, HOWS, known)


if __name__ == "__main__":
    sys.exit(cells.Table(__file__, __doc__ or "", ROWS, HOWS, _measure, _page, ",", 3000).main())
