"""Output files: every file that a command or a call writes is written here, atomically.

The destination is checked before the work starts. A regular file is replaced in one step by a file in the same folder
with its permissions; a link is followed. A device or a FIFO is written to.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from typing import Any

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import InputError, UsageError, reason_of
from gspmd.paths import path_text

_STDOUT = "-"
_READER_PATIENCE_S = 10.0


_unfinished: set[str] = set()


def forget_unfinished() -> None:
    """Remove unfinished files before the process ends abruptly."""
    for temporary in [*_unfinished]:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


class Output:
    """A destination that was checked for writing."""

    def __init__(self, path: str | os.PathLike[str], *, stdout: bool = False) -> None:
        """`-` is stdout if `stdout` is set, as for commands.

        Raises InputError for a destination that cannot be written.
        """
        self.path = path_text(path)
        self._stdout: Any = sys.stdout  # None if it was closed from the start
        self._descriptor: int | None = None  # a FIFO, whose reader is waiting
        self.is_stdout = stdout and self.path == _STDOUT
        if self.is_stdout:
            return
        if not self.path:
            raise InputError("the name of a file to write is empty", hint="give a name", code=Code.CANNOT_WRITE)
        try:
            self.target = os.path.realpath(self.path)
            self._check()
        except (OSError, ValueError) as error:
            raise self._refused(error) from None

    def write(self, data: bytes) -> None:
        """Write all of it. Raises InputError and leaves a regular file unchanged."""
        if self.is_stdout:
            self._write_to_stdout(data)
            return
        try:
            there = self._there()
            if self._descriptor is not None:
                with open(self._descriptor, "wb") as pipe:
                    self._descriptor = None
                    pipe.write(data)
            elif there is None or stat.S_ISREG(there.st_mode):
                self._replace(data, there)
            else:
                with open(self.target, "wb", buffering=0) as device:
                    _write_all(device, data)
        except BrokenPipeError:
            return  # the reader has closed it
        except (OSError, ValueError) as error:
            raise self._refused(error) from None

    def _check(self) -> None:
        there = self._there()
        if there is None or stat.S_ISREG(there.st_mode):
            self._check_regular(there)
        elif stat.S_ISDIR(there.st_mode):
            raise IsADirectoryError(0, "is a directory")
        elif stat.S_ISFIFO(there.st_mode):
            self._descriptor = _open_fifo(self.target)
        elif stat.S_ISCHR(there.st_mode):
            os.close(os.open(self.target, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY))
        else:
            raise OSError(0, "is a block device or a socket")

    def _check_regular(self, there: os.stat_result | None) -> None:
        folder = os.path.dirname(self.target)
        if self.path.endswith(("/", os.sep)) or not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(0, f"cannot write into '{folder}'")
        if there is not None and not (os.access(self.target, os.W_OK) and there.st_mode & 0o222):
            raise PermissionError(0, "is read-only")  # for the superuser, too

    def _there(self) -> os.stat_result | None:
        try:
            return os.stat(self.target)
        except FileNotFoundError:
            return None

    def _replace(self, data: bytes, there: os.stat_result | None) -> None:
        temporary = os.path.join(os.path.dirname(self.target), f".gspmd-{secrets.token_hex(8)}")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        _unfinished.add(temporary)
        try:
            with open(handle, "wb") as file:
                file.write(data)
            if there is not None:
                os.chmod(temporary, stat.S_IMODE(there.st_mode))
            os.replace(temporary, self.target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        finally:
            _unfinished.discard(temporary)

    def _write_to_stdout(self, data: bytes) -> None:
        if self._stdout is not None:
            self._stdout.flush()
            self._stdout.buffer.write(data)
            self._stdout.buffer.flush()

    def _refused(self, error: OSError | ValueError) -> InputError:
        reason = reason_of(error)
        return InputError(f"cannot write '{self.path}': {reason[:1].lower()}{reason[1:]}", code=Code.CANNOT_WRITE)


def outputs(*paths: str | None) -> list[Output | None]:
    """The outputs of a command; None for options that are not given.

    Raises InputError, and UsageError for a repeated file.
    """
    found = [None if path is None else Output(path, stdout=True) for path in paths]
    places = [_STDOUT if output.is_stdout else output.target for output in found if output is not None]
    twice = next((place for place in places if places.count(place) > 1), None)
    if twice is not None:
        raise UsageError(
            f"'{twice}' is an output twice", hint="give each output a name of its own", code=Code.OPTIONS_DISAGREE
        )
    return found


@contextlib.contextmanager
def beside(*outputs: Output | None) -> Iterator[None]:
    """In this context, print to stderr if one of the outputs is stdout."""
    if any(output is not None and output.is_stdout for output in outputs):
        with contextlib.redirect_stdout(sys.stderr):
            yield
    else:
        yield


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file atomically. Raises InputError."""
    Output(path).write(data)


def _write_all(file: Any, data: bytes) -> None:
    """Write to a device, which may accept part of the data at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _open_fifo(path: str) -> int:
    """Open a FIFO for writing once a reader has opened it.

    Raises OSError if that does not happen within `_READER_PATIENCE_S` seconds.
    """
    until = time.monotonic() + _READER_PATIENCE_S
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            if time.monotonic() > until or not os.access(path, os.W_OK):
                raise OSError(0, f"no process has opened it for reading for {_READER_PATIENCE_S:.0f} s") from None
            time.sleep(0.05)
            continue
        os.set_blocking(descriptor, True)
        return descriptor
