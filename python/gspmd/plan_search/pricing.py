"""The cost of decisions on a program, by partitioning it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

from jaxlib.mlir import ir

from gspmd import api
from gspmd.costs.outcome import Outcome, outcome_of
from gspmd.dialect.diagnostic import telling
from gspmd.dialect.errors import Error
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_axis_name
from gspmd.dialect.progress import following
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.plan_search.roles import Roles
from gspmd.reading import read_program
from gspmd.suggestions.annotating import annotate_arguments, constrain_results

Dims: TypeAlias = tuple[tuple[str, ...], ...]
"""The axes of each dimension, the most major first."""

State: TypeAlias = tuple[TensorSharding | None, ...]
"""The sharding of each role; None if left to propagation."""

_WORTH = 1 - 1e-4  # smaller relative differences count as equal


def sharding_of(mesh: Mesh, dims: Dims) -> TensorSharding:
    """The sharding over a mesh with these axes."""
    return replicated(mesh, len(dims)).with_axes(tuple(tuple(map(mesh.axis, names)) for names in dims))


def dims_of(sharding: TensorSharding) -> Dims:
    """The axes of a sharding by name."""
    return tuple(tuple(print_axis_name(axis, sharding.mesh) for axis in axes) for axes in sharding.dim_axes())


@dataclasses.dataclass(frozen=True, slots=True)
class SearchSettings:
    """The settings of a search: the target, the memory limit of a device, and arguments of `partition`."""

    target: str
    most_bytes: float
    arguments: Mapping[str, Any]


@dataclasses.dataclass(slots=True)
class PlanPrices:
    """Prices states of a program over one mesh, each once; `found` has None for states that cannot be partitioned."""

    module: ir.Module
    roles: Roles
    question: SearchSettings
    found: dict[State, Outcome | None] = dataclasses.field(default_factory=dict)

    def price(self, state: State) -> Outcome | None:
        """The cost of a state; None if the program cannot be partitioned with it."""
        if state not in self.found:
            with following(None), telling(nobody):
                try:
                    product = api.partition(self.annotated(state), **self.question.arguments)
                    self.found[state] = outcome_of(product, self.question.target, self.question.most_bytes)
                except Error:
                    self.found[state] = None
        return self.found[state]

    def annotated(self, state: State) -> ir.Module:
        """The program with these decisions as annotations of arguments and constraints on values inside."""
        copy = read_program(self.module)
        pairs = [(role, sharding) for role, sharding in zip(self.roles.roles, state, strict=True) if sharding]
        results = {value.place: sharding for role, sharding in pairs for value in role.values}
        arguments = {number: sharding for role, sharding in pairs for number in role.arguments}
        if results:
            constrain_results(copy, results)
        if arguments:
            annotate_arguments(copy, arguments)
        return copy


def nobody(said: object) -> None:
    """Discards the progress and the remarks of a trial's passes."""


def rank(outcome: Outcome | None) -> tuple[float, ...]:
    """The order of outcomes: programs that fit, then time, then bytes; programs that cannot run come last."""
    if outcome is None:
        return (2.0,)
    if not outcome.fits:
        return (1.0, outcome.memory_bytes, outcome.step_s)
    return (0.0, outcome.step_s, outcome.sent_bytes, outcome.memory_bytes)


def is_better(new: Outcome | None, old: Outcome | None) -> bool:
    """Whether it is better by more than a rounding error."""
    if new is None or old is None or not (new.fits and old.fits):
        return rank(new) < rank(old)
    if new.step_s < old.step_s * _WORTH:
        return True
    return new.step_s <= old.step_s and new.sent_bytes < old.sent_bytes * _WORTH
