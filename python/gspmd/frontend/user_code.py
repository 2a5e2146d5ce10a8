"""Calls of the user's functions during partitioning: their exceptions become errors of gspmd."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Iterator

import jax

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, Error, Note, SourceLocation

_NOT_OF_USER = tuple(os.path.dirname(path) + os.sep for path in (jax.__file__, __file__))


@contextlib.contextmanager
def user_errors(what: str, code: Code = Code.CUSTOM_CALL) -> Iterator[None]:
    """Turn an exception of the user's code inside into an AnnotationError, with the line that raised it."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        raised = [
            SourceLocation(frame.f_code.co_filename, line)
            for frame, line in traceback.walk_tb(error.__traceback__)
            if not frame.f_code.co_filename.startswith(_NOT_OF_USER)
        ]
        notes = tuple(Note("raised here", place) for place in raised[-1:])
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise AnnotationError(f"{what}: {text}", code=code, notes=notes) from error
