"""gspmd completion: print a script with which a shell completes commands, options, values and files."""

from __future__ import annotations

import argparse

from gspmd.dialect.errors import UsageError
from gspmd.tools.command import ArgumentParser

NAME = "completion"
SUMMARY = "print the script that makes bash, zsh or fish complete commands and options"
_EPILOG = """\
To enable completion for new shells (use --for gspmd-opt for gspmd-opt):

  bash: gspmd completion bash > ~/.local/share/bash-completion/completions/gspmd
  zsh:  gspmd completion zsh > DIR/_gspmd, where DIR is in $fpath
  fish: gspmd completion fish > ~/.config/fish/completions/gspmd.fish

For the current bash: eval "$(gspmd completion bash)".
"""
_PROGRAMS = ("gspmd", "gspmd-opt")
_FILES = ("FILE", ".npz", "ORIGINAL")  # a metavar with one of these is a file


def add_arguments(parser: ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], help="the shell")
    parser.add_argument(
        "--for",
        dest="program",
        choices=_PROGRAMS,
        default=_PROGRAMS[0],
        help="the program to complete (default: gspmd)",
    )


def run(args: argparse.Namespace) -> int:
    """Exit code 0; errors are exceptions."""
    try:
        import shtab
    except ImportError:
        raise UsageError("completion needs the package 'shtab'", hint="pip install shtab") from None

    parser = _gspmd() if args.program == "gspmd" else _gspmd_opt()
    print(shtab.complete(parser, shell=args.shell))
    return 0


def _gspmd() -> argparse.ArgumentParser:
    """All commands in one parser; running gspmd never builds it."""
    from gspmd.tools import cli

    parser = ArgumentParser(prog="gspmd", allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="print the versions of gspmd and jaxlib")
    commands = parser.add_subparsers()
    for command in cli.commands():
        inner = commands.add_parser(command.NAME, help=command.SUMMARY, allow_abbrev=False)
        cli.add_all_arguments(inner, command)
        _complete_files(inner)
    return parser


def _gspmd_opt() -> argparse.ArgumentParser:
    from gspmd.tools.opt_arguments import new_parser
    from gspmd.tools.pass_table import COMMON_PASSES, PASSES, PIPELINE

    parser = new_parser()
    passes = [(name, summary) for name, summary, *_ in PASSES]
    passes += [(PIPELINE, "the passes above, in order"), *((name, "a pass of MLIR") for name in COMMON_PASSES)]
    for name, summary in passes:
        parser.add_argument(f"--{name}", action="store_true", help=summary)
    _complete_files(parser)
    return parser


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Complete file names for file arguments, and error codes for `explain-error`."""
    import shtab

    from gspmd.dialect.error_codes import Code

    for action in parser._actions:  # argparse has no public way to ask
        name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        if name == "CODE":
            action.choices = list(map(str, Code))
        elif action.nargs != 0 and action.choices is None and (action.dest == "input" or _is_file(name)):
            action.complete = shtab.FILE  # type: ignore[attr-defined]


def _is_file(metavar: str) -> bool:
    return any(part in metavar for part in _FILES)
