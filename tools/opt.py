"""gspmd-opt: runs passes on a module and prints the result, as mlir-opt does."""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import Iterator, Sequence

from jaxlib.mlir import ir

from gspmd.dialect.errors import Error, SourceLocation, UsageError
from gspmd.expected_diagnostics import mismatches, read_expectations
from gspmd.native_passes import COMMON_PASSES
from gspmd.pass_manager import IrPrinting, PassManager
from gspmd.tools.command import (
    EXIT_FAILURE,
    EXIT_INTERNAL,
    ArgumentParser,
    exit_code,
    print_error,
    run_command,
    write_output,
)
from gspmd.transforms.pipeline import PASSES, PIPELINE, pipeline_options
from gspmd.transforms.support import diagnostics
from gspmd.transforms.support.diagnostics import Diagnostic, Severity
from gspmd.transforms.support.mlir import new_context, parse_module, read_module, read_source
from gspmd.transforms.support.passes import Option, options_of, unknown_pass

PROGRAM = "gspmd-opt"
_SPLIT_MARKER = re.compile(r"^[ \t]*// -----[ \t]*\r?$", re.MULTILINE)
_RUN_PASS = "--run-pass"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0, 1 if a program is refused or unreadable, 2 for wrong usage, 70 for a defect of ours."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_command(PROGRAM, lambda: _run(arguments), "--debug" in arguments)


def _run(argv: list[str]) -> int:
    parser = _parser()
    args = parser.parse_args(_name_passes(argv, parser))
    if args.list_passes:
        print(_pass_help())
        return 0
    manager = _pass_manager(args)
    if args.dump_pass_pipeline:
        print(manager, file=sys.stderr)
    return _process(args, manager)


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [options] [--<pass>[=<option>=<value> ...] ...] [input]",
        description="Runs passes, in the order given, on a module of MLIR text or bytecode, and prints the result.",
        epilog=_pass_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("input", nargs="?", default="-", help="a file of MLIR text or bytecode; - is stdin, the default")
    add("-o", dest="output", metavar="FILE", default="-", help="where to write; nothing is written after an error")
    add("--pass-pipeline", metavar="TEXT", help="the passes as text: builtin.module(pass{option=value},func.func(pass))")
    add(_RUN_PASS, dest="passes", action="append", default=[], help=argparse.SUPPRESS)
    add("--split-input-file", action="store_true", help="process the parts between '// -----' lines one by one")
    add("--verify-diagnostics", action="store_true", help="check the 'expected-error {{...}}' comments of the input")
    add("--verify-each", choices=["true", "false"], default="true", help="verify the module after each pass")
    add("--allow-unregistered-dialect", action="store_true", help="accept operations of unknown dialects")
    add("--emit-bytecode", action="store_true", help="write MLIR bytecode")
    add("--mlir-print-debuginfo", action="store_true", help="print locations")
    add("--mlir-print-op-generic", action="store_true", help="print operations in generic form")
    add("--mlir-print-local-scope", action="store_true", help="print attributes and locations in place, no aliases")
    add("--mlir-elide-elementsattrs-if-larger", type=int, metavar="N", help="elide constants of more elements")
    add("--mlir-print-ir-before", type=_names, default=(), metavar="PASS,...", help="print the module before a pass")
    add("--mlir-print-ir-after", type=_names, default=(), metavar="PASS,...", help="print the module after a pass")
    add("--mlir-print-ir-before-all", action="store_true", help="print before every pass")
    add("--mlir-print-ir-after-all", action="store_true", help="print after every pass")
    add("--mlir-print-ir-after-change", action="store_true", help="print after a pass that changed something")
    add("--mlir-print-ir-after-failure", action="store_true", help="print after a pass that failed")
    add("--mlir-print-ir-module-scope", action="store_true", help="print the whole module, also around nested passes")
    add("--mlir-timing", action="store_true", help="report the time of every pass")
    add("--dump-pass-pipeline", action="store_true", help="print the passes as text to stderr")
    add("--list-passes", action="store_true", help="print the passes and their options")
    add("--debug", action="store_true", help="print the traceback of an error")
    add("--version", action=_Version, nargs=0, help="print the versions of gspmd and jaxlib")
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *rest: object) -> None:
        import importlib.metadata as metadata  # not needed, and not cheap, otherwise

        parser.exit(0, f"{PROGRAM} {metadata.version('gspmd')} (jaxlib {metadata.version('jaxlib')})\n")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _name_passes(argv: list[str], parser: argparse.ArgumentParser) -> list[str]:
    """Write every flag that is no option of the parser, such as `--cse`, as `--run-pass=cse`, keeping the order."""
    takes_value = {
        flag: action.nargs != 0
        for action in parser._actions  # argparse has no public way to ask
        for flag in action.option_strings
    }
    named, rest = [], iter(argv)
    for word in rest:
        if word == "--":
            return [*named, word, *rest]
        flag, _, value = word.partition("=")
        if not flag.startswith("-") or flag == "-":
            named.append(word)
            continue
        if flag not in takes_value and f"-{flag}" in takes_value:
            flag, word = f"-{flag}", f"-{word}"  # one dash will do, as for LLVM's tools
        if flag not in takes_value:
            named.append(f"{_RUN_PASS}={flag}{{{value}}}" if value else f"{_RUN_PASS}={flag}")
            continue
        named.append(word)
        if takes_value[flag] and "=" not in word:
            named += [following for following in [next(rest, None)] if following is not None]
    return named


