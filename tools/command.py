"""What all command lines share: errors become messages and exit codes, and output files are complete or absent."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, InputError, InternalError, UsageError, reason_of
from gspmd.tools.diagnostics import print_error, print_note, print_traceback
from gspmd.tools.exit_codes import EXIT_DONE, EXIT_FAILURE, EXIT_INTERNAL, EXIT_INTERRUPTED, exit_code
from gspmd.tools.help_text import ParagraphHelp, exit_code_help
from gspmd.tools.presentation import discard

_LONGEST_S = 1e8  # three years: the longest wait that timers support
_COMPLAINTS = {
    "unrecognized arguments": Code.UNKNOWN_OPTION,
    "invalid": Code.BAD_VALUE,
    "argument ": Code.BAD_VALUE,
}
"""What argparse says of options, in English only."""


class ArgumentParser(argparse.ArgumentParser):
    """A parser that raises `UsageError`, so that its errors look like all others.

    `implied_values` are the values of flags that take a value only after `=`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": ParagraphHelp, **options})
        self.implied_values: dict[str, str] = {}

    def format_help(self) -> str:
        return f"{super().format_help()}\n{exit_code_help()}\n"

    def parse_arguments(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words. Raises UsageError."""
        implied = self.implied_values
        words = output_names_joined(words)
        return self.parse_args([f"{word}={implied[word]}" if word in implied else word for word in words])

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """The value of an option, even if it is `--`, which argparse always takes for the end of options."""
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        code = next((code for text, code in _COMPLAINTS.items() if text in message), None)
        raise UsageError(message, hint=f"see {self.prog} --help", code=code)


def output_names_joined(words: Sequence[str]) -> list[str]:
    """The words, with `-o` and a name that starts with a dash joined: `-o -x.mlir` becomes `-o-x.mlir`."""
    joined: list[str] = []
    options = True
    for word in words:
        if options and joined and joined[-1] == "-o" and word[:1] == "-" and word[:2] not in ("-", "--"):
            joined[-1] += word
        else:
            joined.append(word)
        options = options and word != "--"
    return joined


def add_timeout_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--timeout", type=seconds, metavar="SECONDS", help="stop after this time with exit code 124")


def seconds(text: str) -> float:
    """An argparse type: a time of more than 0 seconds."""
    number = float(text)
    if not 0 < number <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return number


def run_command(program: str, main: Callable[[], int], debug: bool) -> int:
    """Run `main`; turn any exception into a message on stderr and an exit code.

    A closed stdout is not a failure.
    """
    _open_standard_streams()
    try:
        status = main()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        discard(sys.stdout)
        return EXIT_DONE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Error as error:
        if debug:
            print_traceback()
        print_error(program, error)
        if isinstance(error, InternalError):
            _offer_reproducer(program, error, main)
        return exit_code(error)
    except OSError as error:
        reason = reason_of(error).lower()
        if error.filename is None:  # no file name: stdout, on a full disk
            discard(sys.stdout)
            print_error(program, InputError(f"cannot write to stdout: {reason}", code=Code.CANNOT_WRITE))
        else:
            print_error(program, InputError(f"cannot access '{os.fsdecode(error.filename)}': {reason}"))
        return EXIT_FAILURE
    except Exception as error:  # noqa: BLE001 - the user gets one line for any exception
        if debug:
            print_traceback()
        notes = " ".join(getattr(error, "__notes__", ()))
        what = " ".join(f"{type(error).__name__}: {error} {notes}".split())
        advice = "please report this" if debug else "run again with --debug for the traceback"
        print_error(program, InternalError(what, hint=advice))
        _offer_reproducer(program, error, main)
        return EXIT_INTERNAL


def _offer_reproducer(program: str, error: Exception, main: Callable[[], int]) -> None:
    """Print where the input of the failed pass is, if a pass failed."""
    from gspmd import reproducer

    path = reproducer.reproduce(error, main)
    if path is not None:
        print_note(program, f"the input of the failed pass, and the command to run it, are in {path}")


def version_text(program: str) -> str:
    """The versions of gspmd and jaxlib."""
    from importlib import metadata  # slow to import, and needed only here

    return f"{program} {metadata.version('gspmd')} (jaxlib {metadata.version('jaxlib')})\n"


def _open_standard_streams() -> None:
    """Open the null device for each of stdin, stdout and stderr that was closed (`>&-`).

    Otherwise the next file opened would get the number of the stream, and messages would overwrite its content.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:
            os.dup2(null, number)
            os.close(null)
        setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - open as long as the process
