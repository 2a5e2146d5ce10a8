"""gspmd show: a value's shards on the devices, drawn in the terminal."""

from __future__ import annotations

import argparse
from typing import Any

from gspmd.tools._partitioned import add_partition_arguments, partition_options, source_of
from gspmd.tools._stages import stage
from gspmd.tools.command import ArgumentParser

NAME = "show"
SUMMARY = "draw which device holds which part of a value"
_EPILOG = """\
Values are named as for gspmd explain: as in FILE (%12), as in the framework (state['params']['w']), or by source line
(main.py:80). Without --value, the command lists the values that it can draw. Numbers in the picture are devices; the
ranges at the sides are the elements of their shards.
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="an annotated program; - for stdin")
    parser.add_argument("--value", action="append", default=[], metavar="V", help="draw a value; repeatable")
    add_partition_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Exit code 0; errors are exceptions."""
    from gspmd.explanations import explanation
    from gspmd.pictures.terminal import WIDTH, picture_text
    from gspmd.tables import fitted, is_colored, table, text_width

    with stage("completing shardings"):
        options = partition_options(argparse.Namespace(**vars(args), target=""))
        found = explanation.explain(source_of(args.file), **options)
        selected = [value for name in args.value for value in found.find(name)]
    if not args.value:
        rows = [(value.name, value.type, value.sharding, _place(value)) for value in found.values]
        print("\n".join(fitted(table([("value", "type", "sharding", "at"), *rows]))))
        return 0
    colored, width = is_colored(), text_width() or WIDTH
    blocks = []
    for value in selected:
        local = "x".join(map(str, value.local_shape)) or "scalar"
        label = f" {value.label}" if value.label else ""
        head = fitted([f"{value.name}{label} {value.type} {value.sharding}, {local} on each device"])
        blocks.append("\n".join([*head, picture_text(value.shape, value.placement, width, colored)]))
    print("\n\n".join(blocks))
    return 0


def _place(value: Any) -> str:
    """The framework's name of the value, or the source line of its producer."""
    if value.label or value.location is None:
        return str(value.label)
    return str(value.location.brief)
