"""Sharding completion: from annotations on a few values to a sharding of every value.

Source: arXiv 2105.04663, section 3.5.
"""

from __future__ import annotations

import dataclasses

from jaxlib.mlir import ir

from gspmd.transforms.ops import OPS
from gspmd.transforms.propagate.graph import GraphBuilder
from gspmd.transforms.propagate.hints import join_hints, retire_hints
from gspmd.transforms.propagate.solver import Solver
from gspmd.transforms.propagate.write import write_shardings
from gspmd.transforms.support.annotated import AnnotatedProgram
from gspmd.transforms.support.diagnostics import remark
from gspmd.transforms.support.passes import Pass, option
from gspmd.transforms.support.rules import RuleBook
from gspmd.transforms.support.user_collectives import check_manual


@dataclasses.dataclass(frozen=True)
class Propagate(Pass):
    """Give every value a closed sharding that follows from the annotations."""

    argument = "gspmd-propagate"
    summary = "Complete the sharding of every value from the annotated ones"

    replicate_unsupported: bool = option(False, "compute operations that are not supported whole on every device")

    def run(self, module: ir.Module) -> None:
        annotated = AnnotatedProgram(module)
        check_manual(annotated)
        rules = RuleBook(OPS, self.replicate_unsupported, guided=True)
        graph = GraphBuilder(annotated, rules).build()
        leaders = join_hints(annotated, graph, rules)
        solver = Solver(graph.slot_types, graph.initial, graph.nodes, rules.rules)
        solver.solve()
        for slot, leader in leaders.items():
            solver.state[slot] = solver.state[leader]
        write_shardings(annotated, graph, solver)
        for op in annotated.program.ops:
            if op.info in rules.replicated:
                remark(op.ir, f"{rules.replicated[op.info]}, so it is computed whole on every device")
        retire_hints(annotated)
