"""The objective: seconds on a device, of communication, arithmetic and memory traffic.

With a target, these are its seconds. Without one, bytes dominate: `BYTES_FIRST` in `transforms/machine/cost.py`.
"""

from __future__ import annotations

import dataclasses
import math

from gspmd.transforms.machine.cost import BYTES_FIRST, Hardware

REPEATED = 30.0
"""The weight of the seconds of contractions that a device computes beyond its share, on a target.

Devices should share contractions; repeated ones waste the other devices.
"""

REPEATED_FOR_A_BYTE = 10.0
"""Without a target, the operations of contractions that a device may repeat to save a byte."""

SURPRISE_S = 1e-11
"""The cost of a value whose sharding differs from propagation, so that ties go to propagation.

It is smaller than any saving of communication or memory traffic in a program of realistic size.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Objective:
    """The terms of the objective: seconds on `hardware`, `repeated` times those of repeated products, and surprise.

    With `next_step`, a result without an annotation is resharded to the sharding of the argument that it becomes in the
    next step of a loop, which is one of its type.
    """

    hardware: Hardware
    repeated: float = REPEATED
    surprise_s: float = SURPRISE_S
    next_step: bool = True


def objective_for(hardware: Hardware) -> Objective:
    """The objective for a target, or without one."""
    if hardware != BYTES_FIRST:
        return Objective(hardware)
    return Objective(hardware, hardware.flops_per_s / (REPEATED_FOR_A_BYTE * hardware.link_bytes_per_s))


BYTES_ALONE = Objective(
    Hardware(1.0, 0.0, math.inf, math.inf, "bytes alone"), repeated=0.0, surprise_s=0.0, next_step=False
)
"""The objective under which the cost of a solution is the number of bytes that a device sends."""
