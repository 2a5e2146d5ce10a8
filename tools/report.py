"""gspmd report: a program's shardings, their reasons and their costs, as one HTML page."""

from __future__ import annotations

import argparse
from typing import Any

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.tools._partitioned import add_choice_arguments, partition, partition_options, source_of
from gspmd.tools._stages import stage
from gspmd.tools.command import ArgumentParser

NAME = "report"
SUMMARY = "write an HTML page with a program's shardings, the reasons for them, and their cost"
_EPILOG = """\
The page is one file that needs no network. It shows the mesh, the shards of arguments on devices, the communication,
memory and compute of each source line, collectives, conflicts with their alternatives, the timeline of a step, memory,
and the derivation of each of these from an annotation. It contains the numbers as JSON. docs/report.md has more.

--trace writes the timeline for https://ui.perfetto.dev or chrome://tracing.
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="an annotated program; - for stdin")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="where to write the page, such as report.html; - for stdout"
    )
    parser.add_argument("--data", metavar="FILE", help="write the data of the page, as JSON")
    parser.add_argument("--trace", metavar="FILE", help="write the timeline of a step as a trace")
    add_choice_arguments(parser)
    parser.add_argument(
        "--compile",
        action="store_true",
        help="compile for the target, such as tpu:v5p:2x2x2, and show the compiler's schedule of the step",
    )


def run(args: argparse.Namespace) -> int:
    """Exit code 0; errors are exceptions."""
    from gspmd.output import outputs

    page, data, trace = outputs(args.output, args.data, args.trace)
    if page is None and data is None and trace is None:
        raise UsageError("nothing to write", hint="give -o report.html", code=Code.BAD_VALUE)
    source = source_of(args.file)
    if args.strict is not None:
        partition(source, args)  # applies --strict before anything is written
    found = _report(source, args)
    with stage("writing the page"):
        if page:
            page.write(found.html().encode())
        if data:
            data.write(found.json().encode())
        if trace:
            trace.write(found.trace().encode())
    return 0


def _report(source: Any, args: argparse.Namespace) -> Any:
    from gspmd.reports.report import report

    options = partition_options(args)
    compiled = _compiled(source, args) if args.compile else None
    with stage("explaining"):
        return report(source, **options, compiled=compiled)


def _compiled(source: Any, args: argparse.Namespace) -> Any:
    """The program, compiled for the target."""
    from gspmd.transforms.machine.topology import is_topology
    from gspmd.virtual_devices import request_devices

    if not is_topology(args.target):
        raise UsageError(
            f"--compile with target '{args.target}'", hint="name a topology, such as tpu:v5p:2x2x2", code=Code.BAD_VALUE
        )
    with stage("partitioning"):
        product = partition(source, args)
    request_devices("cpu", 1)
    from gspmd.compiled.ahead_of_time import compile_for

    with stage(f"compiling for {args.target}"):
        return compile_for(product, args.target)
