"""What an example's training step sends between devices, for tests to look at, and how close it stays to one device."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import numpy as np

import gspmd
from gspmd.collectives import collective_operations
from gspmd.examples.common.program import Program
from gspmd.examples.common.recipe import ONE_DEVICE
from gspmd.examples.common.running import compare, lowered
from gspmd.transforms.ir.reading import model_of

BOUND = {"constraints": "bind"}
"""Options with which all that a recipe says of values between operations binds."""
AS_WRITTEN = BOUND | {"effort": "fast"}
"""Options with which a recipe is run as it is written: all that it says binds, and nothing else is split otherwise."""

# Seen are 2e-5 and less; up to 2e-3 where Adam's first step divides a gradient near 0 by its own size, in a bias that
# was 0 before and to whose size the error is relative.
STATE_TOLERANCE = 5e-3


@dataclasses.dataclass(frozen=True)
class Sent:
    """A collective: `kind` as in StableHLO, the axes as text, and the shape that a device gives and gets."""

    kind: str
    axes: str
    given: tuple[int, ...]
    got: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Of the larger of the two."""
        return max(math.prod(self.given), math.prod(self.got))


@functools.lru_cache(maxsize=8)
def step(example: Any, config: Any) -> gspmd.Lowered:
    """A training step by the configured recipe, on the recipe's mesh of eight devices."""
    recipe = example.RECIPES[config.recipe]
    return lowered(example.program(config, recipe), dict(recipe.mesh))


@functools.lru_cache(maxsize=8)
def sent(example: Any, config: Any, as_written: bool = True) -> tuple[Sent, ...]:
    """Its collectives, in order, if it is run as it is written, or as is decided."""
    recipe, options = example.RECIPES[config.recipe], AS_WRITTEN if as_written else None
    partitioned = lowered(example.program(config, recipe), dict(recipe.mesh), options=options).partitioned
    return tuple(
        Sent(
            collective.kind,
            collective.axes.replace('"', ""),
            op.operands[0].type.shape,
            op.result.type.shape,
        )
        for op, collective in collective_operations(model_of(partitioned.module), partitioned.mesh)
    )


def of_kind(found: tuple[Sent, ...], *kinds: str) -> list[Sent]:
    return [each for each in found if each.kind in kinds]


@functools.lru_cache(maxsize=4)
def _on_one_device(example: Any, config: Any) -> Program:
    """The same object for equal configurations, so that JAX compiles its step once."""
    program: Program = example.program(config, ONE_DEVICE)
    return program


def single(example: Any, config: Any) -> Program:
    """The program unpartitioned: the same whatever the configured recipe."""
    return _on_one_device(example, dataclasses.replace(config, recipe=""))


def errors(example: Any, config: Any, steps: int = 5) -> tuple[float, float]:
    """The largest errors of metrics and of states in these steps, beside those on one device."""
    recipe = example.RECIPES[config.recipe]
    program, compiled = example.program(config, recipe), step(example, config).compile()
    compared = list(compare(program, single(example, config), dict(recipe.mesh), steps, compiled))
    return max(each.metric_error for each in compared), max(each.state_error for each in compared)


def losses(example: Any, config: Any, steps: int = 30) -> list[float]:
    """On one device."""
    program = single(example, config)
    run, state, found = jax.jit(program.step), program.init(), []
    for index in range(steps):
        state, metrics = run(state, program.batch(index))
        found.append(float(np.asarray(metrics["loss"])))
    return found
