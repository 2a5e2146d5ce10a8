"""What an optimised HLO module does on a device in one call: collectives and arithmetic, loops as they run."""

from __future__ import annotations

import dataclasses

from gspmd.compiled.hlo_work import work_in
from gspmd.compiled.optimized_hlo import OptimizedModule
from gspmd.dialect.mesh import Mesh

_UNNAMED = Mesh(())


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """What a device sends and computes in one call of an optimised HLO module.

    By kind of collective, `sent` is the bytes that a device sends and `number` how many collectives it takes part in.
    `flops` counts dots and convolutions. `unknown_loops` is the number of collectives in loops whose trip count is not
    known; they count once.
    """

    sent: dict[str, float]
    number: dict[str, int]
    flops: float
    unknown_loops: int

    @property
    def bytes(self) -> float:
        return sum(self.sent.values())


def count(text: str) -> Counts:
    """Count the entry computation of a module's text, and what it calls."""
    work = work_in(OptimizedModule(text), _UNNAMED)
    sent: dict[str, float] = {}
    number: dict[str, int] = {}
    for each in work.collectives:
        sent[each.kind] = sent.get(each.kind, 0.0) + each.sent_bytes * each.runs
        number[each.kind] = number.get(each.kind, 0) + each.runs
    return Counts(sent, number, sum(work.flops.values()), sum(not each.known for each in work.collectives))
