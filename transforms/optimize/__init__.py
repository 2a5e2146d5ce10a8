"""Tidying the per-device program: equal operations merged, unused ones dropped, collectives made fewer and smaller."""

from __future__ import annotations

import dataclasses

from gspmd.dialect.limits import MAX_UNROLLED
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.optimize.accumulate import ReduceAfterLoops
from gspmd.transforms.optimize.collective_matmul import CollectiveMatmul
from gspmd.transforms.optimize.combine import CombineCollectives
from gspmd.transforms.optimize.delay import DelayReductions
from gspmd.transforms.optimize.fuse import FuseCollectives
from gspmd.transforms.optimize.gather_in_pieces import GatherInPieces
from gspmd.transforms.optimize.hoist import HoistCollectives
from gspmd.transforms.optimize.merge import MergeCollectives
from gspmd.transforms.optimize.narrow import NarrowCollectives
from gspmd.transforms.optimize.permute_motion import MovePermutes
from gspmd.transforms.optimize.permutes import SimplifyPermutes
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram
from gspmd.transforms.optimize.regather import Regather
from gspmd.transforms.optimize.swap import SwapProducts
from gspmd.transforms.passes import Pass, option, same_option, select_options
from gspmd.transforms.preconditions import ONE_MAIN

PASSES: tuple[type[CollectivePass], ...] = (
    MergeCollectives,
    FuseCollectives,
    DelayReductions,
    ReduceAfterLoops,
    HoistCollectives,
    NarrowCollectives,
    SwapProducts,
    SimplifyPermutes,
    CombineCollectives,
    MovePermutes,
    CollectiveMatmul,
    GatherInPieces,
    Regather,
)
"""Every pass on collectives, each of which can be run alone."""


@dataclasses.dataclass(frozen=True)
class Optimize(Pass):
    """Merge equal operations, drop unused ones, and run the passes on collectives that always gain.

    Merging and dropping are MLIR's own passes. What costs memory or time elsewhere is an option.
    """

    argument = "gspmd-optimize"
    summary = "Merge equal operations, drop unused ones, and simplify collectives"

    needs = (ONE_MAIN,)

    hoist_max_bytes: int = option(64 << 20, "bytes of results a device may hold during one loop for hoisting")
    keep_gathered_bytes: int = same_option(Regather, "keep_gathered_bytes")
    merge_distance: int = same_option(MergeCollectives, "merge_distance")
    assume_finite: bool = same_option(DelayReductions, "assume_finite")
    collective_matmul: bool = option(False, "overlap large matmuls with the communication around them")
    matmul_min_bytes: int = same_option(CollectiveMatmul, "matmul_min_bytes")
    bidirectional: bool = same_option(CollectiveMatmul, "bidirectional")
    max_unrolled_steps: int = same_option(CollectiveMatmul, "max_unrolled_steps")
    use_cost_model: bool = same_option(CollectiveMatmul, "use_cost_model")
    target: str = same_option(CollectiveMatmul, "target")
    gather_pieces: int = option(
        1, "chunks of all-gathers that matmuls wait for; 1 for whole ones", least=1, most=MAX_UNROLLED
    )
    pieces_min_bytes: int = same_option(GatherInPieces, "pieces_min_bytes")
    combine_bytes: int = option(0, "combine small collectives up to this many bytes together; 0 for none")
    move_permutes: bool = option(False, "move permutes from the end of a loop's body to its beginning")
    tell_declined: bool = option(False, "say why collectives that look like candidates are left as they are")

    @property
    def counts_layers(self) -> bool:
        return bool(self.keep_gathered_bytes or self.merge_distance or self.combine_bytes)

    def run(self, module: Operation) -> None:
        program = DeviceProgram(module, self.tell_declined)
        program.tidy()
        if not program.collectives():
            return
        for pass_ in self._passes():
            before = program.changes
            pass_.apply(program)
            if program.changes != before:
                program.tidy()
        program.finish()

    def _passes(self) -> list[CollectivePass]:
        passes: list[CollectivePass] = [
            self._handing_on(MergeCollectives),
            NarrowCollectives(),
            FuseCollectives(),
            self._handing_on(DelayReductions),
            ReduceAfterLoops(),
            SwapProducts(),
            SimplifyPermutes(),
            self._handing_on(HoistCollectives),
        ]
        if self.keep_gathered_bytes:
            passes.append(self._handing_on(Regather))
        if self.collective_matmul:
            passes.append(self._handing_on(CollectiveMatmul))
        if self.gather_pieces > 1:
            passes.append(self._handing_on(GatherInPieces))
        if self.move_permutes:
            passes.append(MovePermutes())
        if self.combine_bytes:
            passes.append(CombineCollectives(self.combine_bytes, self.combine_bytes))
        return passes

    def _handing_on(self, declaration: type[CollectivePass]) -> CollectivePass:
        """A pass with those of its options that this one has too."""
        return declaration(**select_options(declaration, dataclasses.asdict(self)))
