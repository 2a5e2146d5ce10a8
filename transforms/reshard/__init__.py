"""Resharding: insert the collectives that bring every operand and result to the sharding with which its operation runs.

In: a decided module. Out: `sdy` collectives on global shapes, each with `gspmd.cause`, such that every operation fits
its rule. Its data types are `Decision`, the shardings with which an operation runs, and `ReshardStep`, one collective
of a reshard. A module without a decision gets one first, in which all values keep the shardings of propagation.

`Resharder` goes from operation to operation and asks the planner of `transforms/paths` for the steps. Reshards at the
boundary of the program go directly to the shards and devices of arguments and results (`device_orders.py`).
"""

from __future__ import annotations

import dataclasses

from gspmd.dialect.limits import MAX_RESHARD_MOVES
from gspmd.dialect.own_attributes import DECIDED
from gspmd.transforms.decide import BIND, FAST, WHERE_TAKEN, PlanningPass, decide
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.memory_spaces import says_host
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.user_collectives import check_manual
from gspmd.transforms.machine.target_file import planned_for
from gspmd.transforms.ops import every_row
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.parsing.attribute_text import text_of
from gspmd.transforms.passes import option
from gspmd.transforms.paths.planner import Planner
from gspmd.transforms.reshard.calls import remark_on_calls
from gspmd.transforms.reshard.device_orders import exchange_at_ends
from gspmd.transforms.reshard.host_memory import reshard_on_devices
from gspmd.transforms.reshard.rewrite import Decision, Resharder
from gspmd.transforms.reshard.strict import check_strict

__all__ = ["Decision", "Reshard", "reshard"]


@dataclasses.dataclass(frozen=True)
class Reshard(PlanningPass):
    """Insert `sdy` collectives wherever a value is needed with another sharding."""

    argument = "gspmd-reshard"
    summary = "Insert the collectives that give every operand the sharding with which it is needed"

    max_temporary_bytes: int = option(
        0, "bytes of a value that a device may hold during a reshard, if possible; 0 weighs memory against time"
    )
    max_reshard_moves: int = option(
        MAX_RESHARD_MOVES,
        "moves that the search for one reshard may try; then the best path found is used",
        least=1,
    )
    strict: bool = option(False, "refuse programs with reshards that no annotation requires")
    strict_bytes: int = option(0, "bytes that a device may send for such a reshard under 'strict'")

    @property
    def counts_layers(self) -> bool:
        return self.strict  # all reshards that no annotation requires are listed

    def run(self, module: Operation) -> None:
        self.resharded(module, self.strict_bytes if self.strict else None)

    def resharded(self, module: Operation, allowed_bytes: int | None) -> list[Decision]:
        """Run the pass with this limit for reshards that no annotation requires; returns the decisions."""
        return reshard(
            module,
            self.replicate_unsupported,
            self.target,
            allowed_bytes,
            self.max_temporary_bytes,
            self.max_reshard_moves,
            self.constraints,
        )


def reshard(
    module: Operation,
    replicate_unsupported: bool = False,
    target: str = "",
    allowed_bytes: int | None = None,
    max_temporary_bytes: int = 0,
    max_moves: int = MAX_RESHARD_MOVES,
    constraints: str = WHERE_TAKEN,
) -> list[Decision]:
    """Reshard in place; returns the decisions for all conflicts of shardings, in program order.

    Operations run as decided by `decide`. A module without a decision is decided first, and values keep their
    shardings. `target` is the hardware for which collectives are priced; without one, bytes count first. With
    `allowed_bytes`, raises ReshardError if a device sends more than that for any reshard that no annotation requires.
    `max_temporary_bytes` and `max_moves` are as in `Planner`.
    """
    annotated = AnnotatedProgram(module)
    check_manual(annotated)
    decided = annotated.function.attributes.pop(DECIDED, None)
    if decided is None:
        decide(module, replicate_unsupported, target, FAST, constraints)
        annotated = AnnotatedProgram(module)
        decided = annotated.function.attributes.pop(DECIDED)
    hardware = planned_for(text_of(decided) or target, annotated.mesh)
    planner = Planner(annotated.mesh, hardware, max_temporary_bytes, max_moves)
    rewriter = Resharder(annotated, RuleBook(every_row(), replicate_unsupported), planner, constraints == BIND)
    in_host_memory = says_host(annotated.program)
    rewriter.run()
    remark_on_calls(annotated, rewriter)
    if allowed_bytes is not None:
        check_strict(rewriter.moves, allowed_bytes)
    exchange_at_ends(module, planner)
    if in_host_memory:
        reshard_on_devices(module)
    return rewriter.decisions
