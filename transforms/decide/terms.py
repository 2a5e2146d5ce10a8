"""The cost of a decision, by term."""

from __future__ import annotations

import dataclasses
from typing import Any

from gspmd.transforms.decide.problem import ProblemBuilder
from gspmd.transforms.machine.cost import AxisLinks, Hardware


@dataclasses.dataclass(frozen=True, slots=True)
class Terms:
    """The terms of the objective, in weighted seconds of a step on a device.

    An operation has memory traffic or arithmetic, whichever takes longer.
    """

    communication_s: float
    memory_traffic_s: float
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
    """The terms of a solution; their sum is its cost.

    A cost is a sum of its terms, so each is what the cost grows by if the term alone grows: by so little that no other
    choice gets cheaper.
    """
    growth = 2.0**-20
    full = dataclasses.replace(problem.objective, next_step=False)
    hardware, more = full.hardware, 1 + growth
    cost_s = problem.cost_by(full, states)

    def grown(**changed: Any) -> float:
        return (problem.cost_by(dataclasses.replace(full, **changed), states) - cost_s) / growth

    repeated_s = grown(repeated=full.repeated * more)
    return Terms(
        communication_s=grown(hardware=_with_slower_links(hardware, more)),
        memory_traffic_s=grown(
            hardware=dataclasses.replace(hardware, memory_bytes_per_s=hardware.memory_bytes_per_s / more)
        ),
        arithmetic_s=grown(hardware=_with_slower_arithmetic(hardware, more)) - repeated_s,
        repeated_products_s=repeated_s,
        next_step_s=problem.cost_by(problem.objective, states) - cost_s,
        surprise_s=grown(surprise_s=full.surprise_s * more),
    )


def _with_slower_links(hardware: Hardware, times: float) -> Hardware:
    def slower(links: AxisLinks) -> AxisLinks:
        return dataclasses.replace(links, bytes_per_s=links.bytes_per_s / times, latency_s=links.latency_s * times)

    return dataclasses.replace(
        hardware,
        link_bytes_per_s=hardware.link_bytes_per_s / times,
        collective_latency_s=hardware.collective_latency_s * times,
        axes={name: tuple(map(slower, links)) for name, links in hardware.axes.items()},
    )


def _with_slower_arithmetic(hardware: Hardware, times: float) -> Hardware:
    rates = {element: rate / times for element, rate in hardware.flops_by_element.items()}
    return dataclasses.replace(hardware, flops_per_s=hardware.flops_per_s / times, flops_by_element=rates)
