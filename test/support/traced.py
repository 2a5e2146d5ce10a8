"""The examples, lowered by JAX for a mesh, and the communication that resharding decides on."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jaxlib.mlir import ir

from gspmd import api
from gspmd.examples.common.recipe import ONE_DEVICE
from gspmd.pass_manager import PassManager
from gspmd.reading import read_program
from gspmd.transforms.exchange.step import ATTRIBUTES
from gspmd.transforms.exchange.step_notation import STEPS
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.parsing.mlir import new_context, source_location
from gspmd.transforms.pipeline import default_pipeline

MESHES: dict[str, dict[str, int]] = {
    "8": {"x": 8},
    "4x2": {"x": 4, "y": 2},
    "2x2x2": {"x": 2, "y": 2, "z": 2},
}
AS_WRITTEN = {"constraints": "bind", "effort": "fast"}
TENSOR_MESHES = {"y8": {"y": 8}}
"""Of one axis, over which recipes split heads and hidden units."""


@functools.lru_cache(maxsize=16)
def lower(example: Any, config: Any, mesh: str, shardy: bool = True) -> str:
    """The training step's text, annotated as Shardy or as GSPMD has it."""
    axes = (MESHES | TENSOR_MESHES)[mesh]
    devices = np.array(jax.devices()[: math.prod(axes.values())]).reshape(tuple(axes.values()))
    before = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", shardy)
    try:
        return str(example.lower(config, Mesh(devices, tuple(axes))).as_text(debug_info=True))
    finally:
        jax.config.update("jax_use_shardy_partitioner", before)


def inputs_of(example: Any, config: Any) -> list[Any]:
    """Real arguments of the step: initial state and the first batch."""
    program = example.program(config, ONE_DEVICE)
    return list(jax.tree.leaves((program.init(), program.batch(0))))


@dataclasses.dataclass(frozen=True)
class Move:
    """A collective between global tensors: `kind` as in `sdy`, the tensor's global shape, axes as text.

    `line` is the line of the model that needs it.
    """

    kind: str
    shape: tuple[int, ...]
    axes: str
    cause: str
    line: int
    in_loop: bool


_LISTED = STEPS - {"sdy.all_slice", "sdy.reshard"}


@functools.lru_cache(maxsize=16)
def moves(example: Any, config: Any, mesh: str, as_written: bool = True) -> tuple[Move, ...]:
    """What resharding inserts into the step, run as it is written or as is decided, in order; cuts, which cost nothing,
    left out.
    """
    module = read_program(lower(example, config, mesh), new_context())
    manager = PassManager()
    for pass_ in default_pipeline(AS_WRITTEN if as_written else {})[:4]:  # up to the reshards
        manager.add(pass_)
    manager.run(module)
    found: list[Move] = []

    def visit(op: Operation, in_loop: bool) -> None:
        name = op.name
        if name in _LISTED:
            kind = name.removeprefix("sdy.")
            axes = str(op.attributes[ATTRIBUTES[kind].name]).split("<", 1)[1] if kind in ATTRIBUTES else ""
            where = source_location(op.location)
            cause = ir.StringAttr(op.attributes["gspmd.cause"]).value
            shape = op.result.type.shape
            found.append(Move(kind, shape, axes, cause, where.line if where else 0, in_loop))
        for region in op.regions:
            for inner in region:
                visit(inner, in_loop or name == "stablehlo.while")

    visit(model_of(module), False)
    return tuple(found)


def partition(example: Any, config: Any, mesh: str, shardy: bool = True, effort: str = "default") -> api.Partitioned:
    return api.partition(lower(example, config, mesh, shardy), options={"effort": effort})


def partition_as_written(example: Any, config: Any, mesh: str) -> api.Partitioned:
    """Where values lie as annotations have them, and all of these bind."""
    return api.partition(lower(example, config, mesh), options=AS_WRITTEN)
