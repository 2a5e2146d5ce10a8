"""When a device does what in a step: arithmetic in the program's order, and communication beside it.

The estimate is of a compiler that begins every collective as soon as what it sends is there and the links are free. The
links carry one collective at a time, in the program's order; arithmetic waits for what it uses. An operation takes as
long as its arithmetic or its memory traffic, whichever is longer. So the estimate is between the two bounds of
`CostReport`, with everything overlapping and with nothing.
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
    """What a device does from `start_s` on, for `duration_s` seconds.

    `lane` is `compute`, or says for a collective over what it runs (`"x", "y"`). `collective` is its number in the
    program's collectives, -1 for arithmetic. Turns of a loop behind the first are one event a lane: `turns` says how
    many, 0 for all others, and `busy_s` how long the lane is in use.
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
        """Seconds for which the lane is in use."""
        return self.busy_s if self.turns else self.duration_s

    @property
    def end_s(self) -> float:
        return self.start_s + self.duration_s


@dataclasses.dataclass(frozen=True, slots=True)
class Timeline:
    """One step of a device: `source` is `estimate`, or `compiler` where the order is that of a compiled program.

    `total_s` is when the step ends. Events are in the order in which they begin on each lane.
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
        """Seconds for which the device waits for what is communicated."""
        return max(self.total_s - self.compute_s, 0.0)

    @property
    def hidden_s(self) -> float:
        """Seconds of communication beside which something is computed."""
        return max(self.communication_s - self.exposed_s, 0.0)

    @property
    def lanes(self) -> tuple[str, ...]:
        """Arithmetic first, then what is communicated, those that take longest first."""
        used: dict[str, float] = {COMPUTE: 0.0}
        for event in self.events:
            used[event.lane] = used.get(event.lane, 0.0) + event.used_s
        return tuple(sorted(used, key=lambda lane: (lane != COMPUTE, -used[lane], lane)))


@dataclasses.dataclass(frozen=True, slots=True)
class ScheduledCollective:
    """A collective as the timeline sees it: its number in the program, the axes it runs over, and its seconds."""

    number: int
    axes: str
    time_s: float


def later_turns(body: Iterable[Event], start_s: float, duration_s: float, turns: int, name: str) -> list[Event]:
    """The `turns` of a loop behind the first, each of `duration_s`: an event for each lane that `body` uses."""
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

    `work_s` are the seconds of operations that compute, each time they run.
    """
    walk = _ScheduleWalk(program, buffers, work_s, sent, locations)
    end_s = walk.block(program.body, 0.0)
    return Timeline(ESTIMATE, end_s, tuple(walk.events))


class _ScheduleWalk:
    """One pass through the program; `ready` is when values in memory are there."""

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
        """Follow a block that begins at a time; when all of it is done."""
        now = free = start_s  # when arithmetic, and when the links can begin with something else
        for op in block.ops:
            at = max((self.ready.get(value, 0.0) for value in self.buffers.sources(op.operands)), default=0.0)
            if op.index in self.sent:
                ends = free = self._communicate(op, max(start_s, at, free))
            elif op.info.name in CONTROL_FLOW:
                ends = now = free = self._control_flow(op, max(now, at, free))
            elif self.buffers.is_virtual(op):  # it is computed within what uses it, which waits
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
        """A loop's first turn and then all others, or the branch that is counted in `work_s`."""
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
