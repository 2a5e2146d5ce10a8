"""The file of a compiled program: the executable and the information to run it. Needs no jax.

It starts with a line that identifies the format and the SHA-256 digest of the rest: a JSON header with the sizes of the
parts, the partitioned module as bytecode, and the executable. Nothing is compressed, so reading takes as much memory as
the file has bytes. The digest detects damage; it does not authenticate the file. The executable is native code: load
only files that you trust.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat
import zipfile
from collections.abc import Mapping
from typing import NoReturn

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import InputError
from gspmd.dialect.limits import is_count
from gspmd.dialect.source_text import reading
from gspmd.paths import path_text

_MAGIC = b"gspmd compiled program 2\n"
_DIGEST_BYTES = hashlib.sha256().digest_size
_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 1 << 20
_MAX_DEVICES = 1 << 16  # running the file creates as many CPU devices
_WORDS = ("target", "jaxlib", "compiler")


@dataclasses.dataclass(frozen=True, slots=True)
class FileHeader:
    """The target and the compiler of a program: `ids` are those of the devices, in the order of partitions."""

    target: str
    ids: tuple[int, ...]
    jaxlib: str
    compiler: str

    @property
    def platform(self) -> str:
        return self.target.partition(":")[0]


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledFile:
    """`partitioned` is the module as bytecode, with the signature; `executable` is PJRT's own form."""

    about: FileHeader
    partitioned: bytes
    executable: bytes


def compiled_bytes(file: CompiledFile) -> bytes:
    """The content of the file."""
    sizes = {"partitioned": len(file.partitioned), "executable": len(file.executable)}
    header = json.dumps({**dataclasses.asdict(file.about), **sizes}).encode()
    rest = len(header).to_bytes(_LENGTH_BYTES, "little") + header + file.partitioned + file.executable
    return _MAGIC + hashlib.sha256(rest).digest() + rest


def is_compiled(path: str | os.PathLike[str]) -> bool:
    """Whether a regular file is a compiled program, of this or an earlier format. A pipe can be read only once."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC or _is_earlier(path)
    except (OSError, ValueError):
        return False


def _is_earlier(path: str | os.PathLike[str]) -> bool:
    """Whether it is an archive, the earlier format of compiled programs."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "about.json" in archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


def read_compiled(path: str | os.PathLike[str]) -> CompiledFile:
    """Read a file. Raises InputError if it cannot be read, has another format, or is damaged."""
    name = path_text(path)
    with reading(path, name) as file:
        content = file.read() if file.read(len(_MAGIC)) == _MAGIC else None
    if content is None:
        earlier = _is_earlier(path)
        what = "was compiled by an earlier gspmd" if earlier else "is not a compiled program"
        hint = "compile it again" if earlier else "gspmd compile -o writes one"
        raise InputError(f"'{name}' {what}", hint=hint, code=Code.BAD_FILE)
    digest, rest = content[:_DIGEST_BYTES], memoryview(content)[_DIGEST_BYTES:]
    if hashlib.sha256(rest).digest() != digest:
        _damaged(name, "its digest is another one")
    length = int.from_bytes(rest[:_LENGTH_BYTES], "little")
    if not 0 < length <= min(_MAX_HEADER_BYTES, len(rest) - _LENGTH_BYTES):
        _damaged(name, "its header is too short or too long")
    parts = rest[_LENGTH_BYTES + length :]
    about, sizes = _header(name, bytes(rest[_LENGTH_BYTES : _LENGTH_BYTES + length]))
    if sum(sizes) != len(parts):
        _damaged(name, f"its parts have {len(parts)} bytes, expected {sum(sizes)}")
    return CompiledFile(about, bytes(parts[: sizes[0]]), bytes(parts[sizes[0] :]))


def _header(name: str, text: bytes) -> tuple[FileHeader, tuple[int, int]]:
    """The contents of the header. Raises InputError for invalid contents."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        _damaged(name, "its header is no JSON")
    expected = {*_WORDS, "ids", "partitioned", "executable"}
    if not isinstance(said, Mapping) or said.keys() != expected:
        _damaged(name, f"its header does not have just {', '.join(sorted(expected))}")
    words = {key: said[key] for key in _WORDS}
    if not all(isinstance(word, str) and word for word in words.values()):
        _damaged(name, f"{', '.join(_WORDS)} are not all text")
    ids = said["ids"]
    if not (
        isinstance(ids, list)
        and ids
        and all(map(is_count, ids))
        and len(set(ids)) == len(ids)
        and max(ids) < _MAX_DEVICES
    ):
        _damaged(name, "ids are not different numbers of devices")
    sizes = said["partitioned"], said["executable"]
    if not all(map(is_count, sizes)):
        _damaged(name, "sizes are not numbers of bytes")
    return FileHeader(ids=tuple(ids), **words), sizes


def _damaged(name: str, why: str) -> NoReturn:
    raise InputError(f"'{name}' is not as it was written: {why}", hint="compile or copy it again", code=Code.BAD_FILE)
