"""What `gspmd explain-error` and docs/errors.md say about each code: the one table of errors, a module a family."""

from __future__ import annotations

from gspmd.dialect.error_codes import Code
from gspmd.dialect.error_pages import annotation, execution, files, parse, unsupported, usage
from gspmd.dialect.error_pages.page import PROGRAM, Example, Page

FAMILIES: tuple[tuple[str, tuple[Page, ...]], ...] = (
    ("Commands and calls", usage.PAGES),
    ("Files", files.PAGES),
    ("Reading programs", parse.PAGES),
    ("Annotations", annotation.PAGES),
    ("What is not supported", unsupported.PAGES),
    ("Running, and defects", execution.PAGES),
)
"""Pages by family, in the order of their codes."""

PAGES: dict[Code, Page] = {page.code: page for _, pages in FAMILIES for page in pages}

__all__ = ["FAMILIES", "PAGES", "PROGRAM", "Example", "Page"]
