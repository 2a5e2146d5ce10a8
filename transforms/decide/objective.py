"""What one solution is better than another for: seconds on a device, of communication, arithmetic and memory traffic.

Where a target is named, these are its seconds. Where none is, bytes come first: everything else counts 3 % of what
it takes on a device of the usual order. How long messages and arithmetic take is then not known, and collectives may
be combined with others, or run beside arithmetic.
"""

from __future__ import annotations

import dataclasses
import math

from gspmd.transforms.machine.cost import BYTES_FIRST, Hardware

BESIDE_BYTES = 0.03
"""What latencies, arithmetic and memory traffic count where no target is named: 3 %, as bytes are what is known."""

REPEATED = 30.0
"""How many times its seconds a product counts that devices compute beyond their share.

They are there to share it. As propagation has it, each does a part; what several do alike leaves them idle for that.
"""

SURPRISE_S = 1e-11
"""Seconds that a value costs which lies otherwise than propagation has it: of equal solutions the nearer one is taken.

It is less than any collective or memory traffic that a program of some size can save.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Objective:
    """What is added up: seconds on `hardware`, `repeated` times those of repeated products, and surprises.

    With `next_step` a result that nothing is said of is brought to where an argument of its type lies, as in a loop
    over steps, in which it becomes that argument.
    """

    hardware: Hardware
    repeated: float = REPEATED
    surprise_s: float = SURPRISE_S
    next_step: bool = True


def objective_for(hardware: Hardware) -> Objective:
    """The objective for a target, or where none is named."""
    if hardware != BYTES_FIRST:
        return Objective(hardware)
    usual = Hardware()
    device = dataclasses.replace(
        usual,
        collective_latency_s=usual.collective_latency_s * BESIDE_BYTES,
        memory_bytes_per_s=usual.memory_bytes_per_s / BESIDE_BYTES,
        flops_per_s=usual.flops_per_s / BESIDE_BYTES,
        name=BYTES_FIRST.name,
    )
    return Objective(device, REPEATED / BESIDE_BYTES)


BYTES_ALONE = Objective(
    Hardware(1.0, 0.0, math.inf, math.inf, "bytes alone"), repeated=0.0, surprise_s=0.0, next_step=False
)
"""What a solution costs under this is how many bytes a device sends."""
