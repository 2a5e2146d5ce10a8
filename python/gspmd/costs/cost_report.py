"""The cost of a program: communication, compute and memory on a device; as values, as text and as JSON."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gspmd.collectives import Collective
from gspmd.costs.memory_cost import Buffer, MemoryCost
from gspmd.costs.timeline import Timeline
from gspmd.costs.work import Work
from gspmd.dialect.errors import SourceLocation
from gspmd.dialect.mesh import Mesh
from gspmd.tables import fitted, table, text_width
from gspmd.text_report import bytes_text, mesh_text, placement_dict, placement_lines, sent_text, time_text
from gspmd.transforms.analysis.least.bound import LowerBound
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.machine.torus import Placement

_LISTS = ("buffers", "moments", "peak_moment")  # of the memory, which JSON has otherwise
_COLUMNS = 100  # width of lines without a terminal


@dataclasses.dataclass(frozen=True, slots=True)
class CollectiveCost:
    """A collective and its price: `time_s` is the time of one run on the target's links."""

    collective: Collective
    time_s: float

    @property
    def runs(self) -> int:
        """The number of runs in a call of the program; loops of unknown trip count count once."""
        return 1 if self.collective.count is None else self.collective.count

    @property
    def total_bytes(self) -> int:
        return self.runs * self.collective.bytes

    @property
    def total_time_s(self) -> float:
        return self.runs * self.time_s


