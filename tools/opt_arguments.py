"""The command line of gspmd-opt: its options, and its flags that name passes."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.dialect.limits import count_of
from gspmd.tools import presentation
from gspmd.tools.command import ArgumentParser, add_timeout_argument, output_names_joined, version_text
from gspmd.tools.help_text import ParagraphHelp
from gspmd.tools.pass_help import pass_help
from gspmd.tools.pass_table import COMMON_PASSES, PASSES, PIPELINE

if TYPE_CHECKING:
    from gspmd.pass_manager import PassManager

PROGRAM = "gspmd-opt"
_RUN_PASS = "--run-pass"


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the options; `passes` lists the passes given as flags, in order. Raises UsageError."""
    parser = new_parser()
    return parser.parse_args(output_names_joined(_name_passes(argv, _flags(parser))))


def pass_manager(args: argparse.Namespace) -> PassManager:
    """The pass manager for these options. Raises UsageError."""
    from gspmd.pass_manager import PassManager
    from gspmd.pass_manager.ir_printing import IrPrinting

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
        if not args.pass_pipeline.strip():
            raise UsageError(
                "--pass-pipeline is empty", hint="write it as builtin.module(gspmd-partition)", code=Code.PIPELINE_TEXT
            )
        if args.passes:
            raise UsageError(
                "--pass-pipeline and passes as flags are both given",
                hint="give one of them",
                code=Code.OPTIONS_DISAGREE,
            )
        manager.add(args.pass_pipeline)
    for flag in args.passes:
        _add_flag(manager, flag)
    return manager


def _add_flag(manager: PassManager, flag: str) -> None:
    """Add the pass of a flag such as `--cse` or `--gspmd-propagate{max-rounds=8}`."""
    text = flag.lstrip("-")
    name = text.partition("{")[0]
    try:
        manager.add(text)
    except UsageError as error:
        if error.message != f"unknown pass '{name}'" and re.fullmatch(r"[\w-]+", name):
            raise
        from gspmd.transforms.passes import unknown_pass

        passes = (*COMMON_PASSES, *(name for name, *_ in PASSES), PIPELINE)
        near = unknown_pass(f"--{name}", [*_flags(new_parser()), *(f"--{p}" for p in passes)], f"see {PROGRAM} --help")
        raise UsageError(
            f"unknown option or pass '{flag.partition('{')[0]}'", hint=near.hint, code=Code.UNKNOWN_OPTION
        ) from None


def new_parser() -> ArgumentParser:
    """The options, without the flags that name passes."""
    parser = ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [options] [--<pass>[=<option>=<value> ...] ...] [input]",
        description="Runs passes, in the order given, on a module of MLIR text or bytecode, and prints the result.",
        epilog=pass_help(),
        formatter_class=PassHelp,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("input", nargs="?", default="-", help="a file of MLIR text or bytecode; - for stdin, the default")
    add("-o", dest="output", metavar="FILE", default="-", help="where to write; nothing is written after an error")
    add("--pass-pipeline", metavar="TEXT", help="the pipeline as text: builtin.module(pass{option=value},cse)")
    add(_RUN_PASS, dest="passes", action="append", default=[], help=argparse.SUPPRESS)
    add("--split-input-file", action="store_true", help="process each part between '// -----' lines separately")
    add("--verify-diagnostics", action="store_true", help="check the 'expected-error {{...}}' comments of the input")
    add("--verify-each", choices=["true", "false"], default="true", help="verify the module after each pass")
    add("--allow-unregistered-dialect", action="store_true", help="accept operations of unknown dialects")
    add("--emit-bytecode", action="store_true", help="write MLIR bytecode")
    add("--mlir-print-debuginfo", action="store_true", help="print locations")
    add("--mlir-print-op-generic", action="store_true", help="print operations in generic form")
    add("--mlir-print-local-scope", action="store_true", help="print attributes and locations inline, without aliases")
    add(
        "--mlir-elide-elementsattrs-if-larger",
        type=_count,
        metavar="N",
        help="elide constants with more elements than this",
    )
    add("--mlir-print-ir-before", type=_names, default=(), metavar="PASS,...", help="print the module before a pass")
    add("--mlir-print-ir-after", type=_names, default=(), metavar="PASS,...", help="print the module after a pass")
    add("--mlir-print-ir-before-all", action="store_true", help="print before every pass")
    add("--mlir-print-ir-after-all", action="store_true", help="print after every pass")
    add("--mlir-print-ir-after-change", action="store_true", help="print after a pass that changed something")
    add("--mlir-print-ir-after-failure", action="store_true", help="print after a pass that failed")
    add("--mlir-print-ir-module-scope", action="store_true", help="print the whole module around nested passes, too")
    add("--mlir-timing", action="store_true", help="report the time of every pass")
    add("--dump-pass-pipeline", action="store_true", help="print the pipeline as text to stderr")
    add("--list-passes", action="store_true", help="print the passes and their options")
    presentation.add_arguments(parser, json_is_free=True)
    add_timeout_argument(parser)
    add("--version", action=_Version, nargs=0, help="print the versions of gspmd and jaxlib")
    return parser


class PassHelp(ParagraphHelp):
    """Help whose epilog, the list of passes, is already wrapped."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("passes of gspmd:") else super()._fill_text(text, width, indent)


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        parser.exit(0, version_text(PROGRAM))


def _count(text: str) -> int:
    """An argparse type: a whole number of at least 0."""
    number = count_of(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a number of at least 0")
    return number


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _flags(parser: argparse.ArgumentParser) -> dict[str, bool]:
    """The flags that the parser knows, and whether a value follows them."""
    actions = parser._actions  # argparse has no public way to ask
    return {flag: action.nargs != 0 for action in actions for flag in action.option_strings}


def _name_passes(argv: list[str], takes_value: dict[str, bool]) -> list[str]:
    """Rewrite each flag that the parser does not know, such as `--cse`, as `--run-pass=cse`, keeping the order."""
    named: list[str] = []
    rest = iter(argv)
    for word in rest:
        if word == "--":
            return [*named, word, *rest]
        flag, _, value = word.partition("=")
        if not flag.startswith("-") or flag == "-":
            named.append(word)
            continue
        if flag not in takes_value and f"-{flag}" in takes_value:
            flag, word = f"-{flag}", f"-{word}"  # one dash is accepted, as by LLVM's tools
        if flag not in takes_value:
            named.append(f"{_RUN_PASS}={flag}{{{value}}}" if value else f"{_RUN_PASS}={flag}")
            continue
        named.append(word)
        if takes_value[flag] and "=" not in word:
            named += [following for following in [next(rest, None)] if following is not None]
    return named
