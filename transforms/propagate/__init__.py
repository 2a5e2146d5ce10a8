"""Propagation: from annotations on a few values to a sharding of every value.

In: an ingested module. Out: a closed `sdy.sharding` on every value that is split. Its data types are `Graph`, the slots
and rules of a program, and `Completion`, the slots with their shardings and the derivation of each axis.

A slot is a set of values that share one sharding: the carry of a loop (the arguments of condition and body, and the
result), or a sharding group. Values that flow into a slot, such as the initial value of a loop, are connected to it by
an identity rule; so are constraints, barriers and the results of branches. Each use of a constant is a slot of its own.

Propagation is a fixpoint over factors, in levels: user priorities first, then elementwise operations, contractions and
broadcasts (docs/propagation.md). Undisputed axes spread first, and conflicts are settled later, by size.

The solver records only which node changed which slot. `derivation.py` recomputes on demand which tensor of that node an
axis came from, from the rule and the state at that time. Each step goes back in time, so a derivation ends at an
annotation.

Source: arXiv 2105.04663, section 3.5.
"""

from __future__ import annotations

import dataclasses

from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.user_collectives import check_manual
from gspmd.transforms.ops import every_row
from gspmd.transforms.ops.rules import GivenRule, RuleBook
from gspmd.transforms.parsing.diagnostics import remark
from gspmd.transforms.passes import Pass, option
from gspmd.transforms.preconditions import INGESTED
from gspmd.transforms.propagate.factors import CONFLICTS, LEVELS
from gspmd.transforms.propagate.graph import Graph, GraphBuilder
from gspmd.transforms.propagate.hints import join_hints, retire_hints
from gspmd.transforms.propagate.solver import Solver
from gspmd.transforms.propagate.write import LostSplit, settle, write_shardings


@dataclasses.dataclass(frozen=True, slots=True)
class Completion:
    """An annotated program, and a sharding for each of its slots, not yet written to the module.

    `losses` are the values that are split less than annotated or derived.
    """

    annotated: AnnotatedProgram
    rules: RuleBook
    graph: Graph
    solver: Solver
    losses: tuple[LostSplit, ...]

    def write(self) -> None:
        """Write the shardings to the module, and remove groups and barriers."""
        write_shardings(self.annotated, self.graph, self.solver)
        retire_hints(self.annotated)


def complete(module: Operation, replicate_unsupported: bool = False, given: GivenRule | None = None) -> Completion:
    """Solve for the sharding of every value of an ingested module; some operations may have `given` rules.

    The module does not change, except that the user's collectives get their axes.
    """
    annotated = AnnotatedProgram(module)
    check_manual(annotated)
    rules = RuleBook(every_row(), replicate_unsupported, guided=True, given=given)
    graph = GraphBuilder(annotated, rules).build()
    join_hints(annotated, graph, rules)
    solver = Solver(graph.slot_types, graph.initial, graph.nodes, rules.rules)
    solver.solve()
    losses = settle(annotated, graph, solver)
    return Completion(annotated, rules, graph, solver, losses)


@dataclasses.dataclass(frozen=True)
class Propagate(Pass):
    """Give every value a closed sharding that follows from the annotations."""

    argument = "gspmd-propagate"
    summary = "Derive the sharding of every value from annotations on some"
    details = (
        "levels, each after the one before it, in each user priority:",
        *(f"  {number}. {level}" for number, level in enumerate(LEVELS)),
        "conflicts are decided by these rules, in this order:",
        *(f"  {number}. {rule}" for number, rule in enumerate(CONFLICTS, 1)),
    )

    needs = (INGESTED,)

    replicate_unsupported: bool = option(False, "run unsupported operations on gathered operands on every device")

    def run(self, module: Operation) -> None:
        completion = complete(module, self.replicate_unsupported)
        completion.write()
        replicated = completion.rules.replicated
        for op in completion.annotated.program.ops:
            if op.info in replicated:
                remark(op.ir, f"{replicated[op.info]}, so it is computed whole on every device")
        for loss in completion.losses:
            remark(loss.op, loss.why)
