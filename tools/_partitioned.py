"""The input of a command: a partitioned module, or an annotated program to partition first."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.dialect.limits import MAX_COUNT, MAX_TOLERANCE
from gspmd.tools.command import ArgumentParser

if TYPE_CHECKING:
    from jaxlib.mlir import ir

    from gspmd.api import Partitioned


def add_platform_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--platform",
        default=os.environ.get("JAX_PLATFORMS", "").split(",")[0] or "cpu",
        help="where to run: cpu (with as many virtual devices as needed), or another JAX platform (default: "
        "$JAX_PLATFORMS, else cpu)",
    )


def add_partition_arguments(parser: ArgumentParser) -> None:
    """Add the options that are passed to `gspmd.partition`."""
    parser.add_argument("--num-partitions", type=positive, metavar="N", help="devices (default: the mesh's)")
    parser.add_argument(
        "--replicate-unsupported",
        action="store_true",
        help="run an unknown operation on gathered operands instead of refusing it",
    )
    parser.add_argument(
        "--custom-rule",
        action="append",
        default=[],
        metavar="TARGET=RULE",
        help="sharding rule of a custom call, such as 'my_target=([i, j])->([i, j])'; repeatable",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="pass option, such as combine-bytes=65536 or update-axes=x,y; repeatable (gspmd-opt --list-passes)",
    )


def add_choice_arguments(parser: ArgumentParser) -> None:
    """Add the options of `add_partition_arguments`, `--target` and `--strict`."""
    add_partition_arguments(parser)
    add_target_argument(parser)
    add_strict_argument(parser)


def add_target_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target", default="", metavar="NAME|FILE", help="hardware to optimize collectives for (docs/cost.md)"
    )


def add_strict_argument(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--strict",
        type=byte_count,
        metavar="BYTES",
        help="refuse programs with reshards that no annotation requires; --strict=64KiB allows those that send at "
        "most 64 KiB",
    )
    parser.implied_values["--strict"] = "0"


def positive(text: str) -> int:
    """An argparse type: a whole number of at least 1."""
    number = int(text)
    if not 1 <= number <= MAX_COUNT:
        why = "a positive number" if number < 1 else "a number of 64 bits"
        raise argparse.ArgumentTypeError(f"{number} is not {why}")
    return number


def byte_count(text: str) -> int:
    """An argparse type: a number of bytes, such as 4096, 64KiB or 1.5MiB."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?(B|KiB|MiB|GiB)?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes such as 4096 or 64KiB")
    if len(match[1]) > 18:
        raise argparse.ArgumentTypeError(f"{text} is more memory than any machine has")
    return round(float(match[1]) * {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[match[2] or "B"])


def tolerance(text: str) -> float:
    """An argparse type: a finite number of at least 0."""
    number = float(text)
    if not (math.isfinite(number) and number >= 0):
        raise argparse.ArgumentTypeError(f"{text} is not a finite number of at least 0")
    return number


def budget_tolerance(text: str) -> float:
    """An argparse type: the fraction by which a budget may be exceeded."""
    number = float(text)
    if not 0 <= number <= MAX_TOLERANCE:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 to {MAX_TOLERANCE}")
    return number


def source_of(file: str) -> Any:
    """The program that a command names, in a form that can be read twice: stdin and FIFOs are read into memory.

    Raises InputError if it cannot be read.
    """
    from gspmd.dialect.source_text import STDIN, keep, reading
    from gspmd.reading import ProgramFile

    if file == "-":
        return keep(STDIN, sys.stdin.buffer.read())
    if os.path.exists(file) and not os.path.isfile(file) and not os.path.isdir(file):
        with reading(file) as opened:
            return keep(STDIN, opened.read())
    return ProgramFile(file)


def partition(program: Any, args: argparse.Namespace) -> Partitioned:
    """Partition with the options of the command line. Raises the errors of `gspmd.partition`, and UsageError."""
    from gspmd import api  # only where it is needed

    verify = getattr(args, "verify", False)
    return api.partition(program, **partition_options(args), strict=strictness(args), verify=verify)


def strictness(args: argparse.Namespace) -> bool | int:
    """The argument `strict` of `gspmd.partition`: a limit of 0 bytes allows no reshard at all."""
    return False if args.strict is None else int(args.strict)


def partition_options(args: argparse.Namespace) -> dict[str, Any]:
    """The other arguments of `gspmd.partition`. Raises UsageError for a pair that is not NAME=VALUE."""
    from gspmd.transforms.ops.custom_rules import parse_custom_rules
    from gspmd.transforms.passes import parse_options
    from gspmd.transforms.pipeline import PIPELINE, pipeline_options

    return {
        "target": args.target,
        "options": parse_options(PIPELINE, pipeline_options(), named(args.option, "--option")),
        "num_partitions": args.num_partitions,
        "replicate_unsupported": args.replicate_unsupported,
        "custom_rules": parse_custom_rules(args.custom_rule),
    }


def named(texts: Iterable[str], flag: str) -> list[tuple[str, str]]:
    """The names and values given to `flag` as NAME=VALUE. Raises UsageError for any other text."""
    found = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{flag} {text}", hint="write it as NAME=VALUE", code=Code.BAD_VALUE)
        found.append((name, value))
    return found


def check_not_partitioned_yet(args: argparse.Namespace) -> None:
    """Raise UsageError for options that do not apply to a partitioned module."""
    given = {"--strict": args.strict is not None, "--option": bool(args.option)}
    for name in (name for name, is_given in given.items() if is_given):
        raise UsageError(
            f"{name} with a module that is already partitioned",
            hint="give the annotated program",
            code=Code.PARTITIONED_ALREADY,
        )


def partitioned(module: ir.Module, args: argparse.Namespace) -> tuple[Any, int]:
    """The partitioned module and its number of partitions; partitions the module if needed.

    Errors: those of partitioning; UsageError if it is partitioned for another number of devices.
    """
    from gspmd.runtime.executable_module import is_partitioned
    from gspmd.transforms.ir.signature import signature_of

    if is_partitioned(module):
        check_not_partitioned_yet(args)
        count = signature_of(module).num_partitions
        if args.num_partitions not in (None, count):
            raise UsageError(
                f"the module is partitioned for {count} devices, not {args.num_partitions}",
                hint="leave --num-partitions out",
                code=Code.PARTITIONED_ALREADY,
            )
        return module, count
    product = partition(module, args)
    return product, product.num_partitions
