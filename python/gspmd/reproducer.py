"""Reproducers of internal errors: the input of the failed pass, and the command that runs the pass on it.

No copy of the module is kept while passes change it. Instead, the command runs again up to the failed pass, since
passes are deterministic.
"""

from __future__ import annotations

import contextlib
import io
import os
import platform
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gspmd.transforms.ir.operations import Operation

listener: Callable[[int], None] | None = None
"""Called with the number of each pass that starts, counted from 1, and with 0 when it ends."""

_begun = 0
_last = 0  # the number of the pass before which the command stops; 0 for none
_path: Path | None = None


class Stopped(BaseException):
    """The command has reached the pass before which it stops."""


@contextlib.contextmanager
def in_pass(text: str, module: Operation) -> Iterator[None]:
    """The context in which a pass, given by its pipeline text, changes a module."""
    global _begun
    _begun += 1
    if _begun == _last:
        path().write_text(_content(text, module))
        raise Stopped
    if listener:
        listener(_begun)
    yield
    if listener:
        listener(0)


def blame(error: Exception) -> None:
    """Mark an error as caused by the pass that started last."""
    error.gspmd_pass = _begun  # type: ignore[attr-defined]


def path() -> Path:
    """The file of the module, in the folder for temporary files."""
    global _path
    if _path is None:
        _path = Path(tempfile.gettempdir()) / f"gspmd-reproducer-{secrets.token_hex(4)}.mlir"
    return _path


def stop_before(number: int) -> None:
    """Write the input of the `number`-th pass from now on and raise Stopped; 0 for no pass."""
    global _begun, _last
    _begun, _last = 0, number


def reproduce(error: Exception, main: Callable[[], int]) -> Path | None:
    """The file with the input of the pass that failed in `main`.

    None if no pass failed, or `main` did not reach it again.
    """
    number = getattr(error, "gspmd_pass", 0)
    if not number:
        return None
    stop_before(number)
    rewind_stdin()
    silence = io.TextIOWrapper(io.BytesIO())
    with (
        contextlib.suppress(Exception, Stopped),
        contextlib.redirect_stdout(silence),
        contextlib.redirect_stderr(silence),
    ):
        main()
    stop_before(0)  # later passes of this process are not stopped
    return path() if path().exists() else None


def rewind_stdin() -> None:
    """Rewind stdin if it is a file; otherwise reading it fails."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        stdin = sys.stdin.fileno()
        try:
            os.lseek(stdin, 0, os.SEEK_SET)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stdin)


def _content(text: str, top: Operation) -> str:
    from importlib import metadata

    from gspmd.transforms.ir.writing import written

    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("gspmd", "jaxlib"))
    lines = [
        f"RUN: gspmd-opt --pass-pipeline='builtin.module({text})' %s",
        f"of: {' '.join(sys.argv)}",
        f"with {versions}, Python {platform.python_version()}, {platform.system()}",
    ]
    head = "".join(f"// {' '.join(line.split())}\n" for line in lines)
    return head + str(written(top).operation.get_asm(enable_debug_info=True))
