"""Writes docs/gallery.md: the models of the GSPMD paper, how each is split, and what it takes on the paper's machines.

Run `python docs/generate.py gallery` after a change to an example or to the measured tables.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from take_pictures import PICTURES

_BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
PAGE = Path(__file__).with_name("gallery.md")


@dataclasses.dataclass(frozen=True)
class Model:
    """A section: its picture and the program in `example_reports.py`, and rows of the tables of measured figures."""

    title: str
    text: str
    command: str
    picture: str
    program: str
    rows: tuple[str, ...]
    caption: str


_INTRODUCTION = """# The paper's models

The [GSPMD paper](https://arxiv.org/abs/2105.04663) partitions several families of models by annotating a few tensors in
each. All of them are in [examples](../examples), written for one device, and `gspmd demo` runs each at a size that
trains in seconds on eight virtual CPU devices. This page is written by `docs/generate_gallery.py`.

The pictures show which device holds which part of an argument: one color per device, and several colors where several
devices hold the same part. They are taken from reports ([report.md](report.md)). On the documentation site, each
picture opens its report; `python benchmarks/example_reports.py reports` writes the same files.

The figures are those of the [dense](measured/paper_table.md) and the [other](measured/paper_families.md) models at the
sizes and on the machines of the paper, compiled by the TPU compiler. No figure is measured on a TPU. *Sent* is what a
core sends in a step, *memory* what it needs at its peak, *step* the estimated time of a step as the compiler schedules
it, and *utilisation* the share of a core's peak rate that the model's own operations reach.
"""
MODELS = (
    Model(
        "Dense Transformers, from 64 billion to a trillion parameters",
        """Section 5.1 of the paper. Every weight matrix is split in two dimensions, over `x` and over `y`. The batch is
split over `x`, and activations are split over `y` as well. Weights are gathered over `x` just before they
are used, and their gradients are reduce-scattered; activations are gathered and reduce-scattered over `y`.""",
        "gspmd demo decoder_lm",
        "report_dense",
        "trillion",
        ("64B", "128B", "256B", "1T"),
        "Four weights of the model with a trillion parameters, over 2,048 cores",
    ),
    Model(
        "Sparse Transformers: mixtures of experts",
        """Section 5.4 of the paper. Every other layer has experts, which are split over the same axis as the batch;
everything else is data parallel. Tokens reach their experts by an all-to-all, and return by another. Neither is written
in the model: they follow from two annotations, of the tokens by batch and of the same tokens by expert.""",
        "gspmd demo moe_translation",
        "report_experts",
        "experts",
        ("sparse Transformer, 128 cores", "sparse Transformer, 512 cores", "sparse Transformer, 2048 cores"),
        "Weights of an expert layer, of a dense layer and of attention, over eight devices",
    ),
    Model(
        "Hybrid Transformers: experts with split dense layers",
        """Section 5.5 of the paper. The model is the same as above, and only the table of axes differs: experts are
split over `x`, and heads, hidden units and the vocabulary over `y`.""",
        "gspmd demo moe_translation --recipe expert+tensor",
        "report_hybrid",
        "hybrid",
        (),
        "The same four weights, now split over two axes",
    ),
    Model(
        "Pipelined models",
        """Sections 5.2 and 5.3 of the paper. Layers are stacked, and their dimension is split over `stage` like any
other dimension. Within a stage, weights are split over `x` and `y`. [pipelining.md](pipelining.md) describes
`gspmd.pipeline`. The Conformer is `gspmd demo conformer`.""",
        "gspmd demo parallelisms --recipe pipeline-2d",
        "report_pipeline",
        "pipeline",
        ("narrow Transformer, 8 stages", "narrow Transformer, no pipeline", "Conformer, 8 stages"),
        "Weights of a decoder in two stages of two layers; the embedding is outside of the pipeline",
    ),
    Model(
        "Image models split in space",
        """Section 5.6 of the paper. Images are split in depth and height, and convolutions exchange halos with their
neighbors, so that no device ever holds a whole image. The convolution kernels are replicated. `gspmd demo metnet` is a
weather model that is split in the same way.""",
        "gspmd demo unet3d --recipe depth+height",
        "report_spatial",
        "spatial",
        ("3-D U-Net of 256³, one core", "3-D U-Net of 256³, 16 cores", "3-D U-Net of 512³, 256 cores"),
        "Images and labels in eight blocks; every device holds all of each kernel",
    ),
)


def gallery() -> str:
    """The page."""
    cells = {name: cell for file in ("paper_table", "paper_families") for name, cell in _stored(file).items()}
    return _INTRODUCTION + "".join("\n" + "\n".join(_section(model, cells)) + "\n" for model in MODELS)


def _section(model: Model, cells: Mapping[str, Any]) -> Iterator[str]:
    picture = f"pictures/{model.picture}.png"
    yield f"## {model.title}\n"
    yield f"{model.text}\n"
    yield f"    {model.command}\n"
    yield f"[![{model.caption}]({picture})]({picture})\n"
    yield "| argument | type | sharding | on each device |"
    yield "|---|---|---|---|"
    yield from _shardings(model.program, PICTURES[model.picture].cards)
    if model.rows:
        yield "\n| model | partitioner | sent | memory | step | utilisation |"
        yield "|---|---|--:|--:|--:|--:|"
        for row in model.rows:
            for how in ("gspmd", "XLA GSPMD"):
                if f"{row}, {how}" in cells:
                    yield f"| {row} | {how} | {_figures(cells[f'{row}, {how}'])} |"


def _figures(cell: Mapping[str, Any]) -> str:
    if "error" in cell:
        return f"{'does not fit into memory' if 'memory' in cell['error'] else 'is refused'} | | |"
    sent = sum(cell["sent"].values()) / 2**30
    utilisation = cell["utilisation"]["scheduled"]
    return f"{sent:.1f} GiB | {cell['peak'] / 2**30:.1f} GiB | {_seconds(cell['scheduled_s'])} | {utilisation:.1%}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def _shardings(program: str, wanted: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Rows of arguments by name and type, each the first that fits."""
    from gspmd.examples.common.running import lowered
    from gspmd.text_report import last_name, sharding_text
    from gspmd.transforms.ir.types import TensorType

    made, mesh = _program(program)
    signature = lowered(made, dict(mesh)).partitioned.signature
    for name, part in wanted:
        for value in signature.inputs:
            brief = TensorType(value.shape, value.element_type).brief
            if last_name(value.name) == name and part in brief:
                local = "x".join(map(str, value.local_shape))
                yield f"| {name} | `{brief}` | `{sharding_text(value.sharding, signature.mesh)}` | {local} |"
                break


def _program(name: str) -> Any:
    if str(_BENCHMARKS) not in sys.path:
        sys.path.append(str(_BENCHMARKS))
    from example_reports import PROGRAMS

    return PROGRAMS[name][0]()


def _stored(file: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_BENCHMARKS / f"{file}.json").read_text(encoding="utf-8"))
    return found
