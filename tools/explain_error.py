"""gspmd explain-error: what an error means, what causes it, and how to fix it."""

from __future__ import annotations

import argparse
import difflib
import textwrap
from typing import TYPE_CHECKING

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.tools.command import ArgumentParser
from gspmd.tools.presentation import text_width

if TYPE_CHECKING:
    from gspmd.dialect.error_pages import Page

NAME = "explain-error"
SUMMARY = "explain an error code such as G0401 and how to fix the error"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "code", nargs="?", metavar="CODE", help="the code in brackets after an error; without it, list all codes"
    )


def run(args: argparse.Namespace) -> int:
    """Exit code 0; errors are exceptions."""
    from gspmd.dialect.error_pages import PAGES

    if args.code is None:
        print("\n".join(_list(text_width())))
    else:
        print("\n".join(_page(PAGES[_code(args.code)], text_width())))
    return 0


def _code(text: str) -> Code:
    """The code, which may lack its G or be in lower case. Raises UsageError."""
    wanted = text.strip("[]").upper()
    known = [code.value for code in Code]
    for candidate in (wanted, f"G{wanted}", f"G{wanted:0>4}"):
        if candidate in known:
            return Code(candidate)
    near = difflib.get_close_matches(wanted, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UsageError(
        f"there is no error '{text}'", hint=f"{hint}gspmd explain-error lists them all", code=Code.BAD_VALUE
    )


def _list(width: int) -> list[str]:
    from gspmd.dialect.error_pages import FAMILIES

    lines: list[str] = []
    for family, pages in FAMILIES:
        lines += [*([""] if lines else []), f"{family}:"]
        for page in pages:
            lines += textwrap.wrap(page.title, width, initial_indent=f"  {page.code}  ", subsequent_indent=" " * 9)
    return lines


def _page(page: Page, width: int) -> list[str]:
    example = page.example
    lines = [f"{page.code}: {page.title}", "", *textwrap.wrap(page.meaning, width), "", "For example:", ""]
    if example.text:
        lines += [f"    {example.file}:", *_indented(example.text), ""]
    lines += [f"    $ {example.command}"] if example.command else _indented(example.python)
    return [*lines, "", "What to do:", "", *textwrap.wrap(page.remedy, width)]


def _indented(text: str) -> list[str]:
    return [f"      {line}".rstrip() for line in text.rstrip("\n").split("\n")]
