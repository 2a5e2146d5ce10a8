"""Steps of a program, partitioned and on one device side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

import gspmd
from gspmd.examples.common.program import Metrics, Program

METRIC_TOLERANCE = 1e-4  # relative; five steps of float32 on other orders of sums
STATE_TOLERANCE = 1e-2  # relative to a tensor's largest element: Adam divides what is next to nothing by its own size


@dataclasses.dataclass(frozen=True)
class Step:
    """Metrics of one step both ways, and the largest difference of the states after it.

    `state_error` is relative to the largest element of the same tensor.
    """

    partitioned: Metrics
    single: Metrics
    state_error: float

    @property
    def metric_error(self) -> float:
        """The largest relative difference of a metric."""
        return max(map(relative_error, jax.tree.leaves(self.partitioned), jax.tree.leaves(self.single)))


def compare(
    program: Program, single: Program, mesh: Any, steps: int, compiled: gspmd.Compiled | None = None
) -> Iterator[Step]:
    """Run `program` over `mesh` and `single`, the same model unannotated, by `jax.jit` on one device.

    Each goes its own way from equal states; differences add up.
    """
    step = compiled or lowered(program, mesh).compile()
    reference = jax.jit(single.step)
    state, expected = program.init(), single.init()
    for index in range(steps):
        batch = program.batch(index)
        state, metrics = step(state, batch)
        expected, expected_metrics = reference(expected, batch)
        yield Step(_host(metrics), _host(expected_metrics), _difference(state, expected))


def lowered(
    program: Program, mesh: Any, search: Mapping[str, Any] | None = None, options: Mapping[str, Any] | None = None
) -> gspmd.Lowered:
    """One step, to be partitioned over `mesh` with options; with a `search`, by the shardings that this finds."""
    given = program.shardings if search is None else {"donate_argnums": 0, "shardings": search}
    found: gspmd.Lowered = gspmd.jit(program.step, mesh=mesh, options=options, **given).lower(*program.abstract())
    return found


def relative_error(value: Any, expected: Any) -> float:
    """The largest difference relative to the largest expected value; 0 for what is empty, infinite for NaNs."""
    value, expected = np.asarray(value), np.asarray(expected)
    if not value.size:
        return 0.0
    if value.dtype.kind in "biu":
        return 0.0 if np.array_equal(value, expected) else float("inf")
    difference = np.abs(value.astype(np.float64) - expected.astype(np.float64)).max()
    largest = float(np.abs(expected.astype(np.float64)).max()) or 1.0
    return float(difference / largest) if np.isfinite(difference) else float("inf")


def _difference(state: Any, expected: Any) -> float:
    return max(map(relative_error, jax.tree.leaves(state), jax.tree.leaves(expected)), default=0.0)


def _host(metrics: Mapping[str, Any]) -> Metrics:
    return {name: np.asarray(value) for name, value in metrics.items()}
