"""Paths of files: any object that `os.fspath` accepts."""

from __future__ import annotations

import os
from typing import Any

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError, shown


def path_text(path: Any) -> str:
    """A path as text. Raises UsageError for other objects."""
    try:
        return os.fsdecode(path)
    except (TypeError, ValueError):
        raise UsageError(
            f"{shown(path)} is not the path of a file", hint="give a text or an os.PathLike", code=Code.BAD_VALUE
        ) from None
