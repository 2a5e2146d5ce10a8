"""Texts of programs that came through a stream, kept so that messages can show their lines."""

from __future__ import annotations

STDIN = "<stdin>"
_kept: dict[str, bytes] = {}


def keep(name: str, source: bytes) -> bytes:
    """Keep a source under the name that locations call it by; the same source."""
    _kept[name] = source
    return source


def kept(name: str) -> bytes | None:
    """What was kept under a name; programs without a name of their own are called `-` by MLIR."""
    return _kept.get(STDIN if name == "-" else name)
