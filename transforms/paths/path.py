"""The path of a reshard: steps as written into programs, and moves of the search.

For example, `f32[8,4] [{"x"}, {}] -> [{}, {"x"}]` over x=4 is a path of one step: `kind` is "all_to_all", `after` is
[{}, {"x"}], and `moves` is ((x, 0, 1),). The search finds it as a move from the state (((x,), ()), ()) to the state
(((), (x,)), ()), which takes 30.3 ns if bytes dominate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

from gspmd.dialect.axes import Axes
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.exchange.blocks import AxisMoves, Dims
from gspmd.transforms.exchange.step import ReshardStep


@dataclasses.dataclass(frozen=True, slots=True)
class Path:
    """Steps, their time in seconds, and the most bytes of the value on a device between two of them.

    If it is not `complete`, the search stopped early and there may be a better path.
    """

    steps: tuple[ReshardStep, ...]
    time_s: float
    peak_bytes: float = 0.0
    complete: bool = True

    def states(self, source: TensorSharding) -> Iterator[tuple[TensorSharding, ReshardStep]]:
        """Every step, with the sharding before it."""
        for step in self.steps:
            yield source, step
            source = step.after


@dataclasses.dataclass(slots=True)
class MoveBudget:
    """How many moves searches may still try; negative once they have stopped."""

    left: int

    @property
    def used_up(self) -> bool:
        return self.left < 0


PADDING = 1.5
"""The memory of a device during a reshard, relative to the larger of source and target, with room for padding."""

SMALL_BYTES = 2**20
"""A device may always hold this many bytes of a value during a reshard."""

State = tuple[Dims, Axes]
"""The axes of every dimension, and the partial axes."""


class Move(NamedTuple):
    """A step during the search: see `ReshardStep` for the fields.

    `time_s` is in seconds. `peak_bytes` is the peak memory of a device, if that is more than operand and result.
    """

    time_s: float
    after: State
    kind: str
    dims: Dims = ()
    axes: Axes = ()
    moves: AxisMoves = ()
    peak_bytes: float = 0.0
