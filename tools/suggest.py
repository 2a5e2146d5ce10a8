"""gspmd suggest: annotations that would lower the cost of a program, found by trying them."""

from __future__ import annotations

import argparse
import json

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.tools._partitioned import (
    add_partition_arguments,
    add_target_argument,
    partition_options,
    positive,
    source_of,
)
from gspmd.tools._stages import stage
from gspmd.tools.command import ArgumentParser, seconds
from gspmd.tools.presentation import tell

NAME = "suggest"
SUMMARY = "find annotations that would lower the cost of a program"
PRINTS_JSON = True
_EPILOG = """\
The decision problem of the program ranks candidate annotations. The program is partitioned with each candidate, and
those that lower the cost are printed, best first: the value, its sharding, the time, bytes sent and memory of a step,
and how to write the annotation (as a change of the Python source, for in_shardings, or in the text of the program).
Existing annotations are kept. docs/suggest.md says which annotations are tried.

--apply writes the program with the best suggestion, --apply=2 with the second, to the file given with -o or else to
stdout; the suggestions then go to stderr. Without a suggestion, the program is written unchanged.

JSON: "mesh", "target", "save", "before", "suggestions", "tried", "promising" (candidates worth a try), "refused"
(candidates with which the program cannot be partitioned). A suggestion has "value", "kind" (argument or operation),
"label", "sharding", "sdy" (the annotation in the program's text), "patch" (null, or "file", "line", and the "old" and
"new" lines), "outcome", "saved" and "alike" (other annotations with the same saving). "before", "outcome" and "saved"
have "sent_bytes", "step_s" (seconds, estimated) and "memory_bytes" (at the peak), the first two also "fits" (in the
memory of the target).
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="an annotated program; - for stdin")
    parser.add_argument(
        "--save",
        choices=["time", "bytes", "memory"],
        default="time",
        help="what to save: time of a step, bytes that a device sends, or memory at the peak (default: time)",
    )
    parser.add_argument("--limit", type=positive, default=5, metavar="N", help="print at most N (default: 5)")
    parser.add_argument("--tries", type=positive, default=100, metavar="N", help="try at most N (default: 100)")
    parser.add_argument(
        "--time-limit",
        type=seconds,
        default=60.0,
        metavar="SECONDS",
        help="start no further try after this time (default: 60)",
    )
    parser.add_argument("--apply", type=positive, metavar="N", help="write the program with suggestion N (default: 1)")
    parser.implied_values["--apply"] = "1"
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write it (default: stdout)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_partition_arguments(parser)
    add_target_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Exit code 0; errors are exceptions."""
    from gspmd.output import Output
    from gspmd.suggestions.suggesting import suggest
    from gspmd.suggestions.text import module_text, suggestion_lines

    if args.output is not None and args.apply is None:
        args.apply = 1
    _check(args)
    output = None if args.apply is None else Output("-" if args.output is None else args.output, stdout=True)
    with stage("trying annotations"):
        found = suggest(
            source_of(args.file),
            **partition_options(args),
            save=args.save,
            tries=args.tries,
            time_limit_s=args.time_limit,
        )
    if args.json:
        text = json.dumps(found.to_dict(), indent=2)
    else:
        text = "\n".join(suggestion_lines(found, args.limit))
    if output is not None:
        module = found.apply(args.apply) if found.found else found.module
        output.write(module_text(module, args.file).encode())
    if output is None or args.output not in (None, "-"):
        print(text)
    else:
        tell(text)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raise UsageError for options that contradict each other."""
    if args.json and args.apply is not None and args.output in (None, "-"):
        raise UsageError(
            "--json and --apply both write to stdout", hint="name a file with -o", code=Code.OPTIONS_DISAGREE
        )
