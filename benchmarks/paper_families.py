"""The paper's other models through the TPU compiler, on the machines they were trained on or their like.

Usage: `python benchmarks/paper_families.py [--rows NAME;..] [--how gspmd;..] [--limit SECONDS] [--markdown FILE]
[--again]`.

Needs libtpu (pip install 'gspmd[tpu]') and no TPU. Cells are as those of `paper_table.py`, kept in
benchmarks/paper_families.json. Layers outside loops are few, because compilers take minutes for each.

Sources: arXiv 2105.04663, sections 5.2 to 5.6; arXiv 2006.16668 (GShard); arXiv 2109.13226 (Conformer).
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import cells
from topologies import GSPMD, OURS, SHARDY

if TYPE_CHECKING:
    from gspmd.examples.common.program import Program

HOWS = (OURS, GSPMD, SHARDY)


@dataclasses.dataclass(frozen=True)
class Row:
    """A configuration of an example: `settings` of its `Config` and of the mesh, which is that of the recipe.

    `fits` is whether it has to fit into the memory of a device.
    """

    example: str
    summary: str
    target: str
    mesh: Mapping[str, int]
    recipe: str
    settings: Mapping[str, Any]
    fits: bool = True


_BFLOAT16 = {"remat": True, "dtype": "bfloat16"}
# GShard's M4: model 1024, hidden 8192, 16 heads of 128, an expert a core, and a sequence or two a core.
_SPARSE = {"layers": 2, "model": 1024, "heads": 16, "head_size": 128, "hidden": 8192, "vocabulary": 32000}
_SPARSE |= {"sequence": 1024, **_BFLOAT16}
_NARROW = {"layers": 32, "model": 4096, "heads": 32, "head_size": 128, "hidden": 16384, "vocabulary": 32000}
_NARROW |= {"sequence": 1024, "batch": 512, "microbatches": 32, "optimizer": "factored", **_BFLOAT16}
_CONFORMER = {"layers": 32, "model": 3072, "heads": 16, "head_size": 192, "hidden": 12288, "features": 80}
_CONFORMER |= {"frames": 1600, "phonemes": 1024, "batch": 256, "microbatches": 16, **_BFLOAT16}
_BERT = {"layers": 155, "model": 16384, "heads": 128, "head_size": 128, "hidden": 65536, "vocabulary": 32000}
_BERT |= {"sequence": 512, "batch": 4096, "scan": True, "optimizer": "factored", **_BFLOAT16}
_VOLUME = {"batch": 1, "depth": 256, "height": 256, "width": 256, "levels": 4, "channels": 32}
_LARGE_VOLUME = {**_VOLUME, "depth": 512, "height": 512, "width": 512}

ROWS = {
    f"sparse Transformer, {cores} cores": Row(
        "moe_translation",
        f"{cores} experts of 1024 x 8192, one per core; 2 of GShard's 12 to 36 layers in encoder and decoder each",
        f"tpu:v3:{chips}",
        {"x": cores},
        "expert",
        {**_SPARSE, "experts": cores, "batch": cores},
    )
    for cores, chips in ((128, "8x8"), (512, "16x16"), (2048, "32x32"))
} | {
    "narrow Transformer, 8 stages": Row(
        "parallelisms",
        "32 layers of 4096 x 16384 in a pipeline, each stage in 2-D",
        "tpu:v3:8x8",
        {"stage": 8, "x": 4, "y": 4},
        "pipeline-2d",
        _NARROW,
    ),
    "narrow Transformer, no pipeline": Row(
        "parallelisms", "the same in 2-D only", "tpu:v3:8x8", {"x": 8, "y": 16}, "2d", _NARROW
    ),
    "Conformer, 8 stages": Row(
        "conformer",
        "32 layers of 3072 x 12288 in a pipeline, the batch on 16 cores",
        "tpu:v3:8x8",
        {"stage": 8, "x": 16},
        "pipeline",
        _CONFORMER,
    ),
    "BERT-like encoder": Row(
        "bert",
        "155 layers of 16384 x 65536, scanned, in 2-D on 2048 chips",
        "tpu:v4:8x16x16",
        {"x": 256, "y": 16},
        "2d",
        _BERT,
    ),
    "3-D U-Net of 256³, one core": Row(
        "unet3d", "an image of 256³, whole", "tpu:v3:2x2", {"x": 1}, "depth", _VOLUME, fits=False
    ),
    "3-D U-Net of 256³, 16 cores": Row(
        "unet3d", "an image of 256³ in slabs of depth", "tpu:v3:2x4", {"x": 16}, "depth", _VOLUME
    ),
    "3-D U-Net of 512³, 256 cores": Row(
        "unet3d",
        "an image of 512³ by depth and height",
        "tpu:v3:8x16",
        {"x": 16, "y": 16},
        "depth+height",
        _LARGE_VOLUME,
    ),
}

# The same small program for ever more devices, to see what grows with these.
_SMALL = {"layers": 2, "model": 2048, "heads": 64, "head_size": 64, "hidden": 8192, "vocabulary": 8192}
_SMALL |= {"sequence": 256, "batch": 128, "scan": True, **_BFLOAT16}
GROWING = {
    f"small decoder, {x * y} devices": Row("decoder_lm", "", target, {"x": x, "y": y}, "2d", _SMALL)
    for target, x, y in (
        ("tpu:v3:8x8", 8, 16),
        ("tpu:v3:16x16", 16, 32),
        ("tpu:v3:32x32", 32, 64),
        ("tpu:v5p:16x16x16", 64, 64),
    )
}
EVERY = {**ROWS, **GROWING}


def _measure(name: str, how: str) -> cells.Cell:
    import topologies

    row = EVERY[name]
    topologies.prepare(math.prod(row.mesh.values()), how)
    model = _program(row, remat=False) if "remat" in row.settings else None
    return topologies.measure(topologies.Task(_program(row), row.mesh, row.target, model), how)


def _program(row: Row, **changed: Any) -> Program:
    """The example's training step."""
    module = importlib.import_module(f"gspmd.examples.{row.example}")
    config = module.Config(**{**row.settings, **changed})
    made: Program = module.program(config, module.RECIPES[row.recipe].on(row.mesh))
    if row.example == "unet3d":  # whose volumes take long to make up
        import jax.numpy as jnp

        shape = (config.batch, *config.sizes)
        volumes = lambda _: {"image": jnp.zeros((*shape, 1)), "label": jnp.zeros(shape, jnp.int32)}  # noqa: E731
        return dataclasses.replace(made, batch=volumes)
    return made


def _page(known: Mapping[str, cells.Cell]) -> str:
    import report_paper

    return report_paper.families(ROWS, GROWING, HOWS, known)


if __name__ == "__main__":
    table = cells.Table(__file__, __doc__ or "", EVERY, HOWS, _measure, _page, ";", 1800, lambda name: EVERY[name].fits)
    sys.exit(table.main())
