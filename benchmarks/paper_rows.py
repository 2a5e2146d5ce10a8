"""The paper's dense Transformers, and the ways in which they are partitioned."""

from __future__ import annotations

import dataclasses

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
