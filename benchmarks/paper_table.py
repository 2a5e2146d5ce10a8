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

import sys
from collections.abc import Mapping

import cells
import paper_cell
from paper_rows import HOWS, ROWS


def _measure(name: str, how: str) -> cells.Cell:
    return paper_cell.measure(ROWS[name], how)


def _page(known: Mapping[str, cells.Cell]) -> str:
    import report_paper

    return report_paper.page(ROWS, HOWS, known)


if __name__ == "__main__":
    sys.exit(cells.Table(__file__, __doc__ or "", ROWS, HOWS, _measure, _page, ",", 3000).main())
