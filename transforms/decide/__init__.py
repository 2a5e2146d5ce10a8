"""Deciding every value's sharding and every operation's way to run, all together.

What propagation has found is where this begins: what is annotated stays, and of equal solutions the one that departs
least from it is taken. The choice is one problem (`problem.py`): variables are values and operations, and what is paid
for (`objective.py`) is what an operation takes and what it takes to move values between operations (`prices.py`).
`solver.py` finds the solution and proves how near it is to the best.
"""

from __future__ import annotations

import dataclasses

from gspmd.dialect.limits import MAX_RESHARD_MOVES
from gspmd.dialect.own_attributes import GIVEN, IN_MIDDLE
from gspmd.transforms.decide.problem import ProblemBuilder
from gspmd.transforms.decide.solver import Solution, solve
from gspmd.transforms.decide.write import write
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.refine.places import Refinement, ValuePlaces
from gspmd.transforms.reshard import PlanningPass, chooser_for
from gspmd.transforms.reshard.joined_slices import join_slices


@dataclasses.dataclass(frozen=True)
class Decide(PlanningPass):
    """Choose the sharding of every value that is not annotated, and how every operation is run."""

    argument = "gspmd-decide"
    summary = "Choose the shardings of values and the ways to run operations that cost least together"

    def run(self, module: Operation) -> None:
        decide(module, self.replicate_unsupported, self.target, self.max_temporary_bytes, self.max_reshard_moves)


@dataclasses.dataclass(frozen=True, slots=True)
class Decided:
    """What was decided: the values that are not as propagation has them, in program order, and the solution."""

    changed: tuple[Refinement, ...]
    solution: Solution


def decide(
    module: Operation,
    replicate_unsupported: bool = False,
    target: str = "",
    max_temporary_bytes: int = 0,
    max_moves: int = MAX_RESHARD_MOVES,
) -> Decided:
    """Decide in place, with the prices of a target, as `reshard` follows it; returns what was decided."""
    annotated = AnnotatedProgram(module)
    if join_slices(annotated):
        annotated = AnnotatedProgram(module)
    chooser = chooser_for(annotated, target, max_temporary_bytes, max_moves)
    places = ValuePlaces(annotated, RuleBook(chooser.table, replicate_unsupported))
    builder = ProblemBuilder(places, chooser)
    solution = solve(builder.build())
    changed = write(builder, solution.states)
    for op in annotated.program.ops:
        for name in (GIVEN, IN_MIDDLE):
            op.ir.attributes.pop(name, None)
    return Decided(tuple(changed), solution)
