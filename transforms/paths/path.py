"""What a reshard is made of: steps as they are written into programs, and moves as they are searched.

For example, `f32[8,4] [{"x"}, {}] -> [{}, {"x"}]` over x=4 is a path of one step: `kind` is "all_to_all", `after` is
[{}, {"x"}], and `moves` is ((x, 0, 1),). The search finds it as a move from the state (((x,), ()), ()) to the state
(((), (x,)), ()), which takes 30.3 ns where bytes come first.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from gspmd.dialect.axes import Axes
from gspmd.transforms.exchange.blocks import AxisMoves, Dims
from gspmd.transforms.exchange.step import ReshardStep


@dataclasses.dataclass(frozen=True, slots=True)
class Path:
    """Steps, the seconds they take, and the most bytes that a device holds of the value between two of them.

    If it is not `complete`, the search was given up and there may be a better path.
    """

    steps: tuple[ReshardStep, ...]
    time_s: float
    peak_bytes: float = 0.0
    complete: bool = True


@dataclasses.dataclass(slots=True)
class MoveBudget:
    """Moves that searches may still look at; below 0 once they have been given up."""

    left: int

    @property
    def used_up(self) -> bool:
        return self.left < 0


PADDING = 1.5
"""How many times the larger of source and target a device may hold of a value on its way: padding needs some room."""

State = tuple[Dims, Axes]
"""Axes of every dimension, and those along which sums are partial."""


class Move(NamedTuple):
    """A step as the search has it, not yet written out: see `ReshardStep` for the fields.

    `time_s` is in seconds. `peak_bytes` is what a device holds at a time, if that is more than operand or result.
    """

    time_s: float
    after: State
    kind: str
    dims: Dims = ()
    axes: Axes = ()
    moves: AxisMoves = ()
    peak_bytes: float = 0.0
