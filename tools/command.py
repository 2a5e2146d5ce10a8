"""What all command lines share: exit codes, and one line for an error."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from gspmd.dialect.errors import Error, ErrorKind, InputError, UsageError

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130


class ArgumentParser(argparse.ArgumentParser):
    """A parser whose complaints are `UsageError`s, so that they look like all other errors.

    `implied_values` are those of flags that take a value after `=` only.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.implied_values: dict[str, str] = {}

    def parse_arguments(self, words: Sequence[str]) -> argparse.Namespace:
        """The words as options. Raises UsageError."""
        implied = self.implied_values
        return self.parse_args([f"{word}={implied[word]}" if word in implied else word for word in words])

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"see {self.prog} --help")


def run_command(program: str, main: Callable[[], int], debug: bool) -> int:
    """Run `main` and turn whatever it raises into one line on stderr and an exit code."""
    try:
        status = main()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _close_stdout()
        return EXIT_FAILURE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Error as error:
        if debug:
            traceback.print_exc()
        print_error(program, error)
        return exit_code(error)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.filename is None:  # a file that is open: stdout, on a full disk
            _close_stdout()
            print_error(program, InputError(f"cannot write to stdout: {reason}"))
        else:
            print_error(program, InputError(f"cannot access '{os.fsdecode(error.filename)}': {reason}"))
        return EXIT_FAILURE
    except Exception as error:  # noqa: BLE001 - whatever it is, the user gets one line
        if debug:
            traceback.print_exc()
        notes = " ".join(getattr(error, "__notes__", ()))
        what = " ".join(f"{type(error).__name__}: {error} {notes}".split())
        advice = "please report this" if debug else "run again with --debug for the traceback"
        print(f"{program}: internal error: {what}; {advice}", file=sys.stderr)
        return EXIT_INTERNAL


def version_text(program: str) -> str:
    """The versions of gspmd and of what it stands on."""
    from importlib import metadata  # not cheap, and needed only here

    return f"{program} {metadata.version('gspmd')} (jaxlib {metadata.version('jaxlib')})\n"


def exit_code(error: Error) -> int:
    return {ErrorKind.USAGE: EXIT_USAGE, ErrorKind.INTERNAL: EXIT_INTERNAL}.get(error.kind, EXIT_FAILURE)


def print_error(program: str, error: Error) -> None:
    """One line an error, with the program's name where the place is unknown."""
    for told in (error, *error.others):
        text = " ".join(str(told).split())
        print(text if told.location else program + text.removeprefix("gspmd"), file=sys.stderr)


def _close_stdout() -> None:
    """Keep the interpreter from complaining, at exit, about output that nobody reads."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
