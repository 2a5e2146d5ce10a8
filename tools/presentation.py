"""How a command prints messages: their form, color, verbosity and width.

The command line and the environment are read for this before anything else, so that usage errors have the requested
form, too.
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
_PLAIN_WIDTH = 120  # width of source lines without a terminal


class Form(enum.Enum):
    """The form of errors and warnings."""

    FULL = "full"  # with the source line and a hint below
    SHORT = "short"  # one line each
    JSON = "json"  # an object a line


@dataclasses.dataclass(frozen=True, slots=True)
class Presentation:
    """`is_colored`, `width` and `is_terminal` describe stderr; `color` is the choice for stdout and stderr."""

    form: Form = Form.FULL
    color: str = "auto"
    is_colored: bool = False
    is_terminal: bool = False
    is_verbose: bool = False
    is_quiet: bool = False
    width: int = _PLAIN_WIDTH


_current: contextvars.ContextVar[Presentation | None] = contextvars.ContextVar("gspmd_presentation", default=None)


def current() -> Presentation:
    """The presentation in use, by default that of the environment."""
    return _current.get() or chosen(())


def use(presentation: Presentation) -> None:
    _current.set(presentation)
    choose_color(presentation.color)


def chosen(words: Sequence[str], json_is_free: bool = False) -> Presentation:
    """The presentation that a command line asks for; invalid values are ignored, since the parser reports them.

    `json_is_free` says that `--json` is about diagnostics, because the command has no JSON output of its own.
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
    """Write lines to stderr. If that fails they are lost, and the exit code does not change."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Drop what a stream did not take: the interpreter would try to write it at exit, and fail with another code."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def add_arguments(parser: argparse.ArgumentParser, json_is_free: bool, verbosity: bool = True) -> None:
    """Add the options that `chosen` reads, with their checks and help."""
    group = parser.add_argument_group("messages")
    if verbosity:
        group.add_argument("-v", "--verbose", action="store_true", help="print each stage and its time")
        group.add_argument("-q", "--quiet", action="store_true", help="print only results and errors")
    group.add_argument("--color", choices=["auto", "always", "never"], default="auto", help="color of messages")
    group.add_argument(
        "--diagnostics",
        choices=[form.value for form in Form],
        help=f"errors with source lines (full, the default), on one line each, or as JSON; ${FORM_VARIABLE} "
        "sets the default",
    )
    if json_is_free:
        group.add_argument("--json", action="store_true", help="same as --diagnostics=json")
    group.add_argument("--debug", action="store_true", help="print the traceback of an error")


def terminal_width(stream: TextIO) -> int | None:
    """Its number of columns; None if it is not a terminal."""
    return shutil.get_terminal_size().columns if is_a_terminal(stream) else None


def text_width() -> int:
    """The width of text on stdout: that of the terminal, or a common width for pipes."""
    return terminal_width(sys.stdout) or _PLAIN_WIDTH


def is_a_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # no stream, or a closed one
        return False


def _options(words: Sequence[str]) -> list[str]:
    """The words before `--`, each option joined with the value that follows it."""
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            break
        if word.startswith(("-color", "-diagnostics", "-json")):  # gspmd-opt accepts one dash
            word = f"-{word}"
        found.append(f"{word}={next(rest, '')}" if word in ("--color", "--diagnostics") else word)
    return found


def _is_given(short: str, long: str, words: Sequence[str]) -> bool:
    return short in words or long in words


def _named_form(name: str) -> Form | None:
    return Form(name) if name in {form.value for form in Form} else None
