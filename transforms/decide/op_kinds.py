"""Kinds of equal operations, and their strategies with costs."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from gspmd.dialect.axes import Axes
from gspmd.dialect.rule import OpShardingRule
from gspmd.transforms.decide.strategies import Strategies
from gspmd.transforms.decide.tables import Domain
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.paths.placements import Bools, Floats


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class OpClass:
    """The strategies of a class of equal operations, from all of their rules.

    `tensors` are the placements of each tensor. `cost_s` includes the work and the communication of the local form, and
    `moves_inside` says whether there is any. `key` identifies the class, and `made_of` is what its costs are made of.
    """

    key: int
    tensors: tuple[Domain, ...]
    cost_s: Floats
    moves_inside: Bools
    made_of: CostedKind


class CostedKind(NamedTuple):
    """A kind of operations, its strategies by rule, and the share of the arithmetic beyond which work is repeated."""

    kind: OpKind
    strategies: tuple[Strategies, ...]
    least_share: float

    def alone(self, state: int) -> Strategies:
        """One of the strategies."""
        for strategies in self.strategies:
            if state < len(strategies.share):
                return strategies.taken(np.array([state]))
            state -= len(strategies.share)
        raise IndexError(state)


class OpKind(NamedTuple):
    """The key of a class.

    `reference` are the placements by propagation, -1 for constants; `linear` are the operands that may be partial, and
    `held` the manual axes around the operation. `wanted` are the placements in which consumers need its only result, if
    the local form can produce these. `touched` is the memory that it reads and writes for each byte of its tensors.
    """

    info: OpInfo
    rule: OpShardingRule
    held: Axes
    linear: tuple[int, ...]
    reference: tuple[int, ...]
    touched: tuple[float, ...]
    wanted: tuple[int, ...] = ()

    @property
    def types(self) -> tuple[TensorType, ...]:
        return self.info.operands + self.info.results

    @property
    def placed(self) -> list[int]:
        """The placements by propagation, with constants replicated."""
        return [max(number, 0) for number in self.reference]
