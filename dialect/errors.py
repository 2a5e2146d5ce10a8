"""Errors for the user: one located line with a hint."""

from __future__ import annotations

import dataclasses
import enum
import os
from typing import ClassVar

from gspmd.dialect.error_codes import Code


class ErrorKind(enum.Enum):
    """The source of an error."""

    USAGE = "usage"  # a wrong option, pass name or call of the API
    IO = "io"  # a file that cannot be read or written
    PARSE = "parse"  # text or bytes that are not a module
    ANNOTATION = "annotation"  # a sharding that does not fit its tensor, its mesh or another annotation
    UNSUPPORTED = "unsupported"  # a program that gspmd does not support
    RUNTIME = "runtime"  # devices, or inputs of the wrong shape or type
    INTERNAL = "internal"  # internal error in gspmd


@dataclasses.dataclass(frozen=True, slots=True)
class SourceLocation:
    """A location in a source file; `line` and `column` count from 1, and are 0 if unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"

    @property
    def brief(self) -> str:
        """`main.py:80`, without folders and column."""
        name = os.path.basename(self.file)
        return f"{name}:{self.line}" if self.line else name


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """A note of an error, with its own location."""

    message: str
    location: SourceLocation | None = None


def shown(value: object, most: int = 100) -> str:
    """The repr of a value of a user, truncated; its type if the repr fails."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - any error of a class of the user, or of Python for a number with many digits
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def reason_of(error: OSError | ValueError) -> str:
    """The message of the system for a file that cannot be read or written, without error number and file name."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


class Error(Exception):
    """An error that the user can fix.

    Attributes: `message` (one sentence), `kind`, `code` (which `gspmd explain-error` explains), `op` (the name of the
    operation concerned), `location`, and `hint` (how to fix it), the last three possibly None; `notes` have related
    locations; `others` are errors that were found together with this one and are printed after it.
    """

    kind: ClassVar[ErrorKind] = ErrorKind.INTERNAL
    usual_code: ClassVar[Code] = Code.INTERNAL

    def __init__(
        self,
        message: str,
        *,
        op: str | None = None,
        location: SourceLocation | None = None,
        hint: str | None = None,
        code: Code | None = None,
        notes: tuple[Note, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.op = op
        self.location = location
        self.hint = hint
        self.code = code or self.usual_code
        self.notes = notes
        self.others: tuple[Error, ...] = ()

    def __str__(self) -> str:
        where = f"{self.location}" if self.location else "gspmd"
        subject = f"'{self.op}' op " if self.op else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{where}: error: {subject}{self.message}{hint}"

    def at(self, location: SourceLocation | None, op: str | None = None) -> Error:
        """Set the location, unless it is known already."""
        self.location = self.location or location
        self.op = self.op or op
        return self


class UsageError(Error):
    """An invalid use of a command, function or option."""

    kind = ErrorKind.USAGE
    usual_code = Code.USAGE


class InputError(Error):
    """A file that cannot be read or written."""

    kind = ErrorKind.IO
    usual_code = Code.CANNOT_READ


class ParseError(Error):
    """A program, or a text in it, that cannot be parsed."""

    kind = ErrorKind.PARSE
    usual_code = Code.SYNTAX


class AnnotationError(Error):
    """A sharding that does not fit its tensor, its mesh or another annotation."""

    kind = ErrorKind.ANNOTATION
    usual_code = Code.ANNOTATION


class Unsupported(Error):
    """A program that is refused because partitioning it is not implemented."""

    kind = ErrorKind.UNSUPPORTED
    usual_code = Code.UNSUPPORTED


class OrdersDiffer(Unsupported):
    """Annotations over device orders without a common mesh."""

    usual_code = Code.DEVICE_ORDERS


class ExecutionError(Error):
    """Too few devices, or inputs of the wrong shape or type."""

    kind = ErrorKind.RUNTIME
    usual_code = Code.EXECUTION


class InternalError(Error):
    """A defect of gspmd itself: please report it."""
