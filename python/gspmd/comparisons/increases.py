"""Thresholds: by how much the figures of a program may exceed another program's, for checks in CI."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from gspmd.comparisons.figures import COMPARED, Figures
from gspmd.comparisons.opinions import SecondOpinion
from gspmd.comparisons.versions import VersionComparison
from gspmd.text_report import bytes_text, time_text

_ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True, slots=True)
class Increase:
    """A figure that exceeds `base`, its value in another program, by more than `limit`, a fraction."""

    figure: str
    limit: float
    base: float
    actual: float

    def __str__(self) -> str:
        what, _ = COMPARED[self.figure]
        base, actual = (_shown(self.figure, number) for number in (self.base, self.actual))
        by = f"{self.actual / self.base - 1:.1%} above {base}" if self.base else f"against {base}"
        return f"{what}: {actual}, {by}; allowed is {self.limit:.1%}"

    def to_dict(self) -> dict[str, Any]:
        """The fields, as for JSON."""
        return dataclasses.asdict(self)


def over_peers(found: SecondOpinion, limits: Mapping[str, float]) -> tuple[Increase, ...]:
    """The figures in which gspmd's program exceeds the best peer's by more than its limit.

    `limits` are fractions by figure; "" stands for all other figures. Empty if there is nothing to compare with.
    """
    ours, *peers = (opinion.figures for opinion in found.opinions)
    known = [figures for figures in peers if figures is not None]
    return _increases(ours, known, limits) if ours is not None and known else ()


def over_old(found: VersionComparison, limits: Mapping[str, float]) -> tuple[Increase, ...]:
    """The figures in which the new version exceeds the old one by more than its limit."""
    return _increases(found.new, [found.old], limits)


def _increases(actual: Figures, bases: Sequence[Figures], limits: Mapping[str, float]) -> tuple[Increase, ...]:
    found = []
    for figure, (_, of) in COMPARED.items():
        limit = limits.get(figure, limits.get(""))
        base, number = min(map(of, bases)), of(actual)
        if limit is not None and number > base * (1 + limit) * (1 + _ROUNDING):
            found.append(Increase(figure, limit, base, number))
    return tuple(found)


def _shown(figure: str, number: float) -> str:
    if figure == "step":
        return time_text(number)
    return f"{number:.0f}" if figure == "collectives" else f"{bytes_text(number)} ({number:.0f} bytes)"
