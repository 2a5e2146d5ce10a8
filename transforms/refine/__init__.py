"""Refinement: values between operations that run otherwise get the sharding that is cheapest for all of them."""

from __future__ import annotations

import dataclasses

from gspmd.dialect.limits import MAX_RESHARD_MOVES
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.passes import Pass, option
from gspmd.transforms.preconditions import INGESTED, PROPAGATED
from gspmd.transforms.refine.chains import Chains, Refinement
from gspmd.transforms.reshard import chooser_for

__all__ = ["Refine", "Refinement", "refine"]


@dataclasses.dataclass(frozen=True)
class Refine(Pass):
    """Give values that are not annotated the sharding that costs least in all operations around them."""

    argument = "gspmd-refine"
    summary = "Give values between operations that run otherwise the cheapest sharding for all of them"

    needs = (INGESTED, PROPAGATED)

    replicate_unsupported: bool = option(False, "compute operations that are not supported whole on every device")
    target: str = option("", "hardware that collectives are priced for: a name or a .toml file")
    max_temporary_bytes: int = option(
        0, "what a device may hold of a value on its way, where there is a way (0: as much as is worth the time)"
    )
    max_reshard_moves: int = option(
        MAX_RESHARD_MOVES,
        "moves of collectives that are looked at for one operation; then the best found is taken",
        least=1,
    )

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
    chooser = chooser_for(annotated, target, max_temporary_bytes, max_moves)
    return Chains(annotated, RuleBook(chooser.table, replicate_unsupported), chooser).run()
