"""Writes pages of `gspmd report` for six programs: `python benchmarks/example_reports.py FOLDER [NAME ..]`.

`demo` is what `gspmd demo` runs; `experts` is a mixture of experts, and `hybrid` the same model with its dense layers
split as well; `pipeline` is a decoder in a pipeline of stages that are split in two dimensions; `spatial` is a 3-D
U-Net whose images are split in depth and height; and `trillion` is the row of a trillion parameters of
`paper_table.py`, over 2,048 devices. No device of any of these is needed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def _example(name: str, recipe: str) -> tuple[Any, Mapping[str, int]]:
    """An example of ours in one of its parallelisms, and its mesh."""
    import dataclasses
    import importlib

    example = importlib.import_module(f"gspmd.examples.{name}")
    config = dataclasses.replace(example.Config(), recipe=recipe)
    chosen = example.RECIPES[recipe]
    return example.program(config, chosen), chosen.mesh


def _trillion() -> tuple[Any, Mapping[str, int]]:
    import paper_cell
    from paper_rows import ROWS

    row = ROWS["1T"]
    return paper_cell.program(row, remat=True), {"x": row.x, "y": row.y}


PROGRAMS: Mapping[str, tuple[Callable[[], tuple[Any, Mapping[str, int]]], str]] = {
    "demo": (lambda: _example("decoder_lm", "2d"), "tpu-v5p"),
    "experts": (lambda: _example("moe_translation", "expert"), "tpu-v5p"),
    "hybrid": (lambda: _example("moe_translation", "expert+tensor"), "tpu-v5p"),
    "pipeline": (lambda: _example("parallelisms", "pipeline-2d"), "tpu-v5p"),
    "spatial": (lambda: _example("unet3d", "depth+height"), "tpu-v5p"),
    "trillion": (_trillion, "tpu:v3:32x32"),
}


def main(words: list[str]) -> int:
    """The exit code: 2 for what is no name, and without a folder."""
    if not words or not {*words[1:]} <= {*PROGRAMS}:
        print(f"usage: example_reports.py FOLDER [{' '.join(PROGRAMS)}]", file=sys.stderr)
        return 2
    import gspmd
    from gspmd.examples.common.running import lowered

    folder = Path(words[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name in words[1:] or PROGRAMS:
        make, target = PROGRAMS[name]
        started = time.perf_counter()
        program, mesh = make()
        path = folder / f"{name}.html"
        gspmd.report(lowered(program, dict(mesh)).program, target=target).save(path)
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB in {time.perf_counter() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    from gspmd.virtual_devices import request_devices

    request_devices("cpu", 8)
    sys.exit(main(sys.argv[1:]))
