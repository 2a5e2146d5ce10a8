"""Branches that are always taken: JAX emits a `case` with one branch for platform-dependent code."""

from __future__ import annotations

from collections.abc import Iterable

from gspmd.transforms.ir.operations import Operation


def inline_only_branches(cases: Iterable[Operation]) -> None:
    """Replace every `stablehlo.case` of one branch by its operations, unless it is annotated."""
    for case in cases:
        if len(case.regions) != 1 or "sdy.sharding" in case.attributes:
            continue
        case.inline()
