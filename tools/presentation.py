"""How a command tells things: in which form, with colors or not, how much, and how wide.

The choice is made from the command line and the environment before anything else, so that wrong usage is told in the
form that was asked for, too.
"""

from __future__ import annotations

import argparse
import contextlib
import contextvars
import dataclasses
import enum
import os
import shutil
import sys
from collections.abc import Sequence
from typing import TextIO

from gspmd.tables import choose_color, wants_color

FORM_VARIABLE = "GSPMD_DIAGNOSTICS"
_PLAIN_WIDTH = 120  # of source lines where there is no terminal


class Form(enum.Enum):
    """The form of errors and warnings."""

    FULL = "full"  # with the source line and what to do below
    SHORT = "short"  # a line each
    JSON = "json"  # an object a line


@dataclasses.dataclass(frozen=True, slots=True)
class Presentation:
    """`is_colored` and `width` are of stderr; `is_terminal` says whether a person watches it.

    `color` is the choice for all of what is printed: `auto`, `always` or `never`.
    """

    form: Form = Form.FULL
    color: str = "auto"
    is_colored: bool = False
    is_terminal: bool = False
    is_verbose: bool = False
    is_quiet: bool = False
    width: int = _PLAIN_WIDTH


_current: contextvars.ContextVar[Presentation | None] = contextvars.ContextVar("gspmd_presentation", default=None)


def current() -> Presentation:
    """What was chosen, or what the environment says."""
    return _current.get() or chosen(())


def use(presentation: Presentation) -> None:
    _current.set(presentation)
    choose_color(presentation.color)


def chosen(words: Sequence[str], json_is_free: bool = False) -> Presentation:
    """What a command line chooses; words that are no choice are ignored, as the parser will complain of them.

    `json_is_free` says that `--json` means diagnostics, because the command prints no JSON otherwise.
    """
    words = _options(words)
    form = _named_form(os.environ.get(FORM_VARIABLE, "")) or Form.FULL
    for word in words:
        form = _named_form(word.removeprefix("--diagnostics=")) or form
    if json_is_free and "--json" in words:
        form = Form.JSON
    is_terminal = is_a_terminal(sys.stderr)
    color = next((word.removeprefix("--color=") for word in reversed(words) if word.startswith("--color=")), "auto")
    return Presentation(
        form,
        color,
        is_colored=color == "always" or (color != "never" and is_terminal and wants_color()),
        is_terminal=is_terminal,
        is_verbose=_is_given("-v", "--verbose", words),
        is_quiet=_is_given("-q", "--quiet", words),
        width=terminal_width(sys.stderr) or _PLAIN_WIDTH,
    )


def tell(text: str) -> None:
    """Write a line, or lines, to stderr. What cannot be written there is lost; the exit code is the same."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def add_arguments(parser: argparse.ArgumentParser, json_is_free: bool, verbosity: bool = True) -> None:
    """The options that `chosen` reads; here they are checked, and described in the help."""
    group = parser.add_argument_group("messages")
    if verbosity:
        group.add_argument("-v", "--verbose", action="store_true", help="say what each stage does and how long it took")
        group.add_argument("-q", "--quiet", action="store_true", help="print nothing but results and errors")
    group.add_argument("--color", choices=["auto", "always", "never"], default="auto", help="of messages")
    group.add_argument(
        "--diagnostics",
        choices=[form.value for form in Form],
        help=f"errors with their source lines (full, the default), in one line each, or as JSON; ${FORM_VARIABLE} "
        "is the default of it",
    )
    if json_is_free:
        group.add_argument("--json", action="store_true", help="the same as --diagnostics=json")
    group.add_argument("--debug", action="store_true", help="print the traceback of an error")


def terminal_width(stream: TextIO) -> int | None:
    """Its number of columns, None where it is no terminal."""
    return shutil.get_terminal_size().columns if is_a_terminal(stream) else None


def text_width() -> int:
    """How wide text on stdout may be: as the terminal, else as what is read from a pipe usually is."""
    return terminal_width(sys.stdout) or _PLAIN_WIDTH


def is_a_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # no stream, or a closed one
        return False


def _options(words: Sequence[str]) -> list[str]:
    """The words before `--`, with a value that follows its option joined to it."""
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            break
        if word.startswith(("-color", "-diagnostics", "-json")):  # one dash will do for gspmd-opt
            word = f"-{word}"
        found.append(f"{word}={next(rest, '')}" if word in ("--color", "--diagnostics") else word)
    return found


def _is_given(short: str, long: str, words: Sequence[str]) -> bool:
    return short in words or long in words


def _named_form(name: str) -> Form | None:
    return Form(name) if name in {form.value for form in Form} else None
