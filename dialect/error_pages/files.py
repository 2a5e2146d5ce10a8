"""Errors of files."""

from __future__ import annotations

from gspmd.dialect.error_codes import Code
from gspmd.dialect.error_pages.page import Example, Page

PAGES = (
    Page(
        Code.CANNOT_READ,
        "A file that cannot be read",
        "The file is not there, is a directory, or may not be read.",
        Example("gspmd partition missing.mlir"),
        "Correct the path or the permissions; - stands for stdin.",
    ),
    Page(
        Code.CANNOT_WRITE,
        "A file that cannot be written",
        "The folder is not there, may not be written to, or the disk is full. Files that were there stay as they were.",
        Example("gspmd partition program.mlir -o missing/out.mlir"),
        "Choose another path, or make room.",
    ),
    Page(
        Code.BAD_FILE,
        "A file that is not what it should be",
        "A budget, an archive of arrays or a compiled program is damaged, or a file of another kind, or was made for "
        "another program.",
        Example("gspmd cost program.mlir --budget budget.json", "budget.json", '{"bytes": 3}\n'),
        "Make the file again: budgets with gspmd cost --write-budget, compiled programs with gspmd compile -o, arrays "
        "with numpy.savez.",
    ),
)
