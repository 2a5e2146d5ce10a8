"""gspmd cost: time, communication, compute and memory of a partitioned program."""

from __future__ import annotations

import argparse
import json

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.tools._partitioned import (
    add_choice_arguments,
    budget_tolerance,
    check_not_partitioned_yet,
    partition_options,
    positive,
    strictness,
)
from gspmd.tools._stages import stage
from gspmd.tools.command import ArgumentParser
from gspmd.tools.exit_codes import EXIT_DONE, EXIT_VERDICT
from gspmd.tools.presentation import tell

NAME = "cost"
SUMMARY = "estimate time, communication and memory on a target, and check them against a budget"
PRINTS_JSON = True
_EPILOG = """\
FILE is an annotated program, which is partitioned for the target, or a partitioned module. For a partitioned module,
--original names the program from which it was made, to compare their flops. docs/cost.md explains the figures, the
sources of the targets' figures, and the .toml format of a target.

JSON: "program", "target", "mesh", "num_partitions", "axes" (the placement of each on the topology, or null), "time"
("compute_s", "memory_traffic_s", "communication_s", "lower_bound_s", "upper_bound_s", "bound_by"), "flops"
("per_device", "by_kind", "model", "ratio"), "traffic_bytes", "communication" ("bytes", "least_bytes": a lower bound,
null if unknown, "runs", "bytes_by_kind", "collectives": of "kind", "axes", "bytes", "count", "cause", "location",
"time_s"), "memory" ("arguments", "results", "aliased", "temporaries", "allocated", "peak", "host", "capacity",
"at_peak": of "value", "kind", "type", "bytes", "location", "replicated_over") and "notes".
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="an annotated program or a partitioned module; - for stdin")
    add_choice_arguments(parser)
    parser.add_argument("--original", metavar="FILE", help="the program from which a partitioned FILE was made")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--top", type=positive, default=10, metavar="N", help="entries in a list (default: 10)")
    parser.add_argument("--budget", metavar="FILE", help="exit with 3 if the program exceeds the budget in FILE")
    parser.add_argument(
        "--write-budget", metavar="FILE", help="write the program's figures as a budget, .json or .toml"
    )
    parser.add_argument("--trace", metavar="FILE", help="write the timeline of a step as a trace for Perfetto")
    parser.add_argument(
        "--tolerance",
        type=budget_tolerance,
        metavar="T",
        help="allowed excess over the budget, as a fraction (default: the file's, or 0)",
    )


def run(args: argparse.Namespace) -> int:
    """Exit code: 0, or 3 if the program exceeds the budget; errors are exceptions."""
    from gspmd.costs import budget as cost_budget
    from gspmd.costs import cost_report
    from gspmd.costs import program_cost as costs
    from gspmd.costs.trace import trace_text
    from gspmd.output import beside, outputs
    from gspmd.reading import ProgramFile, read_program_file
    from gspmd.runtime.executable_module import is_partitioned
    from gspmd.tables import fitted
    from gspmd.transforms.parsing.mlir import new_context

    output, trace = outputs(args.write_budget, args.trace)
    budget = cost_budget.read_budget(args.budget) if args.budget is not None else None
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
    with beside(output, trace):
        print(
            json.dumps(cost_report.to_dict(report), indent=2)
            if args.json
            else "\n".join(fitted(cost_report.report_lines(report, args.top)))
        )
    if output:
        written = cost_budget.budget_of(report, args.tolerance or 0.0)
        output.write(cost_budget.budget_text(written, args.write_budget).encode())
    if trace:
        trace.write(trace_text(report).encode())
    if budget is None:
        return EXIT_DONE
    excess = cost_budget.exceeded(report, budget, args.budget)
    for each in excess:
        tell(f"gspmd: over budget: {each}")
    return EXIT_VERDICT if excess else EXIT_DONE


def _check(args: argparse.Namespace, partitioned: bool) -> None:
    """Raise UsageError for options that do not apply to this kind of module."""
    if not partitioned and args.original is not None:
        raise UsageError(
            f"'{args.file}' is not partitioned", hint="leave --original out", code=Code.PARTITIONED_ALREADY
        )
    if partitioned:
        check_not_partitioned_yet(args)
    if args.tolerance is not None and not (args.budget or args.write_budget):
        raise UsageError(
            "--tolerance without a budget", hint="give --budget or --write-budget", code=Code.OPTIONS_DISAGREE
        )
