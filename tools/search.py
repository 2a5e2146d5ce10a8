"""gspmd search: annotations for a program that has none, or few."""

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
SUMMARY = "find the annotations of a program that has none, or few"
PRINTS_JSON = True
_EPILOG = """\
Arguments are decided upon all at once, those of layers that repeat together, as the problem that is solved when a
program is partitioned, with arguments free; the best few solutions are priced by partitioning the program. Annotations
that the program has are kept. What is printed: the ways to split a model that people know, beside the plan; each
decision with the next best; and constraints inside the program that pay. docs/search.md explains the method.

--plan writes the decisions as JSON. --start begins from such a file; decisions with "pinned": true are kept as they are
there.

JSON, also of --plan: "form", "mesh", "target", "most_bytes" (what a device may hold), "outcome", "bound" ("seconds"
that no plan takes less than, and the "reason"), "gap" (the part by which the solution may be from the best one),
"baselines" (outcomes by name), "decisions", "compiled" (null, or "step_s" and "memory_bytes"), "pipelining" (null, or a
pipeline that may take less), "tried", "seconds" and "complete".
A decision has "argument", "kind" (arguments or values inside), "count", "type", "sharding" (the axes of each dimension,
or null where that is left to propagation), "given", "pinned", "next_sharding" and "next_cost" (the best without that
sharding, and its cost in parts of the best), and of values inside "places" and "patches" of the source.
An outcome has "sent_bytes", "step_s", "memory_bytes" and "fits".
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="a program; - for stdin")
    parser.add_argument(
        "--mesh",
        metavar="X=8,Y=4|auto",
        help="sizes of the axes, or auto for the best of all meshes of one or two (default: the program's, else auto)",
    )
    parser.add_argument(
        "--memory",
        type=_memory,
        default=1.0,
        metavar="90%|12GiB",
        help="how much of a device's memory may be used (default: all)",
    )
    parser.add_argument(
        "--time-limit", type=seconds, default=60.0, metavar="SECONDS", help="search for so long (default: 60)"
    )
    parser.add_argument(
        "--compile",
        type=positive,
        default=0,
        metavar="N",
        help="compile the N best plans for the target, and take the one whose step is the fastest",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the annotated program")
    parser.add_argument("--plan", metavar="FILE", help="write the decisions as JSON")
    parser.add_argument("--start", metavar="FILE", help="a plan to start from")
    parser.add_argument("--jax", action="store_true", help="print Python that gives the same shardings to in_shardings")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_partition_arguments(parser)
    add_target_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Exit code 0; errors are exceptions."""
    from gspmd.output import beside, outputs
    from gspmd.plan_search.meshes import parse_mesh_sizes
    from gspmd.plan_search.plan_file import PlanFile
    from gspmd.plan_search.searching import search
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
            print(found)
    return 0


def _memory(text: str) -> float:
    """An argparse type: a part of a device's memory, or bytes."""
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%", text)
    if match is None:
        size = byte_count(text)
        if size <= 1:
            raise argparse.ArgumentTypeError(f"{text!r} is no memory, such as 90% or 12GiB")
        return float(size)
    part = float(match[1]) / 100
    if not 0 < part <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0% and 100%")
    return part
