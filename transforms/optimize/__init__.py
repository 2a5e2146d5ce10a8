"""Optimize the per-device program: merge equal operations, drop unused ones, overlap and combine collectives."""

from __future__ import annotations

import dataclasses

from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.machine.topology import is_topology
from gspmd.transforms.optimize.by_tiers import CollectByTiers
from gspmd.transforms.optimize.collective_matmul import CollectiveMatmul
from gspmd.transforms.optimize.combine import CombineCollectives
from gspmd.transforms.optimize.gather_in_pieces import GatherInPieces
from gspmd.transforms.optimize.merge import MergeCollectives
from gspmd.transforms.optimize.permute_motion import MovePermutes
from gspmd.transforms.optimize.program import CollectivePass, DeviceProgram
from gspmd.transforms.optimize.swap import SwapProducts
from gspmd.transforms.optimize.whole_tiles import ScatterWholeTiles
from gspmd.transforms.passes import Pass, option, same_option, select_options
from gspmd.transforms.preconditions import ONE_MAIN

PASSES: tuple[type[CollectivePass], ...] = (
    MergeCollectives,
    SwapProducts,
    CollectiveMatmul,
    GatherInPieces,
    MovePermutes,
    CollectByTiers,
    ScatterWholeTiles,
    CombineCollectives,
)
"""The passes on collectives, in the order in which `gspmd-optimize` runs them. Each can also be run alone."""


@dataclasses.dataclass(frozen=True)
class Optimize(Pass):
    """Merge equal operations, drop unused ones, and run the passes on collectives that always gain.

    Merging and dropping work as in MLIR's own passes. Passes that cost memory or time elsewhere are options.
    """

    argument = "gspmd-optimize"
    summary = "Merge equal operations, drop unused ones, and simplify collectives"

    needs = (ONE_MAIN,)

    overlap: bool | None = option(
        None, "start matmuls before all of their operands have arrived, where that is estimated to be faster"
    )
    target: str = same_option(CollectiveMatmul, "target")
    combine_bytes: int = option(0, "combine small collectives up to this many bytes together; 0 for none")
    tell_declined: bool = option(False, "say why collectives that look like candidates are left as they are")

    @property
    def counts_layers(self) -> bool:
        return bool(self.combine_bytes)

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
        wanted = {
            **dict.fromkeys((CollectiveMatmul, GatherInPieces, MovePermutes), self._overlaps),
            CombineCollectives: self.combine_bytes > 0,
        }
        return [self._with_options(each) for each in PASSES if wanted.get(each, True)]

    @property
    def _overlaps(self) -> bool:
        """Whether communication is hidden behind dots; by default, on a torus of TPUs."""
        return is_topology(self.target) if self.overlap is None else self.overlap

    def _with_options(self, declaration: type[CollectivePass]) -> CollectivePass:
        """A pass, with the values of the options that it shares with this one."""
        if declaration is CombineCollectives:
            return CombineCollectives(self.combine_bytes, self.combine_bytes)
        return declaration(**select_options(declaration, dataclasses.asdict(self)))
