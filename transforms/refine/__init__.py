"""Refinement: values between operations that run otherwise get the sharding that is cheapest for all of them."""

from __future__ import annotations

import dataclasses

from gspmd.dialect.limits import MAX_RESHARD_MOVES
from gspmd.dialect.own_attributes import GIVEN, IN_MIDDLE
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.refine.chains import Chains
from gspmd.transforms.refine.places import Refinement
from gspmd.transforms.reshard import PlanningPass, chooser_for
from gspmd.transforms.reshard.joined_slices import join_slices

__all__ = ["Refine", "Refinement", "refine"]


@dataclasses.dataclass(frozen=True)
class Refine(PlanningPass):
    """Give values that are not annotated the sharding that costs least in all operations around them."""

    argument = "gspmd-refine"
    summary = "Give values between operations that run otherwise the cheapest sharding for all of them"

    def run(self, module: Operation) -> None:
        refine(module, self.replicate_unsupported, self.target, self.max_temporary_bytes, self.max_reshard_moves)


def refine(
    module: Operation,
    replicate_unsupported: bool = False,
    target: str = "",
    max_temporary_bytes: int = 0,
    max_moves: int = MAX_RESHARD_MOVES,
) -> list[Refinement]:
    """Refine in place, with the prices that `reshard` has; returns what was changed, in program order."""
    annotated = AnnotatedProgram(module)
    if join_slices(annotated):
        annotated = AnnotatedProgram(module)
    chooser = chooser_for(annotated, target, max_temporary_bytes, max_moves)
    refined = Chains(annotated, RuleBook(chooser.table, replicate_unsupported), chooser).run()
    for op in annotated.program.ops:
        for name in (GIVEN, IN_MIDDLE):
            op.ir.attributes.pop(name, None)
    return refined
