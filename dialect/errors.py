"""What a user sees when something is wrong: one located line that says what to do."""

from __future__ import annotations

import dataclasses
import enum


class ErrorKind(enum.Enum):
    """Who has to act on an error."""

    USAGE = "usage"  # a wrong option, pass name or call of the API
    IO = "io"  # a file that cannot be read or written
    PARSE = "parse"  # text or bytes that are not a module
    ANNOTATION = "annotation"  # a sharding that does not fit its tensor, mesh or neighbour
    UNSUPPORTED = "unsupported"  # a program we refuse rather than partition wrongly
    RUNTIME = "runtime"  # devices, or inputs of the wrong shape or type
    INTERNAL = "internal"  # a defect of gspmd itself


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


class Error(Exception):
    """A failure that the user can act on.

    Attributes: `message` (one sentence), `kind`, `op` (the name of the operation concerned),
    `location`, and `hint` (what to do), each but the first two possibly None; `others` are errors that were found
    together with this one and are told after it.
    """

    kind = ErrorKind.INTERNAL

    def __init__(
        self,
        message: str,
        *,
        op: str | None = None,
        location: SourceLocation | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.op = op
        self.location = location
        self.hint = hint
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
    kind = ErrorKind.USAGE


class InputError(Error):
    """A file that cannot be read or written."""

    kind = ErrorKind.IO


class ParseError(Error):
    kind = ErrorKind.PARSE


class AnnotationError(Error):
    """A sharding that does not fit its tensor, its mesh or another annotation."""

    kind = ErrorKind.ANNOTATION


class Unsupported(Error):
    """A program that is refused, because partitioning it is not implemented."""

    kind = ErrorKind.UNSUPPORTED


class OrdersDiffer(Unsupported):
    """Annotations over device orders that have no mesh in common."""


class ExecutionError(Error):
    """Too few devices, or inputs of the wrong shape or type."""

    kind = ErrorKind.RUNTIME


class InternalError(Error):
    """A defect of gspmd itself: please report it."""
