"""The timeline of XLA's schedule: asynchronous collectives are hidden behind the instructions that follow."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from gspmd.compiled.optimized_hlo import Instruction, OptimizedModule
from gspmd.costs.timeline import COMPUTE, Event, later_turns
from gspmd.dialect.errors import SourceLocation


@dataclasses.dataclass(frozen=True, slots=True)
class InstructionTime:
    """The time of an instruction without overlap, and its lane of the timeline."""

    seconds: float
    lane: str


_NOTHING = InstructionTime(0.0, COMPUTE)
Times = Mapping[tuple[str, str], InstructionTime]  # by computation and instruction


def schedule(module: OptimizedModule, computation: str, alone: Times, start_s: float) -> tuple[list[Event], float]:
    """The events of the schedule, and its end.

    An asynchronous collective overlaps with the following instructions until one waits for it.
    """
    now = free = start_s  # the current time, and the time at which the links become free
    ends: dict[str, float] = {}
    events: list[Event] = []
    for instruction in module.computations.get(computation, {}).values():
        own = alone.get((computation, instruction.name), _NOTHING)
        if instruction.opcode == "while":
            inner, now = _turns(module, computation, instruction, alone, now)
            events += inner
        is_start = module.is_start(instruction)
        begin = max(now, free) if is_start else now
        end = begin + own.seconds
        if own.seconds:
            source = _location(module.source(instruction))
            events.append(Event(own.lane, instruction.name, begin, own.seconds, source))
        if called := module.called(instruction):
            branches = [schedule(module, name, alone, end) for name in called]
            longest = max(branches, key=lambda branch: branch[1])
            events += longest[0]
            end = longest[1]
        if is_start:
            ends[instruction.name] = free = end
        elif instruction.opcode == "recv":  # between slices, over links that no other collective uses
            ends[instruction.name] = end
        elif module.is_done(instruction):
            now = max(now, ends.get(module.started(computation, instruction), now))
        else:
            now = end
    return events, max([now, *ends.values()])


def _turns(
    module: OptimizedModule,
    computation: str,
    loop: Instruction,
    alone: Mapping[tuple[str, str], InstructionTime],
    start_s: float,
) -> tuple[list[Event], float]:
    """Schedule the first iteration of a loop and all others; one iteration if the trip count is unknown."""
    trips = module.trips(computation, loop)
    if trips == 0:
        return [], start_s
    events, end_s = schedule(module, module.body(loop), alone, start_s)
    more, turn_s = (trips or 1) - 1, end_s - start_s
    events += later_turns(events, end_s, turn_s, more, f"turns 2 to {more + 1}")
    return events, end_s + more * turn_s


def _location(source: str) -> SourceLocation | None:
    """The location for `file:line`."""
    file, _, line = source.rpartition(":")
    return SourceLocation(file, int(line), 0) if file and line.isdigit() else None
