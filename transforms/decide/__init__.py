"""The decision: the sharding of every value and the strategy of every operation, chosen together by cost.

In: a propagated module. Out: the cheapest shardings, and `gspmd.runs` on operations that run with other shardings than
those of their values. Its data types are `Problem`, variables with states and tables of costs, and `Solution`, a state
for each variable, with a lower bound. docs/objective.md lists all terms and constraints.

A variable is a value, whose states are placements, or an operation, whose states are strategies. A placement assigns
every part of a mesh axis to a dimension, to no dimension, or leaves the value partial over it. So partial sums are
placements, their reduction is a reshard, and the decision includes where a sum is taken. With up to three parts of
axes, all placements are states; with more, those of the axis lists that occur in the program.

- `problem.py` builds the problem: what may be chosen, and what it costs (`objective.py`, `work.py`, `prices.py`).
- The cost of a reshard is the cost of the best route (`transforms/paths/routes.py`), which the planner follows. Between
  many placements, `prices.py` has a closed form, which for padded dimensions is an upper bound. If there are few such
  reshards, the planner prices them.
- `tables.py` interns tables of costs: the same function of the same tables is the same table, so equal layers, heads
  and gradients are computed once. Repeated layers share their variables.
- A constraint that does not bind is a choice of the value that it constrains. If it is not taken, `gspmd-reshard`
  passes the value on (`NOT_TAKEN`). A fixed value with several consumers has a variable for the sharding to which it is
  resharded once for all of them (`THROUGH`).
- `layout.py` places the mesh on a torus for the collectives of the current decision, decides again, and repeats that as
  long as the cost falls.
- `solver.py` eliminates variables with at most two neighbors exactly. For the rest, sequential tree-reweighted messages
  raise the lower bound, and the states that the bound leaves open are searched exactly.

Sources: the formulation as a minimization over pairs follows Alpa (Zheng et al. 2022); the messages follow Kolmogorov
(2006).
"""

from __future__ import annotations

import dataclasses

from jaxlib.mlir import ir

from gspmd.dialect.errors import UsageError
from gspmd.dialect.own_attributes import DECIDED, GIVEN, IN_MIDDLE
from gspmd.transforms.decide.frame import frames
from gspmd.transforms.decide.joined_slices import join_slices
from gspmd.transforms.decide.layout import is_open, laid_out
from gspmd.transforms.decide.objective import Objective, objective_for
from gspmd.transforms.decide.problem import ProblemBuilder
from gspmd.transforms.decide.solver import GAP, Solution, solve
from gspmd.transforms.decide.value_table import ChangedValue, ValueTable
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
FAST, DEFAULT, EXHAUSTIVE = "fast", "default", "most"
PASSES = {FAST: (6, 3), DEFAULT: (100, 3), EXHAUSTIVE: (1000, 1000)}
"""By effort: the limits on rounds of messages, and on reads in a row without a better solution."""


@dataclasses.dataclass(frozen=True)
class PlanningPass(Pass):
    """A pass that prices strategies and reshards: the options for these prices."""

    needs = (INGESTED, PROPAGATED)

    replicate_unsupported: bool = option(False, "run unsupported operations on gathered operands on every device")
    target: str = option("", "hardware for which collectives are priced: a name or a .toml file")
    constraints: str = option(
        WHERE_TAKEN,
        "where-taken: a constraint that does not bind is used where that is cheaper; bind: every constraint binds",
    )


@dataclasses.dataclass(frozen=True)
class Decide(PlanningPass):
    """Choose the sharding of every value without an annotation, and the strategy of every operation."""

    argument = "gspmd-decide"
    summary = "Choose the shardings of all values and the strategies of all operations together, by cost"

    effort: str = option(
        DEFAULT, "fast: values keep the shardings of propagation; most: search until the solution is proven optimal"
    )
    assume_finite: bool = option(
        False, "assume that runtime scale factors are finite, so that sums are reduced after scaling"
    )

    def run(self, module: Operation) -> None:
        self.decided(module)

    def decided(self, module: Operation) -> Decided:
        """Run the pass; returns the decision."""
        return decide(module, **dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True, slots=True)
class Decided:
    """The decision: the values whose sharding differs from propagation, in program order, and the solution.

    `problem` has the candidates and their costs.
    """

    changed: tuple[ChangedValue, ...]
    solution: Solution
    problem: ProblemBuilder

    def gap(self) -> float:
        """An upper bound of the relative distance from the optimum, which may take more rounds than the solution."""
        found, bound = self.solution, self.solution.bound
        if found.gap > GAP:
            bound = max(bound, solve(self.problem.problem).bound)
        return dataclasses.replace(found, bound=min(found.cost, bound)).gap


def decide(
    module: Operation,
    replicate_unsupported: bool = False,
    target: str = "",
    effort: str = DEFAULT,
    constraints: str = WHERE_TAKEN,
    assume_finite: bool = False,
) -> Decided:
    """Decide the shardings of `module` in place, with the prices of a target, and return the decision.

    `reshard` carries the decision out.

    Raises UsageError for an effort other than `fast`, `default` and `most`, and for constraints other than
    `where-taken` and `bind`.
    """
    for given, option_, choices in (
        (effort, "effort", list(PASSES)),
        (constraints, "constraints", [WHERE_TAKEN, BIND]),
    ):
        if given not in choices:
            raise UsageError(f"'{option_}' cannot be '{given}'", hint=f"one of {', '.join(choices)}")
    annotated = AnnotatedProgram(module)
    if join_slices(annotated):
        annotated = AnnotatedProgram(module)
    work = WorkBook(every_row(), context_of(module))
    rules = RuleBook(work.table, replicate_unsupported)
    values = ValueTable(annotated, rules, all_bind=constraints == BIND, assume_finite=assume_finite)
    similar = frames()

    def objective_on(target: str) -> Objective:
        return objective_for(planned_for(target, annotated.mesh))

    def solved(target: str, effort: str) -> tuple[ProblemBuilder, Solution]:
        builder = ProblemBuilder(values, work, objective_on(target), similar, values_stay=effort == FAST)
        return builder, solve(builder.build(), *PASSES[effort])

    named, is_laid_out = target, is_open(target, annotated.mesh)
    if is_laid_out:
        target = laid_out(named, *solved(named, FAST))
    builder, solution = solved(target, effort)
    while is_laid_out and effort != FAST:
        again = laid_out(named, builder, solution)
        if again == target or builder.cost_by(objective_on(again), solution.states) > (1 - GAP) * solution.cost:
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
