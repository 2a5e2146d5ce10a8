"""Collectives that a compiler has replaced by more expensive ones, such as a reduce-scatter by an all-reduce.

Compilers also merge, move and drop collectives, so the partitioned and the compiled program are compared by the axes
along which a device sends. Source lines show where most was added.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from gspmd.collectives import Collective
from gspmd.compiled.hlo_work import HloCollective, collectives_in
from gspmd.compiled.optimized_hlo import OptimizedModule
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_axes

_MORE, _MORE_BYTES = 1.05, 1024  # smaller increases are not reported
_MAX_LINES = 3


@dataclasses.dataclass(frozen=True, slots=True)
class CollectiveIncrease:
    """The bytes that a device sends along `axes` in a step, by kind of collective, as `asked` and as `made`.

    `sources` are the lines (`file:line`) with the largest increases.
    """

    axes: str
    asked: Mapping[str, float]
    made: Mapping[str, float]
    sources: tuple[str, ...]

    @property
    def asked_bytes(self) -> float:
        return sum(self.asked.values())

    @property
    def made_bytes(self) -> float:
        return sum(self.made.values())


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    axes: str
    kind: str
    source: str
    sent_bytes: float


def dearer_collectives(asked: Iterable[Collective], hlo_text: str, mesh: Mesh) -> list[CollectiveIncrease]:
    """The increases of communication in the compiled program, the largest first.

    `asked` are the collectives of the partitioned program, `hlo_text` is the optimized HLO. Errors: InputError for
    replica groups in an unknown form.
    """
    before = [_Part(each.axes, each.kind, _line(each), float(each.bytes * (each.count or 1))) for each in asked]
    after = [_made(each, mesh) for each in collectives_in(OptimizedModule(hlo_text), mesh)]
    found = []
    for axes in dict.fromkeys(part.axes for part in after):
        old, new = ([part for part in side if part.axes == axes] for side in (before, after))
        wanted, sent = (_sums((part.kind, part.sent_bytes) for part in side) for side in (old, new))
        each = CollectiveIncrease(axes, wanted, sent, _grown(old, new))
        if each.made_bytes > max(_MORE * each.asked_bytes, each.asked_bytes + _MORE_BYTES):
            found.append(each)
    return sorted(found, key=lambda each: each.asked_bytes - each.made_bytes)


def _line(collective: Collective) -> str:
    place = collective.location
    return f"{place.file}:{place.line}" if place is not None else ""


def _made(collective: HloCollective, mesh: Mesh) -> _Part:
    sent_bytes = collective.sent_bytes * collective.runs
    return _Part(print_axes(collective.axes, mesh), collective.kind, collective.source, sent_bytes)


def _sums(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in pairs:
        found[name] = found.get(name, 0.0) + value
    return found


def _grown(before: Sequence[_Part], after: Sequence[_Part]) -> tuple[str, ...]:
    """The known source lines with an increase."""
    wanted, sent = (_sums((part.source, part.sent_bytes) for part in side) for side in (before, after))
    more = {line: size - wanted.get(line, 0.0) for line, size in sent.items() if line}
    ranked = sorted((line for line in more if more[line] > _MORE_BYTES), key=lambda line: -more[line])
    return tuple(ranked[:_MAX_LINES])
