"""The exit codes of all commands, in one table so that the same fault has the same code everywhere."""

from __future__ import annotations

import textwrap

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, ErrorKind

EXIT_DONE = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_VERDICT = 3
EXIT_INTERNAL = 70  # EX_SOFTWARE of sysexits.h
EXIT_TIMEOUT = 124  # as timeout(1)
EXIT_INTERRUPTED = 130

MEANINGS: dict[int, str] = {
    EXIT_DONE: "success: results agree, or the budget is met",
    EXIT_FAILURE: "error: the program was refused, or a file, device or compiler failed",
    EXIT_USAGE: "usage error: a wrong option, name or value",
    EXIT_VERDICT: "negative verdict: results differ (check, compare, demo, verify), or a limit is exceeded "
    "(compare, cost)",
    EXIT_INTERNAL: "internal error in gspmd",
    EXIT_TIMEOUT: "timed out (--timeout)",
    EXIT_INTERRUPTED: "interrupted by the keyboard",
}
"""The meaning of each exit code, in ascending order."""

_BY_KIND = {ErrorKind.USAGE: EXIT_USAGE, ErrorKind.INTERNAL: EXIT_INTERNAL}


def exit_code(error: Error) -> int:
    """The exit code for this error."""
    return EXIT_TIMEOUT if error.code is Code.TIMEOUT else _BY_KIND.get(error.kind, EXIT_FAILURE)


def exit_code_lines(width: int) -> list[str]:
    """The table as lines of help."""
    lines = ["exit codes:"]
    for code, meaning in MEANINGS.items():
        lines += textwrap.wrap(meaning, width, initial_indent=f"  {code:>3}  ", subsequent_indent=" " * 7)
    return lines
