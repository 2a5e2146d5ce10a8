"""Resharding: every operation gets its operands as its rule needs them, by the cheapest collectives."""

from __future__ import annotations

import dataclasses
import weakref

from gspmd.dialect.limits import MAX_RESHARD_MOVES
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.memory_spaces import says_host
from gspmd.transforms.ir.modules import context_of
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.user_collectives import check_manual
from gspmd.transforms.machine.target_file import planned_for
from gspmd.transforms.ops import every_row
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.passes import Pass, option
from gspmd.transforms.preconditions import INGESTED, PROPAGATED
from gspmd.transforms.reshard.calls import tell_of_calls
from gspmd.transforms.reshard.device_orders import exchange_at_ends
from gspmd.transforms.reshard.host_memory import reshard_on_devices
from gspmd.transforms.reshard.joined_slices import join_slices
from gspmd.transforms.reshard.planner import Planner
from gspmd.transforms.reshard.rewrite import Decision, Resharder
from gspmd.transforms.reshard.strategy import Chooser
from gspmd.transforms.reshard.strict import check_strict

__all__ = ["Chooser", "Decision", "Planner", "PlanningPass", "Reshard", "chooser_for", "reshard"]


@dataclasses.dataclass(frozen=True)
class PlanningPass(Pass):
    """A pass that compares ways to run operations and to move values: what it compares them by."""

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


@dataclasses.dataclass(frozen=True)
class Reshard(PlanningPass):
    """Insert `sdy` collectives wherever a value is needed other than it is."""

    argument = "gspmd-reshard"
    summary = "Insert the collectives that bring every operand where it is needed"

    strict: bool = option(False, "refuse programs with reshards that no annotation asks for")
    strict_bytes: int = option(0, "what a device may send for such a reshard under 'strict'")

    @property
    def counts_layers(self) -> bool:
        return self.strict  # every reshard that no annotation asks for is listed

    def run(self, module: Operation) -> None:
        allowed_bytes = self.strict_bytes if self.strict else None
        reshard(
            module,
            self.replicate_unsupported,
            self.target,
            allowed_bytes,
            self.max_temporary_bytes,
            self.max_reshard_moves,
        )


_choosers: weakref.WeakKeyDictionary[Operation, dict[tuple[str, int, int], Chooser]] = weakref.WeakKeyDictionary()


def chooser_for(annotated: AnnotatedProgram, target: str, max_temporary_bytes: int, max_moves: int) -> Chooser:
    """What chooses strategies for a module, with all that it has found: the same for all passes that ask alike."""
    kept = _choosers.setdefault(annotated.module, {})
    key = target, max_temporary_bytes, max_moves
    if key not in kept:
        planner = Planner(annotated.mesh, planned_for(target, annotated.mesh), max_temporary_bytes, max_moves)
        kept[key] = Chooser(planner, every_row(), context_of(annotated.module))
    return kept[key]


def reshard(
    module: Operation,
    replicate_unsupported: bool = False,
    target: str = "",
    allowed_bytes: int | None = None,
    max_temporary_bytes: int = 0,
    max_moves: int = MAX_RESHARD_MOVES,
) -> list[Decision]:
    """Reshard in place; returns what was decided, in program order, wherever tensors disagreed.

    `target` is the hardware that collectives are priced for; without one, bytes count first. With `allowed_bytes`,
    raises ReshardError if a device sends more than that for any reshard that no annotation asks for.
    `max_temporary_bytes` and `max_moves` are as in `Planner`.
    """
    annotated = AnnotatedProgram(module)
    check_manual(annotated)
    if join_slices(annotated):
        annotated = AnnotatedProgram(module)
    chooser = chooser_for(annotated, target, max_temporary_bytes, max_moves)
    rewriter = Resharder(annotated, RuleBook(chooser.table, replicate_unsupported), chooser)
    in_host_memory = says_host(annotated.program)
    rewriter.run()
    tell_of_calls(annotated, rewriter)
    if allowed_bytes is not None:
        check_strict(rewriter.moves, allowed_bytes)
    exchange_at_ends(module, chooser.planner)
    if in_host_memory:
        reshard_on_devices(module)
    return rewriter.decisions
