"""gspmd compare: a program partitioned by gspmd and by XLA, or two versions of a program."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.dialect.limits import MAX_TOLERANCE
from gspmd.tools._partitioned import add_choice_arguments, partition_options, positive, strictness, tolerance
from gspmd.tools._stages import stage
from gspmd.tools.command import ArgumentParser
from gspmd.tools.exit_codes import EXIT_DONE, EXIT_VERDICT
from gspmd.tools.presentation import tell

if TYPE_CHECKING:
    from gspmd.comparisons.increases import Increase

NAME = "compare"
SUMMARY = "compare a program with the output of XLA's partitioners, or with another version of itself"
PRINTS_JSON = True
_EPILOG = """\
With one FILE, gspmd, XLA GSPMD and XLA with Shardy each partition the program, all inside jaxlib on virtual CPU
devices. The table compares their results with those of the unpartitioned program, and lists bytes sent, memory, an
estimated step time, and the source lines where they differ. --verify proves each partitioned program, or says where it
is wrong, as gspmd verify does. The exit code is 3 if gspmd's results differ or its program is refuted. With two FILEs,
gspmd partitions both versions and nothing is run. docs/compare.md explains the figures.

--max-increase 5% limits by how much gspmd (or the new version) may exceed the best peer (or the old version) in bytes
sent, memory and time. --max-increase bytes=5% limits one figure: bytes, collectives, memory or step. It is repeatable.

JSON of one program: "passed", "mesh", "num_partitions", "target", "opinions" (of a "partitioner": "failure", "figures",
"agrees", "unchecked", "results" as of gspmd check, "unproved", "verification" as of gspmd verify) and "differences" (of
a "line": "sent" by partitioner). Figures are "sent_bytes", "collectives", "held_bytes", "lower_bound_s",
"upper_bound_s", "ready_s" and "sent", of "line", "kind", "axes", "number", "bytes", "cause". JSON of two versions:
"target", "old" and "new" (figures, and "mesh"), "lines" ("old", "new"), "arguments" and "results" that changed ("name",
"old", "new"). Both have "increases", those above the limits: "figure", "limit", "base", "actual".
"""
_FIGURES = ("bytes", "collectives", "memory", "step")


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="an annotated program, or its old version; - for stdin")
    parser.add_argument("new", nargs="?", metavar="NEWFILE", help="the new version")
    add_choice_arguments(parser)
    parser.add_argument(
        "--inputs", metavar="F.npz", help="arguments of a run, as arrays named 0, 1, ... or by argument name"
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="seed of the random arguments used without --inputs (default: 0)"
    )
    parser.add_argument("--rtol", type=tolerance, help="allowed error relative to a result's largest magnitude")
    parser.add_argument("--atol", type=tolerance, help="allowed absolute error, in addition (default: 0)")
    parser.add_argument("--no-run", action="store_true", help="compile only; do not compare results")
    parser.add_argument("--verify", action="store_true", help="prove or refute each partitioned program for all inputs")
    parser.add_argument(
        "--max-increase",
        action="append",
        default=[],
        type=_limit,
        metavar="[FIGURE=]T",
        help="exit with 3 if a figure grows by more than T, such as 0.05 or 5%%",
    )
    parser.add_argument("--top", type=positive, default=10, metavar="N", help="entries in a list (default: 10)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Exit code: 0, or 3 if results differ or a figure exceeds --max-increase; errors are exceptions."""
    from gspmd.comparisons.increases import over_old, over_peers
    from gspmd.tables import fitted

    _check(args)
    passed = True
    increases: tuple[Increase, ...]
    if args.new is None:
        from gspmd.comparisons.opinions import opinion_lines

        opinion = _second_opinion(args)
        increases, passed = over_peers(opinion, dict(args.max_increase)), opinion.passed
        content, lines = opinion.to_dict(), opinion_lines(opinion, args.top)
    else:
        from gspmd.comparisons.versions import version_lines

        versions = _versions(args)
        increases = over_old(versions, dict(args.max_increase))
        content, lines = versions.to_dict(), version_lines(versions, args.top)
    if args.json:
        print(json.dumps({**content, "increases": [each.to_dict() for each in increases]}, indent=2))
    else:
        print("\n".join(fitted(lines)))
    for each in increases:
        tell(f"gspmd: limit exceeded: {each}")
    return EXIT_DONE if passed and not increases else EXIT_VERDICT


def _second_opinion(args: argparse.Namespace) -> Any:
    from gspmd.comparisons.second_opinion import compare
    from gspmd.reading import read_program_file
    from gspmd.transforms.parsing.mlir import new_context

    return compare(
        read_program_file(args.file, new_context()),
        **partition_options(args),
        strict=strictness(args),
        inputs=args.inputs,
        seed=args.seed or 0,
        rtol=args.rtol,
        atol=args.atol,
        run=not args.no_run,
        verify=args.verify,
        stage=stage,
    )


def _versions(args: argparse.Namespace) -> Any:
    from gspmd.comparisons.versions import compare_versions
    from gspmd.reading import read_program_file
    from gspmd.transforms.parsing.mlir import new_context

    old, new = (read_program_file(path, new_context()) for path in (args.file, args.new))
    return compare_versions(old, new, **partition_options(args), strict=strictness(args), stage=stage)


def _check(args: argparse.Namespace) -> None:
    """Raise UsageError for options that contradict each other."""
    if args.seed is not None and args.seed < 0:
        raise UsageError(f"--seed is {args.seed}, expected at least 0", code=Code.BAD_VALUE)
    if args.new is not None:
        for option in ("inputs", "seed", "rtol", "atol", "no-run", "verify"):
            if getattr(args, option.replace("-", "_")) not in (None, False):
                raise UsageError(
                    f"--{option} with two versions: they are not run",
                    hint=f"leave --{option} out, or use gspmd {'verify' if option == 'verify' else 'check'}",
                    code=Code.OPTIONS_DISAGREE,
                )
        if args.file == args.new == "-":
            raise UsageError("both versions are read from stdin", hint="name a file", code=Code.OPTIONS_DISAGREE)
    _check_once(name for name, _ in args.max_increase)


def _check_once(names: Iterable[str]) -> None:
    given: Sequence[str] = list(names)
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        what = f"of {twice} " if twice else ""
        raise UsageError(f"--max-increase {what}is given twice", hint="give it once", code=Code.OPTIONS_DISAGREE)


def _limit(text: str) -> tuple[str, float]:
    """An argparse type: a figure, or nothing for all of them, and the fraction by which it may grow."""
    figure, equals, part = text.rpartition("=")
    if equals and figure not in _FIGURES:
        raise argparse.ArgumentTypeError(f"{text!r} names no figure; choose one of {', '.join(_FIGURES)}")
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,9})?)(%?)", part)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a fraction such as 0.05 or 5%")
    number = float(match[1]) / (100 if match[2] else 1)
    if number > MAX_TOLERANCE:
        raise argparse.ArgumentTypeError(f"{text} is more than {MAX_TOLERANCE}")
    return figure, number
