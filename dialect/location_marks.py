"""Numbers in the locations of operations, which passes preserve: they identify an operation in later programs.

A mark is `fused<"gspmd.place.3">[..]` around the original location. A named location would be lost when JAX's inliner
joins the names of scopes.
"""

from __future__ import annotations

import re
from typing import Protocol

from jaxlib.mlir import ir


class Marked(Protocol):
    """An operation, of MLIR or in memory."""

    location: ir.Location


class LocationMark:
    """A kind of numbers that locations carry."""

    def __init__(self, kind: str) -> None:
        self._text = f"gspmd.{kind}."
        self._mark = re.compile(rf'fused<"{re.escape(self._text)}(\d+)">')
        self._marked = re.compile(rf"{self._mark.pattern}\[(.*)\](?=\)$)", re.DOTALL)

    def set(self, op: Marked, number: int) -> None:
        """Add a number to an operation's location."""
        context = op.location.context
        mark = ir.StringAttr.get(f"{self._text}{number}", context)
        op.location = ir.Location.fused([op.location], mark, context)

    def numbers(self, location: ir.Location) -> tuple[int, ...]:
        """The marks in a location, innermost first: of an operation, and of the calls it was inlined through."""
        return tuple(int(number) for number in self._mark.findall(str(location)))

    def without(self, location: ir.Location) -> str:
        """The text of a location without the mark around it."""
        return self._marked.sub(r"\2", str(location))


GIVEN = LocationMark("given")
"""The operations of the input program, in order; see `gspmd.explanations.value_names`."""

PLACE = LocationMark("place")
"""The operations of the completed program, in order; see `gspmd.explanations.conflicts`."""

LINE = "gspmd.line."
"""The prefix of the names of operations that XLA identifies by source line, without other marks; see
`gspmd.comparisons.line_names`.
"""
