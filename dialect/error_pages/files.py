"""Errors of files."""

from __future__ import annotations

from gspmd.dialect.error_codes import Code
from gspmd.dialect.error_pages.page import Example, Page

PAGES = (
    Page(
        Code.CANNOT_READ,
        "A file that cannot be read",
        "The file does not exist, is a directory, or is not readable.",
        Example("gspmd partition missing.mlir"),
        "Correct the path or the permissions; - stands for stdin.",
    ),
    Page(
        Code.CANNOT_WRITE,
        "A file that cannot be written",
        "The folder does not exist or is not writable, or the disk is full. Existing files are unchanged.",
        Example("gspmd partition program.mlir -o missing/out.mlir"),
        "Choose another path, or free some space.",
    ),
    Page(
        Code.BAD_FILE,
        "A file with invalid content",
        "A budget, an archive of arrays or a compiled program is damaged, is a file of another kind, or belongs to "
        "another program.",
        Example("gspmd cost program.mlir --budget budget.json", "budget.json", '{"bytes": 3}\n'),
        "Create the file again: budgets with gspmd cost --write-budget, compiled programs with gspmd compile -o, "
        "arrays with numpy.savez.",
    ),
)
