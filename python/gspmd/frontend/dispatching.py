"""Calls of programs that C++ dispatches, with no more around them than shows in no measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jax.errors import JaxRuntimeError
from jax.extend import source_info_util

from gspmd.dialect.errors import Error
from gspmd.frontend import jax_stages
from gspmd.runtime import arguments, in_flight
from gspmd.runtime.familiar_errors import ProgramFailed

source_info_util.register_exclusion(__file__)  # no part of what the user's function calls
_Array, _flatten = jax_stages.Array, jax_stages.flatten
Passed = list[tuple[str, Any]]  # the leaves of a call's arguments, and what errors call them


class Dispatched:
    """Something that is called as a function of `jax.jit`, and says in the user's words what went wrong."""

    _dispatched: Any
    """What `jax_stages.dispatched` returns."""
    _donates: bool

    @property
    def pace(self) -> in_flight.StartPolicy:
        """How often a call has to wait for the one before."""
        return self._pace

    @pace.setter
    def pace(self, pace: in_flight.StartPolicy) -> None:
        self._pace, self._due = pace, pace.due

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._donates:  # jaxlib may end the process where a donated array is gone, or is passed twice
            leaves = _flatten((args, kwargs) if kwargs else args)[0]
            for leaf in leaves:
                if leaf.__class__ is _Array and leaf.is_deleted():
                    self._check_donated(args, kwargs)
            if len(leaves) > 1 and len(set(map(id, leaves))) < len(leaves):
                self._check_donated(args, kwargs)
        try:
            if self._due():
                return self._pace.start(self._dispatched, args, kwargs)
            return self._dispatched(*args, **kwargs)
        except (JaxRuntimeError, RuntimeError, ValueError) as error:  # of a program that C++ called
            told = explained(error, self._passed(args, kwargs))
            if told is None:
                raise
            raise told from error

    def _passed(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Passed:
        raise NotImplementedError

    def _donated(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sequence[bool]:
        """Which leaves are donated."""
        raise NotImplementedError

    def _check_donated(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise ExecutionError for arrays that are gone, or that are donated and passed twice."""
        passed = self._passed(args, kwargs)
        _check_alive(passed)
        arguments.check_donated_once(self._donated(args, kwargs), [leaf for _, leaf in passed])


def _check_alive(passed: Passed) -> None:
    for index, (path, leaf) in enumerate(passed):
        if jax_stages.is_array(leaf) and leaf.is_deleted():
            raise arguments.gone(f"argument {index} '{path}'")


def explained(error: Exception, passed: Passed) -> Error | None:
    """What went wrong in a call, in the user's words; None for an error that is not of a program's run."""
    if isinstance(error, Error):
        return None
    try:
        _check_alive(passed)
    except ProgramFailed as gone:
        return gone
    text = str(error).strip()
    if isinstance(error, JaxRuntimeError) or text.startswith(("INVALID_ARGUMENT:", "INTERNAL:")):
        return ProgramFailed(f"the program failed: {text}")
    return None
