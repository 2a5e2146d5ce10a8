"""The figures by which partitioned programs are compared: traffic, memory and estimated time of a device."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gspmd.collectives import Collective
from gspmd.comparisons.line_names import line_of
from gspmd.comparisons.measuring import Measured
from gspmd.compiled.hlo_work import HloWork
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_axes
from gspmd.transforms.machine.cost import Hardware, collective_time
from gspmd.transforms.machine.target_file import placed_hardware
from gspmd.transforms.machine.targets import Traffic


@dataclasses.dataclass(frozen=True, slots=True)
class SentCollectives:
    """The collectives of one kind along the same axes that one source line needs.

    `number` is how many of them run in a call of the program, and `bytes` the total that a device sends in them.
    `line` is `file:line`, or empty if unknown. `cause` is the reason for them, or empty if unknown.
    """

    line: str
    kind: str
    axes: str
    number: int
    bytes: int
    cause: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """Traffic, memory and time of a device for one call.

    `held_bytes` counts arguments, results and temporaries. A step takes `lower_bound_s` if arithmetic, memory traffic
    and communication overlap completely, and `upper_bound_s` if they do not overlap. `ready_s` is the number of seconds
    until the program was ready to run, None if it was not compiled.
    """

    sent: tuple[SentCollectives, ...]
    held_bytes: int
    lower_bound_s: float
    upper_bound_s: float
    ready_s: float | None = None

    @property
    def sent_bytes(self) -> int:
        return sum(each.bytes for each in self.sent)

    @property
    def collectives(self) -> int:
        """How many collectives run."""
        return sum(each.number for each in self.sent)

    @property
    def by_axes(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Bytes and number of collectives, by kind and axes."""
        found: dict[tuple[str, str], tuple[int, int]] = {}
        for each in sorted(self.sent, key=lambda s: (s.kind, s.axes)):
            size, number = found.get((each.kind, each.axes), (0, 0))
            found[each.kind, each.axes] = size + each.bytes, number + each.number
        return found

    def to_dict(self) -> dict[str, Any]:
        """The figures in plain values, as for JSON."""
        return {
            "sent_bytes": self.sent_bytes,
            "collectives": self.collectives,
            "held_bytes": self.held_bytes,
            "lower_bound_s": self.lower_bound_s,
            "upper_bound_s": self.upper_bound_s,
            "ready_s": self.ready_s,
            "sent": [dataclasses.asdict(each) for each in self.sent],
        }


COMPARED: dict[str, tuple[str, Callable[[Figures], float]]] = {
    "bytes": ("bytes sent", lambda figures: figures.sent_bytes),
    "collectives": ("collectives", lambda figures: figures.collectives),
    "memory": ("bytes held", lambda figures: figures.held_bytes),
    "step": ("step, nothing overlaps", lambda figures: figures.upper_bound_s),
}
"""The label and the value of each figure that can have a threshold, by its name in `--max-increase`."""


def figures_of(found: Measured, mesh: Mesh, target: str, ready_s: float) -> Figures:
    """The figures of a compiled program on a target. Errors: those of reading the target file."""
    hardware = _hardware(found.work, mesh, target)
    compute_s = sum(count / hardware.flops_of(element) for element, count in found.work.flops.items())
    traffic_s = found.work.traffic_bytes / hardware.memory_bytes_per_s
    communication_s = sum(
        each.runs * collective_time(each.kind, each.local_bytes, each.devices, hardware, each.axes, each.reach)
        for each in found.work.collectives
    )
    parts = compute_s, traffic_s, communication_s
    return Figures(tuple(_by_line(found.work, mesh)), found.held_bytes, max(parts), sum(parts), ready_s)


def _hardware(work: HloWork, mesh: Mesh, target: str) -> Hardware:
    """The hardware, with the mesh placed on the topology as is best for the program's collectives."""
    traffic = (Traffic(each.kind, each.local_bytes, each.axes, each.runs, each.reach) for each in work.collectives)
    return placed_hardware(target, mesh, traffic)[0]


def _by_line(work: HloWork, mesh: Mesh) -> Iterator[SentCollectives]:
    """The collectives of a compiled program, in descending order of bytes."""
    return merged(
        SentCollectives(
            each.source,
            each.kind,
            axes_text(print_axes(each.axes, mesh)),
            each.runs,
            round(each.sent_bytes) * each.runs,
        )
        for each in work.collectives
    )


def merged(sent: Iterable[SentCollectives]) -> Iterator[SentCollectives]:
    """Merge entries that differ only in number and bytes; in descending order of bytes."""
    found: dict[tuple[str, str, str, str], tuple[int, int]] = {}
    for each in sent:
        key = each.line, each.kind, each.axes, each.cause
        number, size = found.get(key, (0, 0))
        found[key] = number + each.number, size + each.bytes
    for key in sorted(found, key=lambda k: (-found[k][1], k)):
        line, kind, axes, cause = key
        yield SentCollectives(line, kind, axes, *found[key], cause)


def sent_by(collectives: Iterable[Collective]) -> Iterator[SentCollectives]:
    """The traffic of a partitioned program's collectives, before a compiler combines any; ordered as by `merged`."""
    return merged(
        SentCollectives(
            line_of(each.location),
            each.kind,
            axes_text(each.axes),
            each.count or 1,
            each.bytes * (each.count or 1),
            each.cause,
        )
        for each in collectives
    )


def axes_text(quoted: str) -> str:
    """`x, y` for `"x", "y"`."""
    return quoted.replace('"', "")
