"""One model of the paper partitioned in one way, compiled for TPUs, and looked at."""

from __future__ import annotations

from typing import Any

import topologies
from paper_table import MATMUL, Row

SEQUENCE, HEAD_SIZE, VOCABULARY = 1024, 256, 32000


def measure(row: Row, how: str) -> dict[str, Any]:
    """Bytes, seconds, operations and utilisation of a device; see `report_paper`."""
    topologies.prepare(row.devices, how)
    options = {"collective_matmul": True, "bidirectional": True} if how == MATMUL else {}
    mesh = {"x": row.x, "y": row.y}
    task = topologies.Task(_program(row, remat=True), mesh, row.target, _program(row, remat=False), options)
    return topologies.measure(task, how)


def _config(row: Row, remat: bool) -> Any:
    from gspmd.examples import decoder_lm

    return decoder_lm.Config(
        layers=row.layers,
        model=row.model,
        heads=row.heads,
        head_size=HEAD_SIZE,
        hidden=row.hidden,
        vocabulary=VOCABULARY,
        sequence=SEQUENCE,
        batch=row.batch,
        scan=True,
        remat=remat,
        dtype="bfloat16",
        optimizer="factored",
    )


def _program(row: Row, remat: bool) -> Any:
    from gspmd.examples import decoder_lm

    return decoder_lm.program(_config(row, remat), decoder_lm.RECIPES["2d"])
