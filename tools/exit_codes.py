"""The exit codes of all commands: one table, so that the same fault gives the same code everywhere."""

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
    EXIT_DONE: "done; results agree, or the budget is kept",
    EXIT_FAILURE: "an error: the program is refused, or a file, device or compiler fails",
    EXIT_USAGE: "wrong usage: an option, a name or a value",
    EXIT_VERDICT: "the answer is no: results differ (check, compare, demo, verify), or too much is needed "
    "(compare, cost)",
    EXIT_INTERNAL: "a defect of gspmd itself",
    EXIT_TIMEOUT: "not done within --timeout",
    EXIT_INTERRUPTED: "interrupted from the keyboard",
}
"""What each exit code means, in the order of the codes."""

_BY_KIND = {ErrorKind.USAGE: EXIT_USAGE, ErrorKind.INTERNAL: EXIT_INTERNAL}


def exit_code(error: Error) -> int:
    """The exit code of a command that ends with this error."""
    return EXIT_TIMEOUT if error.code is Code.TIMEOUT else _BY_KIND.get(error.kind, EXIT_FAILURE)


def exit_code_lines(width: int) -> list[str]:
    """The table as lines of help."""
    lines = ["exit codes:"]
    for code, meaning in MEANINGS.items():
        lines += textwrap.wrap(meaning, width, initial_indent=f"  {code:>3}  ", subsequent_indent=" " * 7)
    return lines
