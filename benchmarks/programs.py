"""The programs that are partitioned: a decoder-only Transformer's training step, its layers unrolled."""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import numpy as np
from jax.sharding import Mesh
from models import annotating

from gspmd.examples import decoder_lm
from gspmd.transforms.ingest.survey import callee_of, functions_of
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.parsing.mlir import new_context, parse_module

# A larger batch than weights, as in practice; every size divides by 64, the longer side of the largest mesh.
CONFIG = decoder_lm.Config(model=128, heads=64, head_size=16, hidden=512, vocabulary=512, sequence=128, batch=64)
# The same where every size divides by 512, for meshes up to 512 x 256.
LARGE = dataclasses.replace(CONFIG, model=8192, heads=512, hidden=32768, vocabulary=32768, batch=512)


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A program with Shardy's annotations (`sdy`) and the same one with GSPMD's (`mhlo`), as MLIR text.

    `mesh_shape` are the sizes of the axes x and y; `ops` is how many operations it has, calls inlined.
    """

    layers: int
    mesh_shape: tuple[int, int]
    sdy: str
    mhlo: str
    ops: int

    @property
    def devices(self) -> int:
        return math.prod(self.mesh_shape)

    @property
    def axes(self) -> dict[str, int]:
        """The mesh: size by name of axis."""
        return dict(zip(("x", "y"), self.mesh_shape, strict=True))


def mesh_shape(devices: int) -> tuple[int, int]:
    """The most nearly square mesh of a power of two of devices, the longer side first."""
    if devices < 1 or devices & (devices - 1) or devices > 4096:
        raise ValueError(f"expected a power of two up to 4096, got {devices} devices")
    shorter = 2 ** (int(math.log2(devices)) // 2)
    return devices // shorter, shorter


def lower(layers: int, devices: int, config: decoder_lm.Config = CONFIG) -> Program:
    """The training step lowered by JAX for both partitioners of XLA."""
    shape = mesh_shape(devices)
    mesh = Mesh(np.array(jax.devices()[:devices]).reshape(shape), ("x", "y"))
    config = dataclasses.replace(config, layers=layers)
    sdy, mhlo = (annotating(shardy, lambda: decoder_lm.lower(config, mesh)).as_text() for shardy in (True, False))
    return Program(layers, shape, sdy, mhlo, count_operations(sdy))


def count_operations(text: str) -> int:
    """Operations of the program with its calls inlined, without the bodies of reductions and the returns."""
    module = parse_module(text, new_context())
    functions = functions_of(model_of(module))

    @functools.cache
    def size(name: str) -> int:
        *ops, _ = functions[name].regions[0]
        return sum(size(callee_of(op)) if op.name == "func.call" else 1 for op in ops)

    return size("main")
