"""gspmd-opt: runs passes on a module and prints the result, as mlir-opt does."""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, UsageError
from gspmd.output import Output
from gspmd.tools import supervision
from gspmd.tools._stages import stage
from gspmd.tools.command import run_command
from gspmd.tools.opt_arguments import PROGRAM, parse_arguments, pass_manager
from gspmd.tools.pass_help import pass_help
from gspmd.tools.presentation import chosen, current, tell, use

if TYPE_CHECKING:
    from jaxlib.mlir import ir

    from gspmd.pass_manager import PassManager

_SPLIT_MARKER = re.compile(r"^[ \t]*// -----[ \t]*\r?$", re.MULTILINE)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: see `exit_codes`."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    use(chosen(arguments, json_is_free=True))
    supervision.shows(current().form)
    return run_command(PROGRAM, lambda: _run(arguments), "--debug" in arguments)


def _run(argv: list[str]) -> int:
    args = parse_arguments(argv)
    if args.list_passes:
        print(pass_help())
        return 0
    if args.timeout:
        supervision.limit(args.timeout)
    manager = pass_manager(args)
    output = Output(args.output, stdout=True)
    if args.dump_pass_pipeline:
        tell(str(manager))
    return _process(args, manager, output)


def _process(args: argparse.Namespace, manager: PassManager, output: Output) -> int:
    """Run the passes on every part of the input; write the results.

    If a part is refused, the results of the others are still printed, as by `mlir-opt`, but no file is written.
    """
    from gspmd.reading import parse_program, read_program_file
    from gspmd.tools.diagnostics import print_traceback
    from gspmd.tools.opt_diagnostics import DiagnosticLog
    from gspmd.transforms.parsing import diagnostics
    from gspmd.transforms.parsing.mlir import new_context

    name = "<stdin>" if args.input == "-" else args.input
    outputs: list[bytes] = []
    status = 0
    for source in _parts(args, name):
        context = new_context(args.allow_unregistered_dialect)
        heard = DiagnosticLog()
        try:
            with (
                stage("reading from the terminal; end with Ctrl-D" if _is_typed(args.input) else "reading"),
                diagnostics.listening(heard.read, context),
            ):
                if source is None:
                    module = read_program_file(args.input, context)
                else:
                    module = parse_program(source, context, name)
            with stage("passes"):
                manager.run(module, on_diagnostic=heard.run)
            outputs.append(_print(module, args))
        except Error as error:
            if args.debug:
                print_traceback()
            heard.fail(error)
        status = max(status, heard.report(args, name, source))
    if status and not (outputs and output.is_stdout):
        return status
    if args.emit_bytecode and len(outputs) > 1:
        raise UsageError(
            "--emit-bytecode with several parts of a split input",
            hint="write text, or split the file",
            code=Code.OPTIONS_DISAGREE,
        )
    output.write(b"// -----\n\n".join(outputs))
    return status


def _is_typed(path: str) -> bool:
    return path == "-" and sys.stdin.isatty()


def _parts(args: argparse.Namespace, name: str) -> Iterator[str | bytes | None]:
    """The parts to process, each on its lines of the input; None stands for the whole input file."""
    if not args.split_input_file and not args.verify_diagnostics:
        yield None
        return
    from gspmd.transforms.parsing.mlir import read_source

    source, _ = read_source(args.input)
    try:
        text = source.decode()
    except UnicodeDecodeError:
        yield source
        return
    start = 0
    for marker in _SPLIT_MARKER.finditer(text) if args.split_input_file else ():
        yield "\n" * text.count("\n", 0, start) + text[start : marker.start()]
        start = marker.end()
    yield "\n" * text.count("\n", 0, start) + text[start:]


def _print(module: ir.Module, args: argparse.Namespace) -> bytes:
    buffer = io.BytesIO()
    if args.emit_bytecode:
        module.operation.write_bytecode(buffer)
    else:
        module.operation.print(
            file=buffer,
            binary=True,
            enable_debug_info=args.mlir_print_debuginfo,
            print_generic_op_form=args.mlir_print_op_generic,
            use_local_scope=args.mlir_print_local_scope,
            large_elements_limit=args.mlir_elide_elementsattrs_if_larger,
        )
    return buffer.getvalue()


if __name__ == "__main__":
    from gspmd.tools import entry

    entry.gspmd_opt()
