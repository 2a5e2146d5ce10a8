"""The passes of gspmd-opt as help text, from the table in `pass_table`, so that help does not import the compiler."""

from __future__ import annotations

import textwrap

from gspmd.tools.help_text import described, help_width
from gspmd.tools.pass_table import COMMON_PASSES, PASSES, PIPELINE, STAGES


def pass_help() -> str:
    """All passes of gspmd with their options, and the common MLIR passes."""
    lines = ["passes of gspmd:"]
    for name, summary, options, details in PASSES:
        lines += described(f"--{name}", summary, 24)
        for option, type_name, meaning, default in options:
            text = f"{option}=<{type_name}>  {meaning} (default: {default})"
            lines += textwrap.wrap(
                text, help_width(), initial_indent=" " * 6, subsequent_indent=" " * 10, break_on_hyphens=False
            )
        for detail in details:
            indent = " " * (6 + len(detail) - len(detail.lstrip()))
            lines += textwrap.wrap(
                detail.strip(),
                help_width(),
                initial_indent=indent,
                subsequent_indent=indent + "   ",
                break_on_hyphens=False,
            )
    lines += described(f"--{PIPELINE}", f"{STAGES[0]} to {STAGES[-1]}, in this order; takes the options of all", 24)
    lines += ["", *textwrap.wrap("passes of MLIR (these, and all others that jaxlib registers):", help_width())]
    return "\n".join([*lines, *(f"  --{name}" for name in COMMON_PASSES)])
