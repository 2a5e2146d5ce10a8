"""The cost of a decision, by term."""

from __future__ import annotations

import dataclasses
import math

from gspmd.transforms.decide.objective import Objective
from gspmd.transforms.decide.problem import ProblemBuilder


@dataclasses.dataclass(frozen=True, slots=True)
class Terms:
    """The terms of the objective, in weighted seconds of a step on a device."""

    communication_s: float
    memory_traffic_s: float  # beyond the time of arithmetic
    arithmetic_s: float
    repeated_products_s: float
    next_step_s: float
    surprise_s: float

    @property
    def named(self) -> dict[str, float]:
        """By their names in docs/objective.md."""
        fields = dataclasses.asdict(self)
        return {name.removesuffix("_s").replace("_", " "): seconds for name, seconds in fields.items()}


def terms_of(problem: ProblemBuilder, states: list[int]) -> Terms:
    """The terms of a solution; their sum is its cost."""
    full = problem.objective
    hardware = full.hardware
    nothing = dataclasses.replace(
        hardware, link_bytes_per_s=math.inf, collective_latency_s=0.0, memory_bytes_per_s=math.inf,
        flops_per_s=math.inf, flops_by_element={}, axes={},
    )  # fmt: skip
    links = dataclasses.replace(hardware, memory_bytes_per_s=math.inf, flops_per_s=math.inf, flops_by_element={})
    flops = dataclasses.replace(nothing, flops_per_s=hardware.flops_per_s, flops_by_element=hardware.flops_by_element)
    alone = dataclasses.replace(flops, memory_bytes_per_s=hardware.memory_bytes_per_s)

    def cost(objective: Objective) -> float:
        return problem.priced_by(objective).cost(states)

    only = dataclasses.replace(full, hardware=links, repeated=0.0, surprise_s=0.0, next_step=False, routed_for=hardware)
    communication_s = cost(only)
    arithmetic_s = cost(dataclasses.replace(only, hardware=flops))
    return Terms(
        communication_s,
        cost(dataclasses.replace(only, hardware=alone)) - arithmetic_s,
        arithmetic_s,
        cost(dataclasses.replace(only, hardware=flops, repeated=full.repeated)) - arithmetic_s,
        cost(dataclasses.replace(only, next_step=full.next_step)) - communication_s,
        cost(dataclasses.replace(only, hardware=nothing, surprise_s=full.surprise_s)),
    )
