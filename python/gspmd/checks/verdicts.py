"""The verdicts of a check: every result of every run, and whether it is right; and the report as text and JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from gspmd.tables import bad, fitted, good, table

_ALL = 20  # results that are told one by one where they all agree
MAX_LISTED = 10  # of more, those that are told


@dataclasses.dataclass(frozen=True, slots=True)
class ResultCheck:
    """The comparison of one result of one run with the reference.

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


def report_lines(report: CheckReport, path: str = "", everything: bool = False) -> list[str]:
    """The report. `path` is where a small program with the fault is; of many results that agree some stand for all."""
    lines = [f"mesh {report.mesh}, {report.num_partitions} partitions, compared with {report.reference}"]
    lines += [f"note: {note}" for note in report.notes]
    for run in report.runs:
        lines += ["", f"{run.inputs}:", *_result_lines(run.results, everything)]
    if report.fault is not None:
        lines += ["", *_fault_lines(report.fault, path)]
    failed = sum(not result.passed for result in report.results)
    total = len(report.results)
    if report.fault is not None and not failed:
        return [*lines, "", bad(f"FAIL: the program {report.fault.problem}")]
    verdict = bad(f"FAIL: {failed} of {total} results differ") if failed else good(f"PASS: {total} results agree")
    return [*lines, "", verdict]


def _result_lines(results: Sequence[ResultCheck], everything: bool) -> list[str]:
    """Rows of results; of more than `_ALL`, those that differ and those that agree least."""
    shown = results
    if not everything and len(results) > _ALL:
        agreeing = sorted((result for result in results if result.passed), key=_part_of_tolerance, reverse=True)
        told = {id(result) for result in agreeing[:MAX_LISTED]}
        shown = [result for result in results if id(result) in told or not result.passed]
    has_nonfinite = any(result.nonfinite for result in shown)
    header = ("", "abs error", "rel error", "tolerance", *(("non-finite",) if has_nonfinite else ()))
    rows = [(*header, "type", "sharding", "result"), *(_row(result, has_nonfinite) for result in shown)]
    more = len(results) - len(shown)
    rest = [f"  ... and {more} more that agree, and are less far off (-v lists all)"] if more else []
    return [*table(rows, right=range(1, len(header))), *rest]


def _part_of_tolerance(result: ResultCheck) -> float:
    return result.max_abs_error / result.tolerance if result.tolerance else 0.0


def _row(result: ResultCheck, has_nonfinite: bool) -> tuple[str, ...]:
    name = f"{result.index} {result.name}" if result.name else str(result.index)
    return (
        "pass" if result.passed else bad("FAIL"),
        f"{result.max_abs_error:.3g}",
        f"{result.max_rel_error:.3g}",
        f"{result.tolerance:.3g}" if result.tolerance else "exact",
        *((str(result.nonfinite),) if has_nonfinite else ()),
        f"{result.dtype}[{','.join(map(str, result.shape))}]",
        result.sharding,
        name + (f": {result.reason}" if result.reason else ""),
    )


def _fault_lines(fault: Fault, path: str) -> list[str]:
    """The pass and the operation at fault, and the file with the reduced program."""
    what = " ".join(filter(None, (f"'{fault.operation}'" if fault.operation else "", fault.value)))
    where = f" at {fault.location}" if fault.location else ""
    step = f", in the step '{fault.step}' for its operands or results" if fault.step else ""
    by = f"pass '{fault.pass_name}'" if fault.pass_name else "no single pass"
    lines = [f"at fault: {by}" + (f", at {what}{where}{step}" if what else "")]
    lines += [f"  {fault.symptom}"] if fault.symptom else []
    return [*lines, *([f"  a reduced program to report is in {path}"] if path else [])]
