"""gspmd: one command with subcommands, each in a file of this folder.

A subcommand is a module with `NAME`, `SUMMARY`, `add_arguments(parser)` and `run(args) -> int`; its file is named as
the command, with `_` for `-`. It is imported only when it is run, so that no command pays for the imports of another.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from gspmd import tools
from gspmd.dialect.diagnostic import telling
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.tools import presentation, supervision
from gspmd.tools.command import ArgumentParser, add_timeout_argument, run_command, version_text
from gspmd.tools.diagnostics import print_diagnostic
from gspmd.tools.exit_codes import EXIT_USAGE
from gspmd.tools.help_text import described, exit_code_help, help_width
from gspmd.tools.presentation import chosen, current, use

PROGRAM = "gspmd"
_NOT_COMMANDS = {
    "cli",
    "command",
    "diagnostics",
    "entry",
    "exit_codes",
    "help_text",
    "opt",
    "opt_arguments",
    "opt_diagnostics",
    "pass_help",
    "pass_table",
    "presentation",
    "source_lines",
    "supervision",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: see `exit_codes`."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    use(chosen(arguments))
    with telling(functools.partial(print_diagnostic, PROGRAM)):
        return run_command(PROGRAM, lambda: _run(arguments), "--debug" in arguments)


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_help(), file=sys.stdout if argv else sys.stderr)
        return 0 if argv else EXIT_USAGE
    if argv[0] == "--version":
        print(version_text(PROGRAM), end="")
        return 0
    command = _load(argv[0])
    parser = ArgumentParser(prog=f"{PROGRAM} {command.NAME}", description=command.SUMMARY, allow_abbrev=False)
    use(chosen(argv[1:], not _prints_json(command)))
    supervision.shows(current().form)
    add_all_arguments(parser, command)
    args = parser.parse_arguments(argv[1:])
    if args.timeout:
        supervision.limit(args.timeout)
    status: int = command.run(args)
    return status


def commands() -> list[Any]:
    """The modules of all commands."""
    return [_load(name) for name in _command_modules()]


def add_all_arguments(parser: ArgumentParser, command: Any) -> None:
    """Add the arguments of a command and those common to all commands."""
    command.add_arguments(parser)
    presentation.add_arguments(parser, json_is_free=not _prints_json(command))
    add_timeout_argument(parser)


def _prints_json(command: Any) -> bool:
    """Whether `--json` selects the output of the command rather than the form of errors."""
    return getattr(command, "PRINTS_JSON", False)


def _command_modules() -> list[str]:
    names = (module.name for module in pkgutil.iter_modules(tools.__path__))
    return sorted(name for name in names if name not in _NOT_COMMANDS and not name.startswith("_"))


def _load(name: str) -> Any:
    """The module of a subcommand. Raises UsageError with similar names if there is none."""
    modules = _command_modules()
    if name.replace("-", "_") in modules:
        return importlib.import_module(f"{tools.__name__}.{name.replace('-', '_')}")
    commands = [module.replace("_", "-") for module in modules]
    near = difflib.get_close_matches(name, commands, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"see {PROGRAM} --help"
    raise UsageError(f"unknown command '{name}'", hint=hint, code=Code.UNKNOWN_OPTION)


def _help() -> str:
    width = help_width()
    lines = textwrap.wrap(f"usage: {PROGRAM} <command> [options]", width)
    about = "Partitions single-device StableHLO programs into SPMD programs."
    lines += ["", *textwrap.wrap(about, width), "", "commands:"]
    for command in commands():
        lines += described(command.NAME, command.SUMMARY)
    lines += ["", "options:", *described("-h, --help", "print this help, or that of a command")]
    lines += described("--version", "print the versions of gspmd and jaxlib")
    more = f"See {PROGRAM} <command> --help for details; gspmd-opt runs single passes."
    return "\n".join([*lines, "", exit_code_help(), "", *textwrap.wrap(more, width)])


if __name__ == "__main__":
    from gspmd.tools import entry

    entry.gspmd()
