"""What problems have in common on one mesh, under one objective: placements, strategies, prices and tables of costs.

Programs of one session are alike: the plans of a search differ in a few annotations. Inside `sharing`, each table is
computed for the first program that needs it.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Hashable, Iterator
from typing import TypeAlias

from gspmd.transforms.decide.objective import Objective
from gspmd.transforms.decide.op_kinds import OpClass, OpKind
from gspmd.transforms.decide.prices import PriceBook
from gspmd.transforms.decide.strategies import StrategyBook
from gspmd.transforms.decide.tables import Tables
from gspmd.transforms.ir.op_info import sharing_infos
from gspmd.transforms.paths.placements import AxisParts

Uneven: TypeAlias = frozenset[tuple[int, int]]
"""Sizes, with the numbers of axis lists by which propagation splits them unevenly somewhere."""


class Frame:
    """Strategies over axis parts, with prices under an objective, and what was computed of them.

    `classes` are those of operations by kind. If arguments are open, operations may run over any axes. Reshards take
    the routes of `routes`, which may be prices on other hardware.
    """

    def __init__(
        self, strategies: StrategyBook, objective: Objective, is_open: bool, routes: PriceBook | None = None
    ) -> None:
        self.strategies, self.objective, self.is_open = strategies, objective, is_open
        self.parts, self.prices = strategies.parts, PriceBook(strategies.parts, objective.hardware, routes)
        self.tables = Tables()
        self.classes: dict[OpKind, OpClass] = {}


class Frames:
    """The frames of the problems of a program, or of many `alike`. Equal problems have the same frame.

    Frames are kept for other programs only if they list all placements: others are large and seldom equal.
    """

    def __init__(self, alike: Frames | None = None) -> None:
        self._alike = alike
        self._strategies: dict[Hashable, StrategyBook] = {}
        self._known: dict[Hashable, Frame] = {}

    def of(self, parts: AxisParts, uneven: Uneven, objective: Objective, is_open: bool) -> Frame:
        """The frame of a problem over these parts, whose propagation has these uneven shardings."""
        if self._alike is not None and parts.lists_all:
            return self._alike.of(parts, uneven, objective, is_open)
        placements = parts.content(), uneven
        strategies = self._strategies.get(placements)
        if strategies is None:
            strategies = self._strategies[placements] = StrategyBook(parts, uneven)
        key = placements, repr(objective), is_open
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Frame(strategies, objective, is_open)
        return found


_shared: contextvars.ContextVar[Frames | None] = contextvars.ContextVar("gspmd_frames", default=None)


def frames() -> Frames:
    """The frames of a program; inside `sharing`, also those of earlier programs."""
    return Frames(_shared.get())


@contextlib.contextmanager
def sharing() -> Iterator[None]:
    """Inside, programs share descriptions of operations, and frames. All of them have to be in one MLIR context."""
    token = _shared.set(Frames())
    try:
        with sharing_infos():
            yield
    finally:
        _shared.reset(token)
