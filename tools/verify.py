"""gspmd verify: does the partitioned program compute the same results for all inputs?"""

from __future__ import annotations

import argparse
import json

from gspmd.tools._partitioned import add_choice_arguments, partitioned
from gspmd.tools._stages import stage
from gspmd.tools.command import ArgumentParser
from gspmd.tools.exit_codes import EXIT_DONE, EXIT_VERDICT

NAME = "verify"
SUMMARY = "prove that the partitioned program computes the same results for all inputs, or show where it does not"
PRINTS_JSON = True
_EPILOG = """\
The verdict is "proved" if every result is the same function of the arguments, in exact arithmetic and for any order of
summation; "refuted" if an element of a result differs, which is then named; and "not known" otherwise, with the
operation that stopped the proof (docs/verify.md). Nothing is run and no devices are needed.

JSON: "verdict", "mesh", "num_partitions", "sums", "operations" and "results", each of "index", "name", "type",
"sharding", "verdict", "reason", "operation", "location" and "element", null or of "partition", "index", "whole_index".
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="the annotated module; - for stdin")
    parser.add_argument(
        "partitioned", metavar="PARTITIONED", nargs="?", help="the partitioned module (default: partition FILE)"
    )
    add_choice_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 if all results are proved, 3 if not; errors are exceptions."""
    from gspmd.reading import read_program_file
    from gspmd.tables import fitted
    from gspmd.transforms.parsing.mlir import new_context
    from gspmd.verification.verifying import verify

    given = read_program_file(args.file, new_context())
    module = given if args.partitioned is None else read_program_file(args.partitioned, new_context())
    with stage("partitioning"):
        product, _ = partitioned(module, args)
    with stage("proving"):
        found = verify(given, product)
    print(json.dumps(found.to_dict(), indent=2) if args.json else "\n".join(fitted(found.lines())))
    return EXIT_DONE if found.proved else EXIT_VERDICT