@dataclasses.dataclass(frozen=True, slots=True)
class OperationCost:
    """The compute of an operation on a device: arithmetic, bytes of memory traffic and seconds of one run."""

    name: str
    location: SourceLocation | None
    runs: float
    flops: float
    compute_s: float
    traffic_bytes: float
    traffic_s: float

    @property
    def time_s(self) -> float:
        """Seconds of one run, if arithmetic and memory traffic overlap."""
        return max(self.compute_s, self.traffic_s)


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class CostReport:
    """The cost of one call of a program on each device.

    `work` is that of a device. `model_flops` are the operations of the unpartitioned program, and `least` is a lower
    bound of its communication; both are None if only the partitioned program was given. Each time is in seconds and
    without overlap. `operations` are those that compute, in program order, and `timeline` schedules them and the
    collectives. On a topology, `placement` is that of the axes, and `hardware` has the bandwidth that they get.
    """

    program: str
    target: str
    mesh: Mesh
    collectives: tuple[CollectiveCost, ...]
    work: Work
    model_flops: float | None
    memory: MemoryCost
    compute_s: float
    traffic_s: float
    hardware: Hardware
    operations: tuple[OperationCost, ...]
    timeline: Timeline
    placement: Placement | None = None
    least: LowerBound | None = None

    def __str__(self) -> str:
        """The text that `gspmd cost` prints."""
        return "\n".join(fitted(report_lines(self)))

    def __repr__(self) -> str:
        low, high = time_text(self.lower_bound_s), time_text(self.upper_bound_s)
        return f"<CostReport on {self.target}: {low} to {high} a step, {bytes_text(self.sent_bytes)} sent>"

    @property
    def least_bytes(self) -> int | None:
        """A lower bound of the bytes that any program with these annotations sends (docs/least.md); None if unknown."""
        return (self.least and self.least.bytes) or None

    @property
    def communication_s(self) -> float:
        return sum(c.total_time_s for c in self.collectives)

    @property
    def sent_bytes(self) -> int:
        """The bytes that a device sends."""
        return sum(c.total_bytes for c in self.collectives)

    @property
    def bytes_by_kind(self) -> dict[str, int]:
        """The bytes that a device sends, by kind of collective."""
        found: dict[str, int] = {}
        for c in sorted(self.collectives, key=lambda c: c.collective.kind):
            found[c.collective.kind] = found.get(c.collective.kind, 0) + c.total_bytes
        return found

    @property
    def runs(self) -> int:
        """The number of runs of collectives."""
        return sum(c.runs for c in self.collectives)

    @property
    def flops_ratio(self) -> float | None:
        """The operations of all devices divided by those of the model: 1 if nothing is computed twice."""
        return self.work.total_flops * self.mesh.size / self.model_flops if self.model_flops else None

    @property
    def lower_bound_s(self) -> float:
        """Seconds if compute, memory traffic and communication overlap perfectly."""
        return max(self._parts.values())

    @property
    def upper_bound_s(self) -> float:
        """Seconds if nothing overlaps."""
        return sum(self._parts.values())

    @property
    def bound_by(self) -> str:
        """The largest of `compute`, `memory traffic` and `communication`."""
        return max(self._parts, key=lambda name: self._parts[name])

    @property
    def _parts(self) -> Mapping[str, float]:
        return {"compute": self.compute_s, "memory traffic": self.traffic_s, "communication": self.communication_s}

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what the figures do not include."""
        notes = []
        if self.memory.capacity and self.memory.peak > self.memory.capacity:
            notes.append(
                f"a device of the target has only {self.memory.capacity} bytes; the program needs more: "
                "gspmd suggest --save memory finds annotations that need less"
            )
        if self.work.open_loops:
            notes.append(f"{self.work.open_loops} loops of unknown trip count are priced as one iteration")
        if self.work.uncounted:
            notes.append(f"arithmetic not counted: {', '.join(self.work.uncounted)}")
        if self.work.kernel_sent_bytes:
            notes.append(f"kernels send {self.work.kernel_sent_bytes:.0f} bytes themselves, which are not priced")
        return tuple(notes)


def report_lines(report: CostReport, most: int = 10) -> list[str]:
    """The report; lists have at most `most` entries, the largest first."""
    name = report.program or "program"
    blocks = [
        [f"{name} on {mesh_text(report.mesh)}, target {report.target}"],
        placement_lines(report.mesh, report.hardware, report.placement),
        _time_lines(report),
        _work_lines(report),
        *_collective_blocks(report, most),
        _memory_lines(report, most),
        [
            line
            for note in report.notes
            for line in textwrap.wrap(f"note: {note}", text_width() or _COLUMNS, subsequent_indent="  ")
        ],
    ]
    lines: list[str] = []
    for block in blocks:
        lines += ["", *block] if lines and block else block
    return lines


def _time_lines(report: CostReport) -> list[str]:
    rows = [
        ("compute", time_text(report.compute_s), _count_text(report.work.total_flops, "flop")),
        ("memory traffic", time_text(report.traffic_s), bytes_text(report.work.traffic_bytes)),
        ("communication", time_text(report.communication_s), f"{bytes_text(report.sent_bytes)} sent"),
    ]
    low, high = time_text(report.lower_bound_s), time_text(report.upper_bound_s)
    return [
        f"step time: {low} if everything overlaps, {high} if nothing does; bound by {report.bound_by}",
        *table(rows, right=(1, 2)),
        *_least_lines(report),
    ]


def _least_lines(report: CostReport) -> list[str]:
    """The bytes sent and their lower bound, if the unpartitioned program is known."""
    if report.least is None or not report.sent_bytes:
        return []
    sent, least = report.sent_bytes, report.least_bytes
    if not least:
        return [f"  sent / lower bound: {bytes_text(sent)} / unknown"]
    ratio = f"{sent / least:.2f}; the bound allows recomputation"
    return [f"  sent / lower bound: {bytes_text(sent)} / {bytes_text(least)} = {ratio}"]


def _work_lines(report: CostReport) -> list[str]:
    kinds = ", ".join(f"{kind} {_count_text(count, 'flop')}" for kind, count in report.work.by_kind().items())
    lines = [f"compute per device: {kinds or 'none'}"]
    if report.model_flops is not None and report.flops_ratio is not None:
        model, ratio = _count_text(report.model_flops, "flop"), report.flops_ratio
        lines.append(f"  the model has {model}; all devices together compute {ratio:.2f} times as much")
    return lines


def _collective_blocks(report: CostReport, most: int) -> list[list[str]]:
    if not report.collectives:
        return [["collectives: none"]]

    def kind(c: CollectiveCost) -> tuple[str, ...]:
        return c.collective.kind, c.collective.axes.replace('"', "")

    def line(c: CollectiveCost) -> tuple[str, ...]:
        cause = c.collective.cause.replace("stablehlo.", "")
        return _at(c.collective.location), *kind(c), cause

    return [
        ["collectives, bytes sent per device:", *_grouped(report, ("kind", "axes"), kind, math.inf)],
        ["by source line:", *_grouped(report, ("at", "kind", "axes", "cause"), line, most)],
    ]


def _grouped(
    report: CostReport, titles: Sequence[str], key: Callable[[CollectiveCost], tuple[str, ...]], most: float
) -> list[str]:
    """Collectives grouped by a key, the longest first, and the total."""
    groups: dict[tuple[str, ...], list[CollectiveCost]] = {}
    for c in report.collectives:
        groups.setdefault(key(c), []).append(c)
    ranked = sorted(groups.items(), key=lambda item: (-sum(c.total_time_s for c in item[1]), item[0]))
    shown = ranked[: int(min(most, len(ranked)))]
    rows = [_sums(members) + names for names, members in shown]
    rows.append((*_sums(report.collectives), "total", *[""] * (len(titles) - 1)))
    lines = table([("runs", "sent", "time", *titles), *rows], right=(0, 1, 2), most=text_width() or _COLUMNS)
    if len(ranked) > len(shown):
        lines.insert(-1, f"  ... and {len(ranked) - len(shown)} more")
    return lines


def _sums(members: Sequence[CollectiveCost]) -> tuple[str, ...]:
    unknown = "?" if any(c.collective.count is None for c in members) else ""
    return (
        f"{sum(c.runs for c in members)}{unknown}",
        sent_text(sum(c.total_bytes for c in members), (c.collective for c in members)),
        time_text(sum(c.total_time_s for c in members)),
    )


def _memory_lines(report: CostReport, most: int) -> list[str]:
    memory = report.memory
    capacity = f" of {bytes_text(memory.capacity)} ({memory.peak / memory.capacity:.1%})" if memory.capacity else ""
    parts = (
        f"arguments {bytes_text(memory.arguments)}, results {bytes_text(memory.results)} "
        f"({bytes_text(memory.aliased)} in donated arguments), temporaries up to {bytes_text(memory.temporaries)}"
    )
    rows = [("bytes", "what", "type", "value", "at", ""), *(_buffer_row(b) for b in memory.buffers[:most])]
    more = len(memory.buffers) - most
    rest = sum(b.bytes for b in memory.buffers[most:])
    return [
        f"peak memory per device: {bytes_text(memory.peak)}{capacity}",
        *_wrapped(parts, "  "),
        *([f"  plus up to {bytes_text(memory.host)} of host memory"] if memory.host else []),
        *table(rows, right=(0,)),
        *([f"  ... and {more} more of {bytes_text(rest)}"] if more > 0 else []),
    ]


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, text_width() or _COLUMNS, initial_indent=indent, subsequent_indent="  ")


def _buffer_row(buffer: Buffer) -> tuple[str, ...]:
    replicated = f"replicated over {', '.join(buffer.replicated_over)}" if buffer.replicated_over else ""
    return bytes_text(buffer.bytes), buffer.kind, buffer.type, buffer.value, _at(buffer.location), replicated


def _count_text(count: float, what: str) -> str:
    """`1.5 Gflop`."""
    for unit, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}{what}"
    return f"{count:.0f} {what}"


def _at(location: SourceLocation | None) -> str:
    return location.brief if location else ""


def to_dict(report: CostReport) -> dict[str, Any]:
    """The report as JSON values: bytes, seconds, locations as `file:line:column` or null."""
    work, memory = report.work, report.memory
    return {
        "program": report.program,
        "target": report.target,
        "mesh": dict(report.mesh.axes),
        "num_partitions": report.mesh.size,
        "axes": placement_dict(report.placement),
        "time": {
            "compute_s": report.compute_s,
            "memory_traffic_s": report.traffic_s,
            "communication_s": report.communication_s,
            "lower_bound_s": report.lower_bound_s,
            "upper_bound_s": report.upper_bound_s,
            "bound_by": report.bound_by,
        },
        "flops": {
            "per_device": work.total_flops,
            "by_kind": work.by_kind(),
            "model": report.model_flops,
            "ratio": report.flops_ratio,
        },
        "traffic_bytes": work.traffic_bytes,
        "communication": {
            "bytes": report.sent_bytes,
            "least_bytes": report.least_bytes,
            "runs": report.runs,
            "bytes_by_kind": report.bytes_by_kind,
            "collectives": [_collective(c) for c in report.collectives],
        },
        "memory": {
            **{f.name: getattr(memory, f.name) for f in dataclasses.fields(memory) if f.name not in _LISTS},
            "at_peak": [{**dataclasses.asdict(b), "location": _where(b.location)} for b in memory.buffers],
        },
        "notes": list(report.notes),
    }


def _collective(c: CollectiveCost) -> dict[str, Any]:
    fields = dataclasses.asdict(c.collective)
    return {**fields, "location": _where(c.collective.location), "time_s": c.time_s}


def _where(location: SourceLocation | None) -> str | None:
    return str(location) if location else None
