"""The steps of all derivations, each stored once: derivations from one annotation share their last steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from gspmd.dialect.errors import SourceLocation
from gspmd.explanations.derivations import Derivation, DerivationStep, Origin
from gspmd.reports.data import DerivationStepData, OriginData, Table
from gspmd.transforms.propagate.factors import LEVELS

_Key = tuple[DerivationStep, Origin, int]  # a step, the next step, and the number of steps to the origin


class DerivationTable:
    """Numbers the steps and the origins of derivations; `place` numbers source lines.

    All derivations are given at once, so that shorter ones, which are suffixes of longer ones, come first.
    """

    def __init__(self, derivations: Iterable[Derivation], place: Callable[[SourceLocation | None], int]) -> None:
        self._place = place
        self._steps: list[DerivationStepData] = []
        self._numbers: dict[_Key, int] = {}
        self._origins: dict[Origin, int] = {}
        unique = {id(each): each for each in derivations}
        for each in sorted(unique.values(), key=lambda each: len(each.steps) + each.left_out):
            self._add(each)

    def row(self, derivation: Derivation) -> tuple[int, str, int, int]:
        """The dimension, its axes, the first step and the origin."""
        first = self._numbers[self._key(derivation, 0)] if derivation.steps else -1
        return derivation.dimension, derivation.axes, first, self.origin(derivation.origin)

    def origin(self, origin: Origin) -> int:
        """The number of an annotation, whatever the dimension."""
        return self._origins.setdefault(dataclasses.replace(origin, dimension=0), len(self._origins))

    @property
    def steps(self) -> Table:
        return Table(self._steps)

    def origins(self, reach: Sequence[tuple[Origin, int]]) -> tuple[OriginData, ...]:
        """All annotations in the order of their numbers; `reach` is the number of values that each gave an axis."""
        for origin, _ in reach:
            self.origin(origin)
        counts = dict(reach)
        return tuple(
            OriginData(o.kind, o.value, o.label, o.sharding, self._place(o.location), counts.get(o, 0))
            for o in self._origins
        )

    def _key(self, derivation: Derivation, index: int) -> _Key:
        left = len(derivation.steps) - index + derivation.left_out
        return derivation.steps[index], derivation.origin, left

    def _add(self, derivation: Derivation) -> None:
        self.origin(derivation.origin)
        known, steps = 0, derivation.steps
        while known < len(steps) and self._key(derivation, known) not in self._numbers:
            known += 1
        number = self._numbers[self._key(derivation, known)] if known < len(steps) else -1
        for index in reversed(range(known)):
            left_out = derivation.left_out if index == len(steps) - 1 else 0
            self._steps.append(self._row(steps[index], number, left_out))
            number = self._numbers[self._key(derivation, index)] = len(self._steps) - 1

    def _row(self, step: DerivationStep, following: int, left_out: int) -> DerivationStepData:
        return DerivationStepData(
            value=step.value,
            dimension=step.dimension,
            from_value=step.from_value,
            from_dimension=step.from_dimension,
            operation=step.operation,
            operation_value=step.operation_value,
            target=step.target,
            source=step.source,
            line=self._place(step.location),
            level=LEVELS.index(step.level),
            priority=step.priority,
            next=following,
            left_out=left_out,
        )
