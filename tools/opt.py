"""gspmd-opt: runs passes on a module and prints the result, as mlir-opt does."""

from __future__ import annotations

import argparse
import io
import re
import sys
import traceback
from collections.abc import Iterator, Sequence

from jaxlib.mlir import ir

from gspmd.dialect.errors import Error, InternalError, SourceLocation, UsageError
from gspmd.expected_diagnostics import mismatches, read_expectations
from gspmd.output import Output
from gspmd.pass_manager import PassManager
from gspmd.reading import parse_program, read_program_file
from gspmd.tools import supervision
from gspmd.tools.command import exit_code, run_command
from gspmd.tools.exit_codes import EXIT_FAILURE, EXIT_INTERNAL
from gspmd.tools.opt_arguments import PROGRAM, parse_arguments, pass_help, pass_manager
from gspmd.transforms.support import diagnostics
from gspmd.transforms.support.diagnostics import Diagnostic, Severity
from gspmd.transforms.support.mlir import new_context, read_source

_SPLIT_MARKER = re.compile(r"^[ \t]*// -----[ \t]*\r?$", re.MULTILINE)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0, 1 if a program is refused or unreadable, 2 for wrong usage, 70 for a defect of ours."""
    arguments = list(sys.argv[1:] if argv is None else argv)
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
        print(manager, file=sys.stderr)
    return _process(args, manager, output)


def _process(args: argparse.Namespace, manager: PassManager, output: Output) -> int:
    """Run the passes on every part of the input; write the results if all went well."""
    name = "<stdin>" if args.input == "-" else args.input
    outputs: list[bytes] = []
    status = 0
    for source in _parts(args, name):
        context = new_context(args.allow_unregistered_dialect)
        seen: list[Diagnostic] = []
        failure: Error | None = None
        try:
            with diagnostics.listening(seen.append, context):
                if source is None:
                    module = read_program_file(args.input, context)
                else:
                    module = parse_program(source, context, name)
            manager.run(module, on_diagnostic=seen.append)
            outputs.append(_print(module, args))
        except Error as error:
            failure = error
            if args.debug:
                traceback.print_exc()
            reported = any(d.severity is Severity.ERROR for d in seen)
            if not reported or (isinstance(error, InternalError) and diagnostics.of_error(error) not in seen):
                seen.append(diagnostics.of_error(error))
        status = max(status, _report(args, name, source, seen, failure))
    if status:
        return status
    if args.emit_bytecode and len(outputs) > 1:
        raise UsageError("--emit-bytecode with several parts of a split input", hint="write text, or split the file")
    output.write(b"// -----\n\n".join(outputs))
    return 0


def _parts(args: argparse.Namespace, name: str) -> Iterator[str | bytes | None]:
    """The texts to process, each on the lines that it has in the input; None stands for the input file as a whole."""
    if not args.split_input_file and not args.verify_diagnostics:
        yield None
        return
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


def _report(
    args: argparse.Namespace, name: str, source: str | bytes | None, seen: list[Diagnostic], failure: Error | None
) -> int:
    """Print what was said about one part, or compare it with what was expected; the exit code that follows."""
    status = exit_code(failure) if failure else 0
    if args.verify_diagnostics and status != EXIT_INTERNAL:
        expected = read_expectations(source, name) if isinstance(source, str) else []
        seen = mismatches(expected, seen, name)
        status = EXIT_FAILURE if seen else 0
    for diagnostic in seen:
        _print_diagnostic(diagnostic, name)
    return status


def _print_diagnostic(diagnostic: Diagnostic, name: str) -> None:
    where = diagnostic.location
    if where and where.file == "-":
        where = SourceLocation(name, where.line, where.column)
    message = " ".join(diagnostic.message.split())  # one line, also with a line break in a file's name
    print(f"{where or PROGRAM}: {diagnostic.severity.value}: {message}", file=sys.stderr)
    for note in diagnostic.notes:
        if not note.message.startswith("see current operation:"):
            _print_diagnostic(note, name)


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
