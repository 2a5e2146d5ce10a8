"""Deciding every value's sharding and every operation's way to run, all together.

What propagation has found is where this begins: what is annotated stays, and of equal solutions the one that departs
least from it is taken. The choice is one problem (`problem.py`): variables are values and operations, and what is paid
for (`objective.py`) is what an operation takes (`work.py`) and what it takes to move values between operations
(`prices.py`). `solver.py` finds the solution and proves how near it is to the best.
"""

from __future__ import annotations

import dataclasses

from jaxlib.mlir import ir

from gspmd.dialect.errors import UsageError
from gspmd.dialect.own_attributes import DECIDED, GIVEN, IN_MIDDLE
from gspmd.transforms.decide.joined_slices import join_slices
from gspmd.transforms.decide.layout import is_open, laid_out
from gspmd.transforms.decide.objective import objective_for
from gspmd.transforms.decide.places import ChangedValue, ValuePlaces
from gspmd.transforms.decide.problem import ProblemBuilder
from gspmd.transforms.decide.solver import Solution, solve
from gspmd.transforms.decide.work import WorkBook
from gspmd.transforms.decide.write import write
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.modules import context_of
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.machine.target_file import planned_for
from gspmd.transforms.ops import every_row
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.passes import Pass, option
from gspmd.transforms.preconditions import INGESTED, PROPAGATED

__all__ = ["ChangedValue", "Decide", "Decided", "PlanningPass", "decide"]

WHERE_TAKEN, BIND = "where-taken", "bind"
FAST, DEFAULT, MOST = "fast", "default", "most"
PASSES = {FAST: (6, 3), DEFAULT: (100, 3), MOST: (1000, 1000)}
"""By effort, how often messages are passed at most while bound and solution are apart, and how often solutions are
read in vain."""


@dataclasses.dataclass(frozen=True)
class PlanningPass(Pass):
    """A pass that compares ways to run operations or to move values: what it compares them by."""

    needs = (INGESTED, PROPAGATED)

    replicate_unsupported: bool = option(False, "compute operations that are not supported whole on every device")
    target: str = option("", "hardware that collectives are priced for: a name or a .toml file")
    constraints: str = option(
        WHERE_TAKEN,
        "where-taken: one that binds nothing is moved to if that pays; bind: every one is, and taken as it says",
    )


@dataclasses.dataclass(frozen=True)
class Decide(PlanningPass):
    """Choose the sharding of every value that is not annotated, and how every operation is run."""

    argument = "gspmd-decide"
    summary = "Choose the shardings of values and the ways to run operations that cost least together"

    effort: str = option(
        DEFAULT, "fast: values stay as propagation has them; most: search on until the solution is proven the best"
    )
    assume_finite: bool = option(False, "take numbers that sums are scaled with for finite, and sum up behind that")

    def run(self, module: Operation) -> None:
        self.decided(module)

    def decided(self, module: Operation) -> Decided:
        """Run the pass; returns what was decided."""
        return decide(module, **dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True, slots=True)
class Decided:
    """What was decided: the values that are not as propagation has them, in program order, and the solution.

    `problem` has what may be chosen and what that costs.
    """

    changed: tuple[ChangedValue, ...]
    solution: Solution
    problem: ProblemBuilder


def decide(
    module: Operation,
    replicate_unsupported: bool = False,
    target: str = "",
    effort: str = DEFAULT,
    constraints: str = WHERE_TAKEN,
    assume_finite: bool = False,
) -> Decided:
    """Decide in place, with the prices of a target, as `reshard` follows it; returns what was decided.

    Raises UsageError for an effort that is none of `fast`, `default` and `most`, and for constraints that are neither
    `where-taken` nor `bind`.
    """
    for said, what, known in ((effort, "effort", list(PASSES)), (constraints, "constraints", [WHERE_TAKEN, BIND])):
        if said not in known:
            raise UsageError(f"'{what}' cannot be '{said}'", hint=f"one of {', '.join(known)}")
    annotated = AnnotatedProgram(module)
    if join_slices(annotated):
        annotated = AnnotatedProgram(module)
    work = WorkBook(every_row(), context_of(module))
    rules = RuleBook(work.table, replicate_unsupported)
    places = ValuePlaces(annotated, rules, all_bind=constraints == BIND, assume_finite=assume_finite)

    def solved(target: str, effort: str) -> tuple[ProblemBuilder, Solution]:
        objective = objective_for(planned_for(target, annotated.mesh))
        builder = ProblemBuilder(places, work, objective, values_stay=effort == FAST)
        return builder, solve(builder.build(), *PASSES[effort])

    named, is_laid_out = target, is_open(target, annotated.mesh)
    if is_laid_out:
        target = laid_out(named, *solved(named, FAST))
    builder, solution = solved(target, effort)
    while is_laid_out and effort != FAST:
        again = laid_out(named, builder, solution)
        if again == target:
            break
        other = solved(again, effort)
        if other[1].cost >= solution.cost:
            break
        target, (builder, solution) = again, other
    changed = write(builder, solution.states)
    for op in annotated.program.ops:
        for name in (GIVEN, IN_MIDDLE):
            op.ir.attributes.pop(name, None)
    annotated.function.attributes[DECIDED] = ir.StringAttr.get(target, context_of(module))
    return Decided(tuple(changed), solution, builder)
