"""The verdicts of a check: every result of every run, and whether it is right."""

from __future__ import annotations

import dataclasses
import math
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class ResultCheck:
    """One result of one run.

    `tolerance` is the allowed absolute error; `noise`, if it was needed, is the change of the reference when every
    float input changes by one rounding error (the largest of three tries). `reason` says why the result failed or
    barely passed.
    """

    index: int
    name: str | None
    shape: tuple[int, ...]
    dtype: str
    sharding: str
    max_abs_error: float
    max_rel_error: float
    tolerance: float
    nonfinite: int
    passed: bool
    noise: float | None = None
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class CheckRun:
    """All results for one set of inputs, described by `inputs`."""

    inputs: str
    results: tuple[ResultCheck, ...]

    @property
    def passed(self) -> bool:
        return all(result.passed for result in self.results)


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """The fault of a partitioned program: the first operation at fault, and the pass.

    `problem` describes the fault of the whole program. `pass_name` is the first pass with a wrong output: `fold` for
    the folding of repeated layers, empty if the partitioned program is right and fails for another reason. `operation`,
    `value` and `location` refer to the given program and are empty if no single operation was found; `func.return`
    stands for the results. `step` is the reshard of an operand, if that is at fault rather than the operation.
    `symptom` describes the wrong value. `reduced` is the text of a reduced program with the fault, or of the same one.
    """

    problem: str
    pass_name: str
    operation: str = ""
    value: str = ""
    location: str = ""
    step: str = ""
    symptom: str = ""
    reduced: str = ""


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class CheckReport:
    """The report of a check; true if everything passed.

    `fault` locates the fault, if requested; `runs` is empty if the program cannot run.
    """

    mesh: str
    num_partitions: int
    reference: str
    runs: tuple[CheckRun, ...]
    notes: tuple[str, ...] = ()
    fault: Fault | None = None

    @property
    def passed(self) -> bool:
        return self.fault is None and all(run.passed for run in self.runs)

    def __bool__(self) -> bool:
        return self.passed

    @property
    def results(self) -> tuple[ResultCheck, ...]:
        """The results of all runs."""
        return tuple(result for run in self.runs for result in run.results)

    def __str__(self) -> str:
        """The text that `gspmd check` prints."""
        from gspmd.checks.text import report_lines
        from gspmd.tables import fitted

        return "\n".join(fitted(report_lines(self)))

    def __repr__(self) -> str:
        failed = sum(not result.passed for result in self.results)
        found = f"{failed} of {len(self.results)} results differ" if failed else f"{len(self.results)} results agree"
        return f"<CheckReport: {found if self.fault is None else 'a fault was found'}>"

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {"passed": self.passed, **_json_value(dataclasses.asdict(self))}


def _json_value(value: Any) -> Any:
    """The value, with None for infinity and NaN, which JSON cannot represent."""
    if isinstance(value, dict):
        return {key: _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
