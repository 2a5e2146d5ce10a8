"""The schedule of a device in a step: compute in program order, overlapped with communication.

The estimate assumes that every collective starts once its operands are ready and the links are free. The links carry
one collective at a time, in program order; an operation waits for its operands. An operation takes as long as its
arithmetic or its memory traffic, whichever is longer. So the estimate lies between the two bounds of `CostReport`, full
overlap and none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from gspmd.dialect.errors import SourceLocation
from gspmd.transforms.analysis.buffers import Buffers
from gspmd.transforms.analysis.trip_count import trip_count
from gspmd.transforms.ir.program import CONTROL_FLOW, WHILE, Body, Op, Program

COMPUTE = "compute"
ESTIMATE, COMPILER = "estimate", "compiler"


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """An activity of a device from `start_s` on, for `duration_s` seconds.

    `lane` is `compute`, or the axes of a collective (`"x", "y"`). `collective` is its index in the program's
    collectives, -1 for compute. The iterations of a loop after the first are one event per lane: `turns` is their
    number, 0 for other events, and `busy_s` is how long they use the lane.
    """

    lane: str
    name: str
    start_s: float
    duration_s: float
    location: SourceLocation | None
    collective: int = -1
    turns: int = 0
    busy_s: float = 0.0

    @property
    def used_s(self) -> float:
        """Seconds for which the event uses the lane."""
        return self.busy_s if self.turns else self.duration_s

    @property
    def end_s(self) -> float:
        return self.start_s + self.duration_s


@dataclasses.dataclass(frozen=True, slots=True)
class Timeline:
    """One step of a device: `source` is `estimate`, or `compiler` for the schedule of a compiled program.

    `total_s` is the end of the step. Events are in order of their start on each lane.
    """

    source: str
    total_s: float
    events: tuple[Event, ...]

    @property
    def compute_s(self) -> float:
        """Seconds for which the device computes."""
        return sum(event.used_s for event in self.events if event.lane == COMPUTE)

    @property
    def communication_s(self) -> float:
        """Seconds for which the links are in use."""
        return sum(event.used_s for event in self.events if event.lane != COMPUTE)

    @property
    def exposed_s(self) -> float:
        """Seconds of communication that is not hidden behind compute."""
        return max(self.total_s - self.compute_s, 0.0)

    @property
    def hidden_s(self) -> float:
        """Seconds of communication that is hidden behind compute."""
        return max(self.communication_s - self.exposed_s, 0.0)

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes: compute first, then communication, the longest first."""
        used: dict[str, float] = {COMPUTE: 0.0}
        for event in self.events:
            used[event.lane] = used.get(event.lane, 0.0) + event.used_s
        return tuple(sorted(used, key=lambda lane: (lane != COMPUTE, -used[lane], lane)))


@dataclasses.dataclass(frozen=True, slots=True)
class ScheduledCollective:
    """A collective on the timeline: its index in the program, its axes, and its seconds."""

    number: int
    axes: str
    time_s: float


def later_turns(body: Iterable[Event], start_s: float, duration_s: float, turns: int, name: str) -> list[Event]:
    """The iterations of a loop after the first, `turns` of `duration_s` each: one event per lane of `body`."""
    used: dict[str, float] = {}
    for event in body:
        used[event.lane] = used.get(event.lane, 0.0) + event.used_s
    whole_s = turns * duration_s
    return [
        Event(lane, name, start_s, whole_s, None, turns=turns, busy_s=turns * busy_s)
        for lane, busy_s in used.items()
        if turns > 0
    ]


def estimated(
    program: Program,
    buffers: Buffers,
    work_s: Mapping[int, float],
    sent: Mapping[int, ScheduledCollective],
    locations: Sequence[SourceLocation | None],
) -> Timeline:
    """The timeline of a partitioned program; the mappings and `locations` are by the index of the operation.

    `work_s` are the seconds of one run of each operation that computes.
    """
    walk = _ScheduleWalk(program, buffers, work_s, sent, locations)
    end_s = walk.block(program.body, 0.0)
    return Timeline(ESTIMATE, end_s, tuple(walk.events))


class _ScheduleWalk:
    """One pass through the program; `ready` has the times at which values are available."""

    def __init__(
        self,
        program: Program,
        buffers: Buffers,
        work_s: Mapping[int, float],
        sent: Mapping[int, ScheduledCollective],
        locations: Sequence[SourceLocation | None],
    ) -> None:
        self.program, self.buffers = program, buffers
        self.work_s, self.sent, self.locations = work_s, sent, locations
        self.events: list[Event] = []
        self.ready: dict[int, float] = {}

    def block(self, block: Body, start_s: float) -> float:
        """Schedule a block that starts at a time; return when it is done."""
        now = free = start_s  # the times at which compute and the links become free
        for op in block.ops:
            at = max((self.ready.get(value, 0.0) for value in self.buffers.sources(op.operands)), default=0.0)
            if op.index in self.sent:
                ends = free = self._communicate(op, max(start_s, at, free))
            elif op.info.name in CONTROL_FLOW:
                ends = now = free = self._control_flow(op, max(now, at, free))
            elif self.buffers.is_virtual(op):  # fused into its consumer, which waits for it
                now = self._compute(op, now)
                continue
            else:
                ends = now = self._compute(op, max(now, at))
            self.ready.update(dict.fromkeys(op.results, ends))
        return max(now, free)

    def _communicate(self, op: Op, start_s: float) -> float:
        sent, name = self.sent[op.index], op.info.name.removeprefix("stablehlo.")
        self.events.append(Event(sent.axes, name, start_s, sent.time_s, self.locations[op.index], sent.number))
        return start_s + sent.time_s

    def _compute(self, op: Op, start_s: float) -> float:
        duration_s = self.work_s.get(op.index, 0.0)
        if duration_s:
            name = op.info.name.removeprefix("stablehlo.")
            self.events.append(Event(COMPUTE, name, start_s, duration_s, self.locations[op.index]))
        return start_s + duration_s

    def _control_flow(self, op: Op, start_s: float) -> float:
        """Schedule the first iteration of a loop and then the others, or the branch that `work_s` counts."""
        first = len(self.events)
        if op.info.name != WHILE:
            return self.block(self._counted(op.regions), start_s)
        end_s = start_s
        for region in op.regions:
            end_s = self.block(region, end_s)
        trips = trip_count(op.ir)
        if trips == 0:
            del self.events[first:]
            return start_s
        more, turn_s = (trips or 1) - 1, end_s - start_s
        self.events += later_turns(self.events[first:], end_s, turn_s, more, f"turns 2 to {more + 1}")
        return end_s + more * turn_s

    def _counted(self, branches: Sequence[Body]) -> Body:
        for branch in branches:
            if any(op.index in self.work_s or op.regions for op in branch.ops):
                return branch
        return max(branches, key=lambda branch: sum(op.index in self.sent for op in branch.ops))
