"""Branches that are always taken: JAX writes a `case` of one branch for what depends on the platform."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gspmd.transforms.ingest.edits import replace


def inline_only_branches(cases: Iterable[Any]) -> None:
    """Put the operations of every `stablehlo.case` of one branch in its place; annotated ones stay as they are."""
    for case in cases:
        if len(case.regions) != 1 or "sdy.sharding" in case.attributes:
            continue
        *operations, last = [view.operation for view in case.regions[0].blocks[0].operations]
        returned = list(last.operands)
        for op in operations:
            op.move_before(case)
        last.erase()
        replace(case, returned)
