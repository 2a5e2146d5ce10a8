"""The package in one piece, as in a wheel, for what finds modules by where their files lie."""

from __future__ import annotations

import shutil
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_FOLDERS = ("dialect", "transforms")


def put_together(folder: Path) -> None:
    """Copy the package `gspmd`, with the top-level folders that its public names come from, into `folder`."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(_ROOT / "python", folder, ignore=ignored, dirs_exist_ok=True)
    for name in _FOLDERS:
        shutil.copytree(_ROOT / name, folder / "gspmd" / name, ignore=ignored)
