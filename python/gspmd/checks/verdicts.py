"""What a check found: every result of every run, and whether it is what it should be."""

from __future__ import annotations

import dataclasses
import math
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class ResultCheck:
    """One result of one run.

    `tolerance` is the error allowed, absolute; `noise`, where it was needed, is how far the reference itself
    moves when every float input changes by one rounding error (the most of three
    tries). `reason` says why it failed or barely passed.
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
    """All results for one set of inputs, which `inputs` describes."""

    inputs: str
    results: tuple[ResultCheck, ...]

    @property
    def passed(self) -> bool:
        return all(result.passed for result in self.results)


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """Where a program is partitioned wrongly: the first operation at fault, and the pass that broke it.

    `problem` is what is wrong with the whole program, `pass_name` the pass after which that is so: `fold` where layers
    that repeat are put back, empty where the partitioned program is right and does not run for another reason.
    `operation`, `value` and `location` are of the program as it is given, all empty where no single operation is found;
    `func.return` is what the program returns. `step` is the reshard for an operand of the operation, where that is at
    fault and not the operation. `symptom` is what is wrong with the value. `reduced` is the text of a smaller program
    with the fault, or of the same one.
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
    """What was compared with what, and how it went; true if everything passed.

    `fault` is where the program is partitioned wrongly, if that was looked for; `runs` are empty where it does not run.
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
        """The report in plain values, as for JSON."""
        return {"passed": self.passed, **_json_value(dataclasses.asdict(self))}


def _json_value(value: Any) -> Any:
    """The value with None for infinity and NaN, which JSON has no words for."""
    if isinstance(value, dict):
        return {key: _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
