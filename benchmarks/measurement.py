"""What is measured of one partitioner on one program."""

from __future__ import annotations

import dataclasses
import time

PROPAGATE = "propagate"
PARTITION = "partition"
PHASES = (PROPAGATE, PARTITION)
"""The work that all partitioners do: decide the sharding of every value, then write the program of one device."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a partitioner: one of its passes, and the phase that it is part of, if any."""

    name: str
    phase: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Transfer:
    """One collective of a partitioned program.

    `bytes` is what a device sends (ring formulas of `gspmd.transforms.machine.cost`); `sliced_bytes` the same if
    an all-reduce whose result is only sliced were run as a reduce-scatter, as later passes of XLA may do.
    """

    kind: str
    bytes: float
    sliced_bytes: float


class Clock:
    """How much of a processor the process had between making the clock and `cpu_share`."""

    def __init__(self) -> None:
        self._wall_s, self._cpu_s = time.perf_counter(), time.process_time()

    def cpu_share(self) -> float:
        """1 on an idle machine, half of that where another program took every second turn."""
        return min(1.0, (time.process_time() - self._cpu_s) / (time.perf_counter() - self._wall_s))


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """One run: seconds by stage, in order, and with `traffic` wanted the collectives of the result.

    `seconds` are wall time times the processor's share in the whole run, so that a busy machine, which slows
    everything down by a factor, changes little.
    """

    seconds: dict[Stage, float]
    traffic: tuple[Transfer, ...] | None = None

    @classmethod
    def of(cls, wall_s: dict[Stage, float], cpu_share: float, traffic: tuple[Transfer, ...] | None) -> Run:
        """A run from the wall time of its stages."""
        return cls({stage: seconds * cpu_share for stage, seconds in wall_s.items()}, traffic)

    def phase_s(self, phase: str) -> float:
        """Seconds in all stages of a phase."""
        return sum(seconds for stage, seconds in self.seconds.items() if stage.phase == phase)

    @property
    def total_s(self) -> float:
        """Seconds in both phases, which is what partitioners are compared by."""
        return sum(self.phase_s(phase) for phase in PHASES)
