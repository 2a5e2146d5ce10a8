"""gspmd check: is the partitioned program the same program?"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.tools._partitioned import (
    add_choice_arguments,
    add_platform_argument,
    partitioned,
    tolerance,
)
from gspmd.tools._stages import stage
from gspmd.tools.command import ArgumentParser
from gspmd.tools.exit_codes import EXIT_DONE, EXIT_VERDICT

if TYPE_CHECKING:
    from gspmd.checks.checking import CheckReport, ResultCheck

NAME = "check"
SUMMARY = "run a program on one device and partitioned on many, and compare the results"
PRINTS_JSON = True
_EPILOG = """\
Integers and bools must be equal; NaN and infinities must be in the same places; other numbers may be off by
RTOL times the largest magnitude of the result (default: 2e-5 for f32, 3.7e-14 for f64, 4 eps for bf16 and
f16). Every copy on every device is compared. Uneven arguments are padded with NaN and extreme integers."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "file", metavar="FILE", help="an annotated module, - for stdin; with --against, a partitioned one"
    )
    parser.add_argument("--against", metavar="ORIGINAL", help="the module that FILE was partitioned from")
    add_choice_arguments(parser)
    parser.add_argument("--inputs", metavar="F.npz", help="arguments, as arrays called 0, 1, ... or by name")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the random arguments used otherwise (default: 0)"
    )
    parser.add_argument("--rtol", type=tolerance, help="allowed error relative to a result's largest magnitude")
    parser.add_argument("--atol", type=tolerance, help="allowed absolute error, on top of it (default: 0)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_platform_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 if the results agree, 3 if they differ; errors are exceptions."""
    from gspmd.tables import fitted

    report = _check(args)
    print(json.dumps(report.to_dict(), indent=2) if args.json else "\n".join(fitted(_lines(report))))
    return EXIT_DONE if report.passed else EXIT_VERDICT


def _check(args: argparse.Namespace) -> CheckReport:
    from gspmd.reading import read_program_file
    from gspmd.runtime.executable_module import is_partitioned
    from gspmd.transforms.parsing.mlir import new_context
    from gspmd.virtual_devices import request_devices

    if args.seed < 0:
        raise UsageError(f"--seed is {args.seed}, expected at least 0", code=Code.BAD_VALUE)
    module = read_program_file(args.file, new_context())
    if is_partitioned(module) and args.against is None:
        raise UsageError(
            f"'{args.file}' is already partitioned",
            hint="name its original with --against",
            code=Code.PARTITIONED_ALREADY,
        )
    if args.against is not None and not is_partitioned(module):
        raise UsageError(
            f"'{args.file}' is not partitioned",
            hint="leave --against out, and gspmd check partitions it",
            code=Code.PARTITIONED_ALREADY,
        )
    original = module if args.against is None else read_program_file(args.against, new_context())
    with stage("partitioning"):
        product, count = partitioned(module, args)
    request_devices(args.platform, count)
    from gspmd.checks.checking import check
    from gspmd.runtime import executable as runtime

    return check(
        original,
        product,
        inputs=args.inputs,
        seed=args.seed,
        rtol=args.rtol,
        atol=args.atol,
        devices=runtime.platform_devices(args.platform),
        stage=stage,
    )


def _lines(report: CheckReport) -> list[str]:
    from gspmd.tables import table

    lines = [f"mesh {report.mesh}, {report.num_partitions} partitions, compared with {report.reference}"]
    lines += [f"note: {note}" for note in report.notes]
    for run_ in report.runs:
        lines += ["", f"{run_.inputs}:", *table([_HEADER, *(_row(result) for result in run_.results)])]
    failed = sum(not result.passed for result in report.results)
    total = len(report.results)
    lines += ["", f"FAIL: {failed} of {total} results differ" if failed else f"PASS: {total} results agree"]
    return lines


_HEADER = ("result", "type", "sharding", "max abs error", "max rel error", "tolerance", "non-finite", "")


def _row(result: ResultCheck) -> tuple[str, ...]:
    verdict = ("pass" if result.passed else "FAIL") + (f": {result.reason}" if result.reason else "")
    return (
        f"{result.index} {result.name}" if result.name else str(result.index),
        f"{result.dtype}[{','.join(map(str, result.shape))}]",
        result.sharding,
        f"{result.max_abs_error:.3g}",
        f"{result.max_rel_error:.3g}",
        f"{result.tolerance:.3g}" if result.tolerance else "exact",
        str(result.nonfinite),
        verdict,
    )
