"""Branches that are always taken: JAX writes a `case` of one branch for what depends on the platform."""

from __future__ import annotations

from collections.abc import Iterable

from gspmd.transforms.ir.operations import Operation


def inline_only_branches(cases: Iterable[Operation]) -> None:
    """Put the operations of every `stablehlo.case` of one branch in its place; annotated ones stay as they are."""
    for case in cases:
        if len(case.regions) != 1 or "sdy.sharding" in case.attributes:
            continue
        case.inline()
