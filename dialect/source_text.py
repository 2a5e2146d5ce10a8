"""Source texts of files and streams; those of streams are kept, so that messages can show their lines."""

from __future__ import annotations

import codecs
import contextlib
import os
import stat
import tomllib
from collections.abc import Iterator
from typing import Any, BinaryIO

from gspmd.dialect.errors import InputError, reason_of
from gspmd.dialect.limits import MAX_TOML_LENGTH

STDIN = "<stdin>"
_MAX_BYTES = 64 * 2**20  # of a file that is read for messages
_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_kept: dict[str, bytes] = {}


def as_utf8(source: bytes) -> bytes:
    """The text without the byte order mark that editors and shells of Windows add."""
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if source.startswith(mark):
            with contextlib.suppress(UnicodeError):
                return source.removeprefix(mark).decode(encoding).encode()
    return source


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises TOMLDecodeError for invalid or too long text."""
    if len(text) > MAX_TOML_LENGTH:
        raise tomllib.TOMLDecodeError(f"longer than {MAX_TOML_LENGTH} characters, which descriptions need not be")
    return tomllib.loads(text)


def keep(name: str, source: bytes) -> bytes:
    """Keep a source under its name in locations; returns the source."""
    _kept[name] = source
    return source


def kept(name: str) -> bytes | None:
    """The source kept under a name; MLIR uses `-` for programs without one."""
    return _kept.get(STDIN if name == "-" else name)


def source_bytes(name: str) -> bytes | None:
    """The source kept under a name, or the content of a regular file that is not too large; otherwise None."""
    source = kept(name)
    if source is not None:
        return source
    try:
        about = os.stat(name)
        if not stat.S_ISREG(about.st_mode) or about.st_size > _MAX_BYTES:
            return None
        with open(name, "rb") as opened:
            return as_utf8(opened.read())
    except (OSError, ValueError):
        return None


def lines_of(name: str) -> list[str]:
    """The lines of `source_bytes`; none if there is no source."""
    return [line.decode(errors="replace") for line in (source_bytes(name) or b"").split(b"\n")]


@contextlib.contextmanager
def reading(path: str | os.PathLike[str], name: str = "", hint: str | None = None) -> Iterator[BinaryIO]:
    """Open a file for reading; errors call it `name`, or its path.

    Raises InputError if it cannot be opened or read.
    """
    try:
        with open(path, "rb") as file:
            yield file
    except (OSError, ValueError) as error:
        shown = name or os.fspath(path)
        raise InputError(f"cannot read '{shown}': {reason_of(error).lower()}", hint=hint) from None
