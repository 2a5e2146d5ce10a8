"""Errors that are also of JAX's class for the same mistake, so that `except` clauses for `jax.jit` work."""

from __future__ import annotations

from jax.errors import JaxRuntimeError

from gspmd.dialect.errors import AnnotationError, ExecutionError, UsageError


class WrongType(UsageError, TypeError):
    """A value of a wrong type, or a call that the function does not accept."""


class WrongValue(UsageError, ValueError):
    """An invalid value or structure."""


class MissingMesh(UsageError, RuntimeError):
    """A function with annotations but without a mesh."""


class WrongCount(UsageError, RuntimeError):
    """Another number of devices than a function over an abstract mesh was lowered for."""


class NumberTooLarge(UsageError, OverflowError):
    """A Python number that JAX's integers cannot represent."""


class WrongSharding(AnnotationError, ValueError):
    """A sharding that the user gave for an argument or result which does not fit it."""


class ArgumentTypeMismatch(ExecutionError, TypeError):
    """An argument of another type than the program was compiled for."""


class PlacementMismatch(ExecutionError, ValueError):
    """An array with another placement than the program was compiled for."""


class ProgramFailed(ExecutionError, JaxRuntimeError):  # type: ignore[misc] # of C++
    """The failure of a program, or of a Python callback in it."""
