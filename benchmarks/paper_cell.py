"""One model of the paper partitioned in one way, compiled for TPUs, and looked at."""

from __future__ import annotations

from typing import Any

import topologies
from paper_rows import OVERLAPPED, REGATHERED, Row

SEQUENCE, VOCABULARY = 1024, 32000
# What libtpu hides communication with. For TPU v3 it has that off, and gspmd turns it on.
_COMPILER = ("xla_enable_async_all_gather", "xla_enable_async_collective_permute")


def measure(row: Row, how: str) -> dict[str, Any]:
    """Bytes, seconds, operations and utilisation of a device; see `report_paper`."""
    partitioner, overlapped = how.removesuffix(OVERLAPPED).removesuffix(REGATHERED), how.endswith(OVERLAPPED)
    topologies.prepare(row.devices, partitioner)
    activation = row.batch // row.x * SEQUENCE * row.model * 2  # bytes of one in bfloat16, gathered
    options = {"keep_gathered_bytes": 3 * activation} if how.endswith(REGATHERED) else {}
    options["overlap"] = overlapped
    task = topologies.Task(
        program(row, remat=True),
        {"x": row.x, "y": row.y},
        row.target,
        program(row, remat=False),
        options,
        dict.fromkeys(_COMPILER, overlapped),
    )
    return topologies.measure(task, partitioner)


def program(row: Row, remat: bool) -> Any:
    """The training step of a row, with 2-D sharding; `remat`: layers are computed again in the backward pass."""
    sizes: dict[str, Any] = {
        "layers": row.layers,
        "model": row.model,
        "heads": row.heads,
        "head_size": row.head_size,
        "hidden": row.hidden,
        "vocabulary": VOCABULARY,
        "sequence": SEQUENCE,
        "batch": row.batch,
        "gated": row.gated,
        "remat": remat,
    }
    if row.text == "second_text":
        import second_text

        return second_text.program(second_text.Sizes(**sizes))
    from gspmd.examples import decoder_lm

    config = decoder_lm.Config(**sizes, scan=True, dtype="bfloat16", optimizer="factored")
    return decoder_lm.program(config, decoder_lm.RECIPES["2d"])
