"""Errors that are also what JAX raises for the same mistake, so that `except` clauses written for `jax.jit` hold."""

from __future__ import annotations

from jax.errors import JaxRuntimeError

from gspmd.dialect.errors import AnnotationError, ExecutionError, UsageError


class WrongType(UsageError, TypeError):
    """Something of another type than can be used, and a call that the function does not take."""


class WrongValue(UsageError, ValueError):
    """A value, or the structure of one, that cannot be used."""


class NoMesh(UsageError, RuntimeError):
    """A function that says how it is split, and no mesh."""


class WrongCount(UsageError, RuntimeError):
    """Another number of devices than a function over an abstract mesh was lowered for."""


class NumberTooLarge(UsageError, OverflowError):
    """A number of Python that JAX's integers cannot hold."""


class WrongSharding(AnnotationError, ValueError):
    """A sharding that the user gave for an argument or result which does not fit it."""


class OtherArgument(ExecutionError, TypeError):
    """An argument of another type than the program was compiled for."""


class OtherPlace(ExecutionError, ValueError):
    """An array that is placed in another way than the program was compiled for."""


class ProgramFailed(ExecutionError, JaxRuntimeError):  # type: ignore[misc] # of C++
    """What a program's run, or a function of Python that it calls, ended with."""
