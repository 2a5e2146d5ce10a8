"""gspmd check: does the partitioned program compute the same results?"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import tempfile
from typing import TYPE_CHECKING, Any

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.tools._partitioned import (
    add_choice_arguments,
    add_platform_argument,
    partition_options,
    partitioned,
    source_of,
    strictness,
    tolerance,
)
from gspmd.tools._stages import stage
from gspmd.tools.command import ArgumentParser
from gspmd.tools.exit_codes import EXIT_DONE, EXIT_VERDICT

if TYPE_CHECKING:
    from gspmd.checks.verdicts import CheckReport

NAME = "check"
SUMMARY = "run a program on one device and partitioned on many, and compare the results"
PRINTS_JSON = True
_EPILOG = """\
Integers and bools must be equal, and NaN and infinities must be at the same elements. Other numbers may differ by RTOL
times the largest magnitude of the result (default: 2e-5 for f32, 3.7e-14 for f64, 4 eps for bf16 and f16). Every
replica on every device is compared. Uneven arguments are padded with NaN and extreme integers.

If the results differ or the partitioned program cannot run, --bisect finds the first pass with a wrong output and the
first operation at fault, and reduces the program (docs/compare.md). The reduced program goes to the folder for
temporary files unless --reduced names a file.

JSON: "passed", "mesh", "num_partitions", "reference", "runs" (of "inputs": "results", each of "index", "name", "shape",
"dtype", "sharding", "max_abs_error", "max_rel_error", "tolerance", "nonfinite", "passed", "noise", "reason"), "notes"
and "fault", null or of "problem", "pass_name", "operation", "value", "location", "step", "symptom", "reduced".
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "file", metavar="FILE", help="an annotated module; - for stdin; with --against, a partitioned one"
    )
    parser.add_argument("--against", metavar="ORIGINAL", help="the module that FILE was partitioned from")
    add_choice_arguments(parser)
    parser.add_argument("--inputs", metavar="F.npz", help="arguments, as arrays named 0, 1, ... or by argument name")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the random arguments used without --inputs (default: 0)",
    )
    parser.add_argument("--rtol", type=tolerance, help="allowed error relative to a result's largest magnitude")
    parser.add_argument("--atol", type=tolerance, help="allowed absolute error, in addition (default: 0)")
    parser.add_argument(
        "--bisect", action="store_true", help="if results differ, find the pass and the operation at fault"
    )
    parser.add_argument("--reduced", metavar="FILE", help="write a reduced program that shows the fault")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_platform_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 if the results agree, 3 if they differ; errors are exceptions."""
    from gspmd.checks.verdicts import report_lines
    from gspmd.output import Output, beside, outputs
    from gspmd.tables import fitted

    if args.reduced is not None and not args.bisect:
        raise UsageError("--reduced without --bisect", hint="give --bisect", code=Code.OPTIONS_DISAGREE)
    (output,) = outputs(args.reduced)
    report = _check(args)
    reduced = report.fault.reduced if report.fault is not None else ""
    if reduced and output is None and not args.json:
        output = Output(_temporary_path())
    with beside(output):
        path = output.path if output is not None and not output.is_stdout else ""
        lines = fitted(report_lines(report, path, args.verbose))
        print(json.dumps(report.to_dict(), indent=2) if args.json else "\n".join(lines))
    if output is not None and reduced:
        output.write(reduced.encode())
    return EXIT_DONE if report.passed else EXIT_VERDICT


def _temporary_path() -> str:
    return os.path.join(tempfile.gettempdir(), f"gspmd-reduced-{secrets.token_hex(4)}.mlir")


def _check(args: argparse.Namespace) -> CheckReport:
    from gspmd.reading import read_program, read_program_file
    from gspmd.runtime.executable_module import is_partitioned
    from gspmd.transforms.parsing.mlir import new_context
    from gspmd.virtual_devices import request_devices

    if args.seed < 0:
        raise UsageError(f"--seed is {args.seed}, expected at least 0", code=Code.BAD_VALUE)
    source = source_of(args.file) if args.bisect else None  # which is read more than once
    module = read_program_file(args.file, new_context()) if source is None else read_program(source)
    if is_partitioned(module) and args.against is None:
        raise UsageError(
            f"'{args.file}' is already partitioned",
            hint="name its original with --against",
            code=Code.PARTITIONED_ALREADY,
        )
    if args.against is not None and not is_partitioned(module):
        raise UsageError(
            f"'{args.file}' is not partitioned",
            hint="leave --against out; gspmd check then partitions it",
            code=Code.PARTITIONED_ALREADY,
        )
    if args.bisect:
        return _located(source, args)
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


def _located(source: Any, args: argparse.Namespace) -> CheckReport:
    """The report, with the fault if there is one."""
    from gspmd.checks.checking import check

    for option, is_given in (("--against", args.against is not None), ("--platform", args.platform != "cpu")):
        if is_given:
            raise UsageError(
                f"--bisect with {option}",
                hint="it partitions the annotated program and runs it on virtual CPU devices",
                code=Code.OPTIONS_DISAGREE,
            )
    options = partition_options(args)
    return check(
        source,
        num_devices=options.pop("num_partitions"),
        inputs=args.inputs,
        seed=args.seed,
        rtol=args.rtol,
        atol=args.atol,
        options={**options, "strict": strictness(args)},
        bisect=True,
        stage=stage,
    )
