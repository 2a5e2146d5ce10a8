"""The schedule of a pipeline: the microbatch of each stage at each step, and the share of idle stages.

Source: GPipe, arXiv 1811.06965; GSPMD, arXiv 2105.04663, section 3.3.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError, shown

SCHEDULES = ("gpipe", "circular")


@dataclasses.dataclass(frozen=True)
class PipelineSchedule:
    """Microbatches pass `stages` stages `repeats` times, in groups of as many as there are stages.

    A group passes all its repeats before the next group starts, so that the first stage uses the result of the last
    stage at the next step, and no microbatch waits. Stage s is s steps behind stage 0. With one repeat, this is GPipe.
    """

    stages: int
    microbatches: int
    repeats: int = 1

    @property
    def steps(self) -> int:
        """The number of steps; only the last group may be smaller than the others."""
        before, last = divmod(self.microbatches - 1, self.stages)
        return before * self.repeats * self.stages + (self.repeats - 1) * self.stages + last + self.stages

    @property
    def bubble_ratio(self) -> float:
        """The share of steps in which a stage is idle, over all stages."""
        return 1 - self.microbatches * self.repeats / self.steps

    def at(self, step: Any) -> Slots:
        """The slots of the stages at a step; traced. Idle stages get a microbatch that exists."""
        item = step - jnp.arange(self.stages, dtype=jnp.int32)
        count = jnp.maximum(item, 0)
        group, place = count // (self.stages * self.repeats), count % self.stages
        microbatch = group * self.stages + place
        repeat = count // self.stages % self.repeats
        busy = (item >= 0) & (microbatch < self.microbatches)
        return Slots(repeat, jnp.minimum(microbatch, self.microbatches - 1), busy)


@dataclasses.dataclass(frozen=True)
class Slots:
    """The number of the repeat, the number of the microbatch, and whether it is busy, for each stage: [stages] each."""

    repeat: Any
    microbatch: Any
    busy: Any


def schedule_of(num_stages: int, num_microbatches: int, schedule: str, circular_repeats: int) -> PipelineSchedule:
    """The schedule for these arguments of `gspmd.pipeline`. Raises UsageError."""
    if schedule not in SCHEDULES:
        raise UsageError(
            f"there is no schedule '{schedule}'", hint=f"known ones are {', '.join(SCHEDULES)}", code=Code.BAD_VALUE
        )
    numbers = {
        "num_stages": num_stages,
        "num_microbatches": num_microbatches,
        "circular_repeats": circular_repeats,
    }
    for name, number in numbers.items():
        if not isinstance(number, int) or number < 1:
            raise UsageError(f"{name} is {shown(number)}; expected an integer of at least 1", code=Code.BAD_VALUE)
    if schedule == "gpipe" and circular_repeats != 1:
        raise UsageError(
            f"circular_repeats is {circular_repeats}, but in the schedule 'gpipe' each stage works only once",
            hint="use schedule='circular'",
            code=Code.BAD_VALUE,
        )
    return PipelineSchedule(num_stages, num_microbatches, circular_repeats)


def bubble_ratio(num_stages: int, num_microbatches: int, schedule: str = "gpipe", repeats: int = 1) -> float:
    """The share of time in which the stages of a pipeline are idle, if all steps take equally long.

    It is (S - 1) / (M + S - 1) for S stages and M microbatches, and (S - 1) / (M * R + S - 1) for a circular schedule
    of R repeats if S divides M. Steps of a circular schedule take 1 / R of the time.

    Errors: UsageError as of `gspmd.pipeline`.
    """
    return schedule_of(num_stages, num_microbatches, schedule, repeats).bubble_ratio
