"""What a user sees when something is wrong: one located line that says what to do."""

from __future__ import annotations

import dataclasses
import enum
from typing import ClassVar

from gspmd.dialect.error_codes import Code


class ErrorKind(enum.Enum):
    """Who has to act on an error."""

    USAGE = "usage"  # a wrong option, pass name or call of the API
    IO = "io"  # a file that cannot be read or written
    PARSE = "parse"  # text or bytes that are not a module
    ANNOTATION = "annotation"  # a sharding that does not fit its tensor, mesh or neighbour
    UNSUPPORTED = "unsupported"  # a program we refuse rather than partition wrongly
    RUNTIME = "runtime"  # devices, or inputs of the wrong shape or type
    INTERNAL = "internal"  # internal error in gspmd


@dataclasses.dataclass(frozen=True, slots=True)
class SourceLocation:
    """A place in a source file; `line` and `column` count from 1, 0 where unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """Something that belongs to an error, at a place of its own."""

    message: str
    location: SourceLocation | None = None


def shown(value: object, most: int = 100) -> str:
    """A value that a user gave, as Python writes it, cut to so many characters; its type where it cannot be written."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever a class of the user's raises, or Python for a number of many digits
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def reason_of(error: OSError | ValueError) -> str:
    """What the system says of a file that cannot be read or written, without its number and the file's name."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


class Error(Exception):
    """A failure that the user can act on.

    Attributes: `message` (one sentence), `kind`, `code` (which `gspmd explain-error` explains), `op` (the name of the
    operation concerned), `location`, and `hint` (what to do), the last three possibly None; `notes` name other places
    that matter; `others` are errors that were found together with this one and are told after it.
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
        """Fill in where it happened, if that is not known yet."""
        self.location = self.location or location
        self.op = self.op or op
        return self


class UsageError(Error):
    """A command, function or option that is not used as it can be."""

    kind = ErrorKind.USAGE
    usual_code = Code.USAGE


class InputError(Error):
    """A file that cannot be read or written."""

    kind = ErrorKind.IO
    usual_code = Code.CANNOT_READ


class ParseError(Error):
    """A program, or a text in it, that cannot be read."""

    kind = ErrorKind.PARSE
    usual_code = Code.SYNTAX


class AnnotationError(Error):
    """A sharding that does not fit its tensor, its mesh or another annotation."""

    kind = ErrorKind.ANNOTATION
    usual_code = Code.ANNOTATION


class Unsupported(Error):
    """A program that is refused, because partitioning it is not implemented."""

    kind = ErrorKind.UNSUPPORTED
    usual_code = Code.UNSUPPORTED


class OrdersDiffer(Unsupported):
    """Annotations over device orders that have no mesh in common."""

    usual_code = Code.DEVICE_ORDERS


class ExecutionError(Error):
    """Too few devices, or inputs of the wrong shape or type."""

    kind = ErrorKind.RUNTIME
    usual_code = Code.EXECUTION


class InternalError(Error):
    """A defect of gspmd itself: please report it."""
