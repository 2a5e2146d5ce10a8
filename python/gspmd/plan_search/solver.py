"""Mixed-integer linear programs, which HiGHS solves where it is installed (pip install 'gspmd[search]')."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import math
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from gspmd.dialect.errors import UsageError


def has_solver() -> bool:
    """Whether HiGHS is installed."""
    return importlib.util.find_spec("highspy") is not None


def check_solver() -> None:
    """Raise UsageError where it is not."""
    if not has_solver():
        raise UsageError(
            "the integer program of a search needs HiGHS, which is not installed",
            hint="pip install 'gspmd[search]', or search without it",
        )


@dataclasses.dataclass(slots=True)
class LinearProgram:
    """Minimise the cost of columns, which are at least 0, with rows between bounds."""

    costs: list[float] = dataclasses.field(default_factory=list)
    most: list[float] = dataclasses.field(default_factory=list)
    is_integer: list[bool] = dataclasses.field(default_factory=list)
    lower: list[float] = dataclasses.field(default_factory=list)
    upper: list[float] = dataclasses.field(default_factory=list)
    entries: list[tuple[int, int, float]] = dataclasses.field(default_factory=list)

    def column(self, cost: float = 0.0, is_integer: bool = False, most: float = math.inf) -> int:
        """A new column."""
        self.costs.append(cost)
        self.is_integer.append(is_integer)
        self.most.append(most)
        return len(self.costs) - 1

    def row(self, lower: float, upper: float, entries: list[tuple[int, float]]) -> int:
        """A new row of columns with factors."""
        self.lower.append(lower)
        self.upper.append(upper)
        number = len(self.lower) - 1
        self.entries += [(number, column, factor) for column, factor in entries if factor]
        return number


@dataclasses.dataclass(frozen=True, slots=True)
class LinearSolution:
    """Values of the columns, their cost, and a cost that no values have less of.

    `values` is empty where none were found; `is_possible` is False where it is proven that there are none.
    """

    values: tuple[float, ...]
    cost: float
    bound: float
    is_possible: bool


def solve(program: LinearProgram, time_limit_s: float, is_relaxed: bool = False) -> LinearSolution:
    """Solve it with HiGHS on one core; `is_relaxed`: columns need not be integers. Errors: UsageError without HiGHS."""
    check_solver()
    import highspy

    with _silently():
        highs = highspy.Highs()
    for name, value in (("output_flag", False), ("threads", 1), ("time_limit", time_limit_s), ("mip_rel_gap", 1e-3)):
        highs.setOptionValue(name, value)
    highs.passModel(_model(program, is_relaxed))
    highs.run()
    info, status = highs.getInfo(), highs.getModelStatus()
    is_possible = status not in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible)
    has_values = info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible)
    is_mixed = any(program.is_integer) and not is_relaxed
    bound = float(info.mip_dual_bound) if is_mixed else -math.inf
    if not is_mixed and status == highspy.HighsModelStatus.kOptimal:
        bound = float(info.objective_function_value)
    values = tuple(highs.getSolution().col_value) if has_values else ()
    return LinearSolution(values, float(info.objective_function_value) if has_values else math.inf, bound, is_possible)


@contextlib.contextmanager
def _silently() -> Iterator[None]:
    """While HiGHS says once in a process who it is, whatever its options are, on the output that is for results."""
    sys.stdout.flush()
    try:
        saved = os.dup(1)
    except OSError:  # nobody hears it
        yield
        return
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(saved, 1)
            os.close(saved)


def _model(program: LinearProgram, is_relaxed: bool) -> Any:
    import highspy

    model, infinity = highspy.HighsLp(), highspy.kHighsInf
    model.num_col_, model.num_row_ = len(program.costs), len(program.lower)
    model.col_cost_ = np.array(program.costs)
    model.col_lower_ = np.zeros(len(program.costs))
    model.col_upper_ = np.minimum(np.array(program.most), infinity)
    model.row_lower_ = np.maximum(np.array(program.lower), -infinity)
    model.row_upper_ = np.minimum(np.array(program.upper), infinity)
    entries = sorted(program.entries, key=lambda entry: entry[1])
    columns = np.array([column for _, column, _ in entries], dtype=np.int64)
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.searchsorted(columns, np.arange(len(program.costs) + 1)).astype(np.int32)
    model.a_matrix_.index_ = np.array([row for row, _, _ in entries], dtype=np.int32)
    model.a_matrix_.value_ = np.array([factor for _, _, factor in entries])
    if not is_relaxed and any(program.is_integer):
        kinds = highspy.HighsVarType
        model.integrality_ = [kinds.kInteger if each else kinds.kContinuous for each in program.is_integer]
    return model
