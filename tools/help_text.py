"""The layout of `--help`: paragraphs that fit the terminal, and the exit codes below every command."""

from __future__ import annotations

import argparse
import shutil
import textwrap

from gspmd.tools.exit_codes import exit_code_lines


def help_width() -> int:
    """The width of help: that of the terminal, or 80 columns."""
    return max(shutil.get_terminal_size().columns, 40) - 2


class ParagraphHelp(argparse.HelpFormatter):
    """Help whose description and epilog keep their paragraphs; indented lines stay as they are."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=help_width())

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(_paragraph(part, width, indent) for part in text.strip("\n").split("\n\n"))


def exit_code_help() -> str:
    return "\n".join(exit_code_lines(help_width()))


def described(name: str, text: str, column: int = 16) -> list[str]:
    """A name and its description, in two columns."""
    lead = f"  {name:<{column - 2}}"
    indent = " " * column
    if len(lead) > column:
        return [lead.rstrip(), *textwrap.wrap(text, help_width(), initial_indent=indent, subsequent_indent=indent)]
    return textwrap.wrap(text, help_width(), initial_indent=lead, subsequent_indent=indent)


def _paragraph(text: str, width: int, indent: str) -> str:
    if text.startswith(" "):
        return text
    return textwrap.fill(" ".join(text.split()), width, initial_indent=indent, subsequent_indent=indent)
