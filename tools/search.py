"""gspmd search: find annotations for a program that has few or none."""

from __future__ import annotations

import argparse
import json
import re

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.tools._partitioned import (
    add_partition_arguments,
    add_target_argument,
    byte_count,
    partition_options,
    positive,
    source_of,
)
from gspmd.tools._stages import stage
from gspmd.tools.command import ArgumentParser, seconds

NAME = "search"
SUMMARY = "find annotations for a program that has few or none"
PRINTS_JSON = True
_EPILOG = """\
The search solves the same decision problem as gspmd partition, with the shardings of arguments as variables. It decides
all arguments together, and those of repeated layers as one. It then partitions the program with the best few solutions
to price them. Existing annotations are kept. The output compares the plan with well-known parallelisms, lists each
decision with its runner-up, and lists constraints inside the program that lower the cost. docs/search.md explains the
method.

--plan writes the decisions as JSON. --start starts from such a file and keeps the decisions with "pinned": true.

JSON, also of --plan: "form", "mesh", "target", "most_bytes" (the memory a device may use), "outcome", "bound" (a lower
bound of the time in "seconds", and its "reason"), "gap" (the relative distance of the solution from the optimum, at
most), "baselines" (outcomes by name), "decisions", "compiled" (null, or "step_s" and "memory_bytes"), "pipelining"
(null, or a pipeline that may take less), "tried", "seconds" and "complete". A decision has "argument", "kind"
(arguments or values inside), "count", "type", "sharding" (the axes of each dimension, or null where that is left to
propagation), "given", "pinned", "next_sharding" and "next_cost" (the best plan without that sharding, and its cost
relative to this plan), and of values inside "places" and "patches" of the source. An outcome has "sent_bytes",
"step_s", "memory_bytes" and "fits".
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="a program; - for stdin")
    parser.add_argument(
        "--mesh",
        metavar="X=8,Y=4|auto",
        help="sizes of the axes, or auto to search the meshes of one or two axes (default: the program's, else auto)",
    )
    parser.add_argument(
        "--memory",
        type=_memory,
        default=1.0,
        metavar="90%|12GiB",
        help="how much of a device's memory the program may use (default: all)",
    )
    parser.add_argument(
        "--time-limit", type=seconds, default=60.0, metavar="SECONDS", help="search for this time (default: 60)"
    )
    parser.add_argument(
        "--compile",
        type=positive,
        default=0,
        metavar="N",
        help="compile the N best plans for the target and take the one with the fastest step",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the annotated program")
    parser.add_argument("--plan", metavar="FILE", help="write the decisions as JSON")
    parser.add_argument("--start", metavar="FILE", help="a plan to start from")
    parser.add_argument(
        "--jax", action="store_true", help="print Python code that passes the same shardings to in_shardings"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_partition_arguments(parser)
    add_target_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Exit code 0; errors are exceptions."""
    from gspmd.output import beside, outputs
    from gspmd.plan_search.meshes import parse_mesh_sizes
    from gspmd.plan_search.plan import PlanFile
    from gspmd.plan_search.searching import search
    from gspmd.plan_search.text import plan_lines
    from gspmd.suggestions.text import module_text

    if args.json and args.jax:
        raise UsageError("--json and --jax are both given", hint="give one of them", code=Code.OPTIONS_DISAGREE)
    annotated, decisions = outputs(args.output, args.plan)
    start = None if args.start is None else PlanFile.read(args.start)
    mesh = None if args.mesh is None else parse_mesh_sizes(args.mesh)
    with stage("searching"):
        found = search(
            source_of(args.file),
            **partition_options(args),
            mesh=mesh,
            memory=args.memory,
            time_limit_s=args.time_limit,
            plan=start,
            compiled=args.compile,
        )
    text = json.dumps(found.to_dict(), indent=2) + "\n"
    if annotated is not None:
        annotated.write(module_text(found.module, args.file).encode())
    if decisions is not None:
        decisions.write(text.encode())
    with beside(annotated, decisions):
        if args.json:
            print(text, end="")
        elif args.jax:
            print(found.jax_code(), end="")
        else:
            print("\n".join(plan_lines(found)))
    return 0


def _memory(text: str) -> float:
    """An argparse type: a fraction of a device's memory, or bytes."""
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%", text)
    if match is None:
        size = byte_count(text)
        if size <= 1:
            raise argparse.ArgumentTypeError(f"{text!r} is not an amount of memory such as 90% or 12GiB")
        return float(size)
    part = float(match[1]) / 100
    if not 0 < part <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0% and 100%")
    return part
