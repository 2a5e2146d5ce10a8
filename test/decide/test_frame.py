"""Programs that share frames are partitioned as they are alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

import gspmd
from gspmd.dialect.mesh import Mesh
from gspmd.reading import read_program
from gspmd.transforms.decide.frame import Frame, frames, sharing
from gspmd.transforms.decide.objective import objective_for
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.parsing.mlir import new_context
from gspmd.transforms.paths.placements import AxisParts

CORPUS = Path(__file__).resolve().parents[2] / "benchmarks" / "corpus" / "losses"
TEXTS = [path.read_text(encoding="utf-8") for path in sorted(CORPUS.glob("*.mlir"))[::4]]
SPECS = [
    (P(), P("x")),
    (P(None, "x"), P("y")),
    (P("x", "y"), P(("x", "y"))),
    (P(("y", "x")), P("x", "y")),
    (P("y"), P()),
]


def loss(weights: Any, x: Any) -> Any:
    for weight in weights:
        x = jax.nn.relu(x @ weight) @ weight.T + x
    return jnp.mean(x * x)


def annotated(mesh: dict[str, int], weight: P, example: P) -> str:
    """A training step with a hidden size that not all axes divide."""
    arguments = [jax.ShapeDtypeStruct((96, 144), jnp.float32)] * 2, jax.ShapeDtypeStruct((192, 96), jnp.float32)
    step = gspmd.jit(jax.grad(loss), mesh=mesh, in_shardings=([weight] * 2, example))
    return str(step.lower(*arguments).program)


def partitioned(program: Any, target: str) -> str:
    return gspmd.partition(program, target=target).module_text


def check(texts: list[str], target: str) -> None:
    alone, context = [partitioned(text, target) for text in texts], new_context()
    with sharing():
        for numbers in (range(len(texts)), reversed(range(len(texts)))):
            for number in numbers:
                assert partitioned(read_program(texts[number], context), target) == alone[number]


@pytest.mark.parametrize("target", ["", "tpu-v5p"])
def test_different_programs(target: str) -> None:
    check(TEXTS, target)


@pytest.mark.parametrize("target", ["", "tpu:v5e:4x4"])
@pytest.mark.parametrize("mesh", [{"x": 4, "y": 4}, {"x": 2, "y": 2, "z": 4}])
def test_differently_annotated_programs(mesh: dict[str, int], target: str) -> None:
    check([annotated(mesh, *specs) for specs in SPECS], target)


def test_frames_last_as_long_as_they_are_shared() -> None:
    mesh, objective = Mesh((("x", 2), ("y", 2))), objective_for(Hardware())

    def frame() -> Frame:
        return frames().of(AxisParts(mesh, ()), frozenset(), objective, is_open=False)

    with sharing():
        shared = frame()
        assert frame() is shared
    assert frame() is not shared


def test_frames_of_many_placements_are_not_kept() -> None:
    mesh, objective, own = Mesh((("x", 2), ("y", 2), ("z", 2))), objective_for(Hardware()), frames()
    with sharing():
        first, second = (frames().of(AxisParts(mesh, ()), frozenset(), objective, is_open=False) for _ in range(2))
        assert first is not second
        both = [own.of(AxisParts(mesh, ()), frozenset(), objective, is_open=False) for _ in range(2)]
        assert both[0] is both[1]
