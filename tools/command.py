"""What all command lines share: errors become messages and exit codes, and output is whole or not there."""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, InputError, UsageError
from gspmd.tools.diagnostics import print_error, print_internal_error
from gspmd.tools.exit_codes import EXIT_DONE, EXIT_FAILURE, EXIT_INTERNAL, EXIT_INTERRUPTED, exit_code
from gspmd.tools.help_text import ParagraphHelp, exit_code_help

_COMPLAINTS = {
    "unrecognized arguments": Code.UNKNOWN_OPTION,
    "invalid": Code.BAD_VALUE,
    "argument ": Code.BAD_VALUE,
}
"""What argparse says of options, in English only."""


class ArgumentParser(argparse.ArgumentParser):
    """A parser whose complaints are `UsageError`s, so that they look like all other errors.

    `implied_values` are those of flags that take a value after `=` only.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": ParagraphHelp, **options})
        self.implied_values: dict[str, str] = {}

    def format_help(self) -> str:
        return f"{super().format_help()}\n{exit_code_help()}\n"

    def parse_arguments(self, words: Sequence[str]) -> argparse.Namespace:
        """The words as options. Raises UsageError."""
        implied = self.implied_values
        return self.parse_args([f"{word}={implied[word]}" if word in implied else word for word in words])

    def error(self, message: str) -> NoReturn:
        code = next((code for text, code in _COMPLAINTS.items() if text in message), None)
        raise UsageError(message, hint=f"see {self.prog} --help", code=code)


def run_command(program: str, main: Callable[[], int], debug: bool) -> int:
    """Run `main` and turn whatever it raises into what stderr says of it, and an exit code.

    A reader of stdout that leaves early, or never was there, is no failure.
    """
    _open_standard_streams()
    try:
        status = main()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _close_stdout()
        return EXIT_DONE
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
            print_error(program, InputError(f"cannot write to stdout: {reason}", code=Code.CANNOT_WRITE))
        else:
            print_error(program, InputError(f"cannot access '{os.fsdecode(error.filename)}': {reason}"))
        return EXIT_FAILURE
    except Exception as error:  # noqa: BLE001 - whatever it is, the user gets one line
        if debug:
            traceback.print_exc()
        notes = " ".join(getattr(error, "__notes__", ()))
        what = " ".join(f"{type(error).__name__}: {error} {notes}".split())
        print_internal_error(
            program, what, "please report this" if debug else "run again with --debug for the traceback"
        )
        return EXIT_INTERNAL


def version_text(program: str) -> str:
    """The versions of gspmd and of what it stands on."""
    from importlib import metadata  # not cheap, and needed only here

    return f"{program} {metadata.version('gspmd')} (jaxlib {metadata.version('jaxlib')})\n"


def write_output(path: str, data: bytes) -> None:
    """Write to stdout for `-`, else to a file, which is replaced as a whole or left alone. Raises InputError."""
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        target = os.path.realpath(path)
        if os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode):
            with open(target, "wb") as device:  # /dev/null, a pipe: nothing to replace; a directory: the error we want
                device.write(data)
        else:
            _replace(target, data)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(
            f"cannot write '{path}': {reason.lower()}", hint="choose another -o", code=Code.CANNOT_WRITE
        ) from None


def _replace(target: str, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target) or ".", prefix=".gspmd-")
    try:
        with open(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _mode(target: str) -> int:
    """The permissions of a file that is there, else those a new file gets."""
    if os.path.exists(target):
        if not os.access(target, os.W_OK):
            raise PermissionError(13, "Permission denied")
        return stat.S_IMODE(os.stat(target).st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _open_standard_streams() -> None:
    """Give a command that was started without stdin, stdout or stderr (`>&-`) the null device in its place.

    Otherwise the next file that is opened would take the number of the stream, and its content would be overwritten.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:
            os.dup2(null, number)
            os.close(null)
        setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - open as long as the process


def _close_stdout() -> None:
    """Keep the interpreter from complaining, at exit, about output that nobody reads."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
