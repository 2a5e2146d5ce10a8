"""Resharding: every operation gets its operands as its rule needs them, by the cheapest collectives."""

from __future__ import annotations

import dataclasses

from jaxlib.mlir import ir

from gspmd.transforms.ops import OPS
from gspmd.transforms.reshard.joined_slices import join_slices
from gspmd.transforms.reshard.planner import Planner
from gspmd.transforms.reshard.rewrite import Decision, Rewriter
from gspmd.transforms.reshard.strategy import Chooser
from gspmd.transforms.support.annotated import AnnotatedProgram
from gspmd.transforms.support.passes import Pass, option
from gspmd.transforms.support.rules import RuleBook
from gspmd.transforms.support.user_collectives import check_manual

__all__ = ["Chooser", "Decision", "Planner", "Reshard", "reshard"]


@dataclasses.dataclass(frozen=True)
class Reshard(Pass):
    """Insert `sdy` collectives wherever a value is needed other than it is."""

    argument = "gspmd-reshard"
    summary = "Insert the collectives that bring every operand where it is needed"

    replicate_unsupported: bool = option(False, "compute operations that are not supported whole on every device")

    def run(self, module: ir.Module) -> None:
        reshard(module, self.replicate_unsupported)


def reshard(module: ir.Module, replicate_unsupported: bool = False) -> list[Decision]:
    """Reshard in place; returns what was decided, in program order, wherever tensors disagreed."""
    annotated = AnnotatedProgram(module)
    check_manual(annotated)
    if join_slices(annotated):
        annotated = AnnotatedProgram(module)
    rewriter = Rewriter(annotated, RuleBook(OPS, replicate_unsupported), Planner(annotated.mesh))
    rewriter.run()
    return rewriter.decisions
