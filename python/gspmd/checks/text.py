"""What a check found, as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from gspmd.checks.verdicts import CheckReport, Fault, ResultCheck
from gspmd.tables import bad, good, table

_ALL = 20  # results that are told one by one where they all agree
_MAX = 10  # of more, those that are told


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
        told = {id(result) for result in agreeing[:_MAX]}
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
