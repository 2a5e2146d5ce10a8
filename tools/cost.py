"""gspmd cost: what a partitioned program communicates, computes and holds in memory."""

from __future__ import annotations

import argparse
import json
import sys

from gspmd.dialect.errors import UsageError
from gspmd.tools._partitioned import (
    add_choice_arguments,
    check_not_partitioned_yet,
    partition_options,
    positive,
    strictness,
    tolerance,
)
from gspmd.tools._stages import stage
from gspmd.tools.command import ArgumentParser, write_output

NAME = "cost"
SUMMARY = "estimate time, communication and memory of a program on a target, and hold it to a budget"
EXIT_WITHIN, EXIT_EXCEEDED = 0, 1
_EPILOG = """\
FILE is an annotated program, which is partitioned for the target, or a partitioned module; --original then names the
program that it was made from, to compare the arithmetic. docs/cost.md says what the figures mean, where those of the
targets come from and what a .toml file describes.

JSON: "program", "target", "mesh", "num_partitions", "axes" (where each lies on a topology, else null), "time"
("compute_s", "memory_traffic_s", "communication_s", "lower_bound_s", "upper_bound_s", "bound_by"), "flops"
("per_device", "by_kind", "model", "ratio"), "traffic_bytes", "communication" ("bytes", "runs", "bytes_by_kind",
"collectives": of "kind", "axes", "bytes", "count", "cause", "location", "time_s"), "memory" ("arguments", "results",
"aliased", "temporaries", "allocated", "peak", "host", "capacity", "at_peak": of "value", "kind", "type", "bytes",
"location", "replicated_over") and "notes".

exit codes: 0 the program is within the budget, or none is given; 1 it is not, or the program is refused; 2 wrong usage
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("file", metavar="FILE", help="an annotated program or a partitioned module; - for stdin")
    add_choice_arguments(parser)
    parser.add_argument("--original", metavar="FILE", help="the program that a partitioned FILE was made from")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--top", type=positive, default=10, metavar="N", help="entries in a list (default: 10)")
    parser.add_argument("--budget", metavar="FILE", help="exit with 1 if the program needs more than the budget there")
    parser.add_argument(
        "--write-budget", metavar="FILE", help="write what the program needs as a budget, .json or .toml"
    )
    parser.add_argument(
        "--tolerance",
        type=tolerance,
        metavar="T",
        help="part above the budget that is allowed (default: the file's, or 0)",
    )


def run(args: argparse.Namespace) -> int:
    """Exit code: see `--help`."""
    from gspmd import cost_budget, cost_text, costs
    from gspmd.executable_module import is_partitioned
    from gspmd.reading import ProgramFile, read_program_file
    from gspmd.transforms.support.mlir import new_context

    budget = cost_budget.read_budget(args.budget) if args.budget else None
    if budget is not None and args.tolerance is not None:
        budget = cost_budget.with_tolerance(budget, args.tolerance)
    module = read_program_file(args.file, new_context())
    _check(args, is_partitioned(module))
    with stage("partitioning"):
        report = costs.cost(
            module,
            **partition_options(args),
            strict=strictness(args),
            original=None if args.original is None else ProgramFile(args.original),
        )
    if args.write_budget:
        written = cost_budget.budget_of(report, args.tolerance or 0.0)
        write_output(args.write_budget, cost_budget.budget_text(written, args.write_budget).encode())
    print(
        json.dumps(cost_text.to_dict(report), indent=2)
        if args.json
        else "\n".join(cost_text.report_lines(report, args.top))
    )
    if budget is None:
        return EXIT_WITHIN
    excess = cost_budget.exceeded(report, budget, args.budget)
    for each in excess:
        print(f"gspmd: over budget: {each}", file=sys.stderr)
    return EXIT_EXCEEDED if excess else EXIT_WITHIN


def _check(args: argparse.Namespace, partitioned: bool) -> None:
    """Raise UsageError for options that do not fit the kind of module."""
    if not partitioned and args.original is not None:
        raise UsageError(f"'{args.file}' is not partitioned", hint="leave --original out")
    if partitioned:
        check_not_partitioned_yet(args)
    if args.tolerance is not None and not (args.budget or args.write_budget):
        raise UsageError("--tolerance without a budget", hint="give --budget or --write-budget")
