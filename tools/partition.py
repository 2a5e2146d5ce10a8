"""gspmd partition: turn an annotated program into the per-device program."""

from __future__ import annotations

import argparse
import io

from gspmd.tools._partitioned import add_choice_arguments, partition
from gspmd.tools._stages import stage
from gspmd.tools.command import ArgumentParser
from gspmd.tools.presentation import tell

NAME = "partition"
SUMMARY = "partition an annotated program and write the per-device module"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="MLIR text or bytecode, HLO text or proto; - for stdin")
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="where to write it (default: stdout)")
    parser.add_argument("--emit-bytecode", action="store_true", help="write MLIR bytecode instead of text")
    parser.add_argument("--report", action="store_true", help="print shardings and collectives on stderr")
    parser.add_argument(
        "--verify", action="store_true", help="refuse a result that is not proved correct (gspmd verify)"
    )
    add_choice_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Exit code 0; errors are exceptions."""
    from gspmd import text_report
    from gspmd.output import Output
    from gspmd.reading import ProgramFile

    output = Output(args.output, stdout=True)
    with stage("partitioning"):
        product = partition(ProgramFile(args.file), args)
    data = product.module_text.encode()
    if args.emit_bytecode:
        buffer = io.BytesIO()
        product.module.operation.write_bytecode(buffer)
        data = buffer.getvalue()
    output.write(data)
    if args.report:
        tell("\n".join(text_report.program_lines(product.signature, product.collectives)))
    return 0