def _pass_manager(args: argparse.Namespace) -> PassManager:
    printing = IrPrinting(
        before=args.mlir_print_ir_before,
        after=args.mlir_print_ir_after,
        before_all=args.mlir_print_ir_before_all,
        after_all=args.mlir_print_ir_after_all,
        after_change=args.mlir_print_ir_after_change,
        after_failure=args.mlir_print_ir_after_failure,
        module_scope=args.mlir_print_ir_module_scope,
        debug_info=args.mlir_print_debuginfo,
        generic=args.mlir_print_op_generic,
        max_elements=args.mlir_elide_elementsattrs_if_larger,
    )
    manager = PassManager(verify_each=args.verify_each == "true", timing=args.mlir_timing, printing=printing)
    if args.pass_pipeline is not None:
        if args.passes:
            raise UsageError("--pass-pipeline and passes as flags are both given", hint="give one of them")
        manager.add(args.pass_pipeline)
    for flag in args.passes:
        _add_flag(manager, flag)
    return manager


def _add_flag(manager: PassManager, flag: str) -> None:
    """Add the pass of a flag such as `--cse` or `--gspmd-propagate{max-rounds=8}`."""
    text = flag.lstrip("-")
    try:
        manager.add(text)
    except UsageError as error:
        name = text.partition("{")[0]
        if not error.message.startswith(f"unknown pass '{name}'") and re.fullmatch(r"[\w-]+", name):
            raise
        options = {word.lstrip("-") for action in _parser()._actions for word in action.option_strings}
        near = unknown_pass(name, {*options, *COMMON_PASSES, *(p.argument for p in PASSES), PIPELINE})
        raise UsageError(f"unknown option or pass '{flag.partition('{')[0]}'", hint=near.hint) from None


def _process(args: argparse.Namespace, manager: PassManager) -> int:
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
                module = read_module(args.input, context) if source is None else parse_module(source, context, name)
            manager.run(module, on_diagnostic=seen.append)
            outputs.append(_print(module, args))
        except Error as error:
            failure = error
            if not any(d.severity is Severity.ERROR for d in seen):
                seen.append(diagnostics.of_error(error))
        status = max(status, _report(args, name, source, seen, failure))
    if status:
        return status
    if args.emit_bytecode and len(outputs) > 1:
        raise UsageError("--emit-bytecode with several parts of a split input", hint="write text, or split the file")
    write_output(args.output, b"// -----\n\n".join(outputs))
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
    print(f"{where or PROGRAM}: {diagnostic.severity.value}: {diagnostic.message}", file=sys.stderr)
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


def _pass_help() -> str:
    """Every pass of ours with its options, and the common ones of MLIR."""
    lines = ["passes of gspmd:"]
    for declaration in PASSES:
        lines += [f"  --{declaration.argument:<20} {declaration.summary}"]
        lines += [_option_help(option) for option in options_of(declaration)]
    lines += [f"  --{PIPELINE:<20} all of the above, in this order; takes the options of all"]
    lines += ["", "passes of MLIR (these, and all others that jaxlib registers, with their options):"]
    lines += [f"  --{name}" for name in COMMON_PASSES]
    return "\n".join(lines)


def _option_help(option: Option) -> str:
    default = option.print(option.default)
    return f"      {option.name}=<{option.type_name}>  {option.help} (default: {default})"


if __name__ == "__main__":
    sys.exit(main())
