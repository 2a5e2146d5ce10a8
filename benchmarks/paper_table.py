"""The paper's dense Transformers through the TPU compiler: gspmd beside XLA's own partitioners, row by row.

Usage: `python benchmarks/paper_table.py [--rows 64B,..] [--how gspmd;..] [--limit SECONDS] [--markdown FILE]
[--again]`.

Needs libtpu (pip install 'gspmd[tpu]') and no TPU. Every cell runs in a process of its own, for at most --limit
seconds, and is kept in benchmarks/paper_table.json until sizes, jaxlib or libtpu change, so that single rows can be run
alone. XLA's partitioners are timed by the passes of jaxlib's XLA, which stops after them; libtpu has a copy of its own,
so its seconds include partitioning once more for these.

Rows of the second text are for four ways, which `--how "gspmd;XLA GSPMD;gspmd, overlapped;XLA GSPMD, overlapped"` asks
for.

Sources: arXiv 2105.04663, section 5.1, table 2; for the published configuration, `DenseLm128B32x32` of Lingvo
(github.com/tensorflow/lingvo, `lingvo/tasks/lm/params/synthetic_packed_input.py`).
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
    """A model of the paper on TPU v3: sizes, chips of the torus, and the mesh.

    `text` is the module that the model is written in: `decoder_lm` of the examples, or `second_text`.
    """

    layers: int
    model: int
    heads: int
    hidden: int
    batch: int
    chips: str
    x: int
    y: int
    head_size: int = 256
    gated: bool = False
    text: str = "decoder_lm"

    @property
    def target(self) -> str:
        return f"tpu:v3:{self.chips}"

    @property
    def devices(self) -> int:
        return self.x * self.y


SECOND = " second text"
_FIRST = {
    "64B": Row(32, 8192, 128, 65536, 64, "8x8", 8, 16),
    "128B": Row(64, 8192, 128, 65536, 128, "8x16", 16, 16),
    "256B": Row(128, 8192, 128, 65536, 256, "16x16", 16, 32),
    "1T": Row(128, 16384, 256, 131072, 512, "32x32", 32, 64),
    "128B as published": Row(64, 8192, 128, 65536, 512, "32x32", 32, 64, head_size=128, gated=True),
}
TABLE_2 = ("64B", "128B", "256B", "1T")
"""The rows of the paper's table, in the first text."""
ROWS = {
    name + text: dataclasses.replace(row, text=module)
    for name, row in _FIRST.items()
    for text, module in (("", "decoder_lm"), (SECOND, "second_text"))
}


def _measure(name: str, how: str) -> cells.Cell:
    import paper_cell

    return paper_cell.measure(ROWS[name], how)


def _page(known: Mapping[str, cells.Cell]) -> str:
    import report_paper

    return report_paper.page(ROWS, HOWS, known)


if __name__ == "__main__":
    sys.exit(cells.Table(__file__, __doc__ or "", ROWS, HOWS, _measure, _page, ",", 3000).main())
