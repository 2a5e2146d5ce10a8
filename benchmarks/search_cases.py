"""The programs that `search.py` looks for plans of: models, machines, meshes, and how experts annotate them."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import paper_cell
import paper_families
import paper_rows
from search_models import Diffusion, Graph, Llama, Vision

from gspmd.examples.common.program import Program
from gspmd.examples.common.recipe import Recipe


@dataclasses.dataclass(frozen=True)
class Case:
    """A program on a machine. `experts` are the ways that people annotate it, by name; `program` takes one of them."""

    summary: str
    target: str
    mesh: Mapping[str, int]
    program: Callable[[Any], Program]
    experts: Mapping[str, Any]


_HEADS_ON_Y = {"n": "y", "h": "y", "v": "y", "N": "y", "H": "y", "V": "y"}
_GROUPS_ON_Y = {"k": "y", "K": "y"}
_BOTH = ("x", "y")
TWO_D = Recipe("the paper's 2-D, finalised", {}, {**_HEADS_ON_Y, **_GROUPS_ON_Y, "m": "x", "B": "x", "M": "y"})
MEGATRON = Recipe(
    "Megatron with sequence parallelism and a sharded optimizer",
    {},
    {**_HEADS_ON_Y, **_GROUPS_ON_Y, "B": "x", "P": "y"},
    moments="x",
)
FSDP = Recipe("fully sharded", {}, {"m": _BOTH, "B": _BOTH})
_TRAINING = {"2-D": TWO_D, "Megatron, sequence": MEGATRON, "FSDP": FSDP}
_TENSOR = Recipe(
    "heads, hidden units and vocabulary on y, examples on x", {}, {**_HEADS_ON_Y, **_GROUPS_ON_Y, "B": "x"}
)
_STATIONARY = Recipe("the same, and weights on x, too", {}, {**_HEADS_ON_Y, **_GROUPS_ON_Y, "m": "x", "B": "x"})
_DECODING = {"tensor parallel": _TENSOR, "2-D weights": _STATIONARY}
_EDGES = {
    "edges": Recipe("edges on all axes, nodes whole", {}, {"E": _BOTH}),
    "edges and nodes": Recipe("edges and nodes on all axes", {}, {"E": _BOTH, "N": _BOTH}),
}
_IMAGES = {
    "data parallel": Recipe("examples on all axes", {}, {"B": _BOTH}),
    "FSDP": Recipe("examples and weights on all axes", {}, {"B": _BOTH, "o": _BOTH}),
    "channels": Recipe("examples on x, channels on y", {}, {"B": "x", "o": "y", "C": "y"}),
}
_EIGHT = {"layers": 32, "model": 4096, "heads": 32, "groups": 8, "hidden": 14336}
_SEVENTY = {"layers": 80, "model": 8192, "heads": 64, "groups": 8, "hidden": 28672}


def _modelled(summary: str, target: str, mesh: Mapping[str, int], model: Any, experts: Mapping[str, Recipe]) -> Case:
    return Case(summary, target, mesh, lambda recipe: model.program(recipe.on(mesh)), experts)


def _dense(name: str) -> Case:
    row = paper_rows.ROWS[name]
    return Case(
        f"the paper's dense Transformer, {row.layers} layers of {row.model} x {row.hidden}",
        row.target,
        {"x": row.x, "y": row.y},
        lambda _: paper_cell.program(row, True),
        {"the paper's": None},
    )


def _family(name: str, experts: Mapping[str, str], summary: str = "", **changed: Any) -> Case:
    row = paper_families.EVERY[name]
    mesh = changed.pop("mesh", row.mesh)
    module = importlib.import_module(f"gspmd.examples.{row.example}")
    settings = {**row.settings, **changed}
    if row.example == "conformer":
        settings.pop("microbatches", None)
    program = functools.partial(_made, module, settings, mesh, row.example)
    return Case(summary or row.summary, row.target, mesh, program, experts)


def _made(module: Any, settings: Mapping[str, Any], mesh: Mapping[str, int], example: str, recipe: str) -> Program:
    config = module.Config(**settings)
    made: Program = module.program(config, module.RECIPES[recipe].on(mesh))
    if example == "unet3d":  # whose volumes take long to make up
        import jax.numpy as jnp

        shape = (config.batch, *config.sizes)
        volumes = lambda _: {"image": jnp.zeros((*shape, 1)), "label": jnp.zeros(shape, jnp.int32)}  # noqa: E731
        return dataclasses.replace(made, batch=volumes)
    return made


CASES = {name: _dense(name) for name in paper_rows.TABLE_2} | {
    "sparse Transformer": _family("sparse Transformer, 128 cores", {"experts on x": "expert", "data parallel": "dp"}),
    "Conformer": _family(
        "Conformer, 8 stages",
        {"tensors on y": "tp", "data parallel": "dp"},
        "4 layers of 3072 x 12288, not in a pipeline",
        mesh={"x": 16, "y": 8},
        layers=4,
    ),
    "BERT-like encoder": _family("BERT-like encoder", {"the paper's 2-D": "2d"}),
    "3-D U-Net": _family("3-D U-Net of 256³, 16 cores", {"slabs of depth": "depth"}),
    "Llama 8B": _modelled(
        "training, 256 sequences of 4096",
        "tpu:v5p:4x4x4",
        {"x": 8, "y": 8},
        Llama(**_EIGHT, batch=256, length=4096),
        _TRAINING,
    ),
    "Llama 8B on v5e": _modelled(
        "training, 256 sequences of 4096",
        "tpu:v5e:16x16",
        {"x": 16, "y": 16},
        Llama(**_EIGHT, batch=256, length=4096),
        _TRAINING,
    ),
    "Llama 70B": _modelled(
        "training, 512 sequences of 4096",
        "tpu:v5p:4x8x8",
        {"x": 32, "y": 8},
        Llama(**_SEVENTY, batch=512, length=4096),
        _TRAINING,
    ),
    "Llama 8B, decoding": _modelled(
        "a token of 32 sequences, 4096 cached",
        "tpu:v5e:2x4",
        {"x": 2, "y": 4},
        Llama(**_EIGHT, batch=32, length=4096, is_decoding=True),
        _DECODING,
    ),
    "Llama 70B, decoding": _modelled(
        "a token of 64 sequences, 4096 cached",
        "tpu:v5e:4x8",
        {"x": 4, "y": 8},
        Llama(**_SEVENTY, batch=64, length=4096, is_decoding=True),
        _DECODING,
    ),
    "vision Transformer": _modelled(
        "48 layers of 6144 x 24576, 4096 images of 256 patches",
        "tpu:v4:4x8x8",
        {"x": 32, "y": 8},
        Vision(layers=48, model=6144, heads=48, hidden=24576, batch=4096),
        _TRAINING,
    ),
    "graph network": _modelled(
        "8 layers on 2²⁰ nodes and 2²³ edges of 512",
        "tpu:v4:4x4x4",
        {"x": 8, "y": 8},
        Graph(layers=8, nodes=2**20, edges=2**23, model=512, hidden=512),
        _EDGES,
    ),
    "diffusion U-Net": _modelled(
        "1024 images of 64 x 64, 320 to 2560 channels",
        "tpu:v5e:8x8",
        {"x": 8, "y": 8},
        Diffusion(batch=1024, image=64, channels=320, levels=4),
        _IMAGES,
    ),
}
