"""What decisions on a program's arguments cost, found by partitioning it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

from jaxlib.mlir import ir

from gspmd import api
from gspmd.costs.outcome import Outcome, outcome_of
from gspmd.dialect.axes import size_of
from gspmd.dialect.diagnostic import telling
from gspmd.dialect.errors import Error
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.progress import following
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.pass_manager.manager import run_pipeline
from gspmd.plan_search.roles import ArgumentRole, Roles
from gspmd.reading import read_program
from gspmd.suggestions.annotating import annotate_arguments
from gspmd.transforms.refine import Refine

Dims: TypeAlias = tuple[tuple[str, ...], ...]
"""The axes of each dimension, the most major first."""

State: TypeAlias = tuple[Dims | None, ...]
"""What is decided of each role; None where that is left to propagation."""


def sharding_of(mesh: Mesh, dims: Dims) -> TensorSharding:
    """The sharding over a mesh with these axes."""
    return replicated(mesh, len(dims)).with_axes(tuple(tuple(map(mesh.axis, names)) for names in dims))


def divides(role: ArgumentRole, mesh: Mesh, dims: Dims) -> bool:
    """Whether all shards are of one size."""
    return all(n % size_of(tuple(map(mesh.axis, names))) == 0 for n, names in zip(role.type.shape, dims, strict=True))


@dataclasses.dataclass(slots=True)
class PlanPrices:
    """Prices states of a program over one mesh, each once; a device may hold `most_bytes`, 0 for all that it has.

    Rough prices leave `gspmd-refine` out, which is the slowest pass.
    """

    module: ir.Module
    mesh: Mesh
    roles: Roles
    target: str
    most_bytes: float
    arguments: Mapping[str, Any]
    rough: dict[State, Outcome | None] = dataclasses.field(default_factory=dict)
    exact: dict[State, Outcome | None] = dataclasses.field(default_factory=dict)

    def price(self, state: State, is_rough: bool = False) -> Outcome | None:
        """None where the program cannot be partitioned so."""
        known = self.rough if is_rough else self.exact
        if state not in known:
            with following(_nobody), telling(_unheard):
                try:
                    module = self.annotated(state)
                    product = self._roughly(module) if is_rough else api.partition(module, **self.arguments)
                    known[state] = outcome_of(product, self.target, self.most_bytes)
                except Error:
                    known[state] = None
        return known[state]

    def _roughly(self, module: ir.Module) -> api.Partitioned:
        rest = {name: value for name, value in self.arguments.items() if name not in ("custom_rules", "on_stage")}
        passes = [pass_ for pass_ in api.passes_of(None, **rest) if not isinstance(pass_, Refine)]
        run_pipeline(passes, module, api.attaching(self.arguments.get("custom_rules")))
        return api.Partitioned(module)

    def annotated(self, state: State) -> ir.Module:
        """The program with these decisions written to its arguments."""
        module = read_program(self.module)
        shardings = {
            number: sharding_of(self.mesh, dims)
            for role, dims in zip(self.roles.roles, state, strict=True)
            if dims is not None
            for number in role.arguments
        }
        if shardings:
            annotate_arguments(module, shardings)
        return module


def _nobody(step: object) -> None:
    """Hears of the passes of a trial, which are no steps of the whole."""


def _unheard(diagnostic: object) -> None:
    """Hears what passes say of programs that nobody asked for."""


def rank(outcome: Outcome | None) -> tuple[float, ...]:
    """What outcomes are compared by: whether the program fits, then time, then bytes; what cannot be run comes last."""
    if outcome is None:
        return (2.0,)
    if not outcome.fits:
        return (1.0, outcome.memory_bytes, outcome.step_s)
    return (0.0, outcome.step_s, outcome.sent_bytes, outcome.memory_bytes)
