"""Calls of programs that C++ dispatches, with a wrapper whose overhead is too small to measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax.errors import JaxRuntimeError
from jax.extend import source_info_util

from gspmd.dialect.errors import Error
from gspmd.frontend import jax_stages
from gspmd.runtime import arguments, in_flight
from gspmd.runtime.familiar_errors import ProgramFailed

source_info_util.register_exclusion(__file__)  # no part of what the user's function calls
_Array, _flatten = jax_stages.Array, jax_stages.flatten
_is_deleted: Callable[[Any], bool] = _Array.is_deleted
NamedLeaves = list[tuple[str, Any]]  # the leaves of a call's arguments, each after its name in errors


class Dispatched:
    """A callable like a function of `jax.jit`, whose errors name the user's arguments."""

    _dispatched: Any
    """The function that `jax_stages.dispatched` returned."""
    _donates: bool

    @property
    def pace(self) -> in_flight.StartPolicy:
        """The policy by which a call waits for earlier ones."""
        return self._pace

    @pace.setter
    def pace(self, pace: in_flight.StartPolicy) -> None:
        self._pace, self._due = pace, pace.due

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._donates:  # jaxlib may end the process if a donated array is deleted, or is passed twice
            leaves = _flatten((args, kwargs) if kwargs else args)[0]
            for leaf in leaves:
                if leaf.__class__ is _Array and _is_deleted(leaf):
                    self._check_donated(args, kwargs)
            if len(leaves) > 1 and len(set(map(id, leaves))) < len(leaves):
                self._check_donated(args, kwargs)
        try:
            if self._due():
                return self._pace.start(self._dispatched, args, kwargs)
            return self._dispatched(*args, **kwargs)
        except (JaxRuntimeError, RuntimeError, ValueError) as error:  # of a program that C++ called
            explanation = explained(error, self._passed(args, kwargs))
            if explanation is None:
                raise
            raise explanation from error

    def _passed(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NamedLeaves:
        raise NotImplementedError

    def _donated(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sequence[bool]:
        """For every leaf, whether it is donated."""
        raise NotImplementedError

    def _check_donated(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise ExecutionError for arrays that are deleted, or that are donated and passed twice."""
        passed = self._passed(args, kwargs)
        _check_alive(passed)
        arguments.check_donated_once(self._donated(args, kwargs), [leaf for _, leaf in passed])


def _check_alive(passed: NamedLeaves) -> None:
    for index, (path, leaf) in enumerate(passed):
        if jax_stages.is_array(leaf) and leaf.is_deleted():
            raise arguments.gone(f"argument {index} '{path}'")


def explained(error: Exception, passed: NamedLeaves) -> Error | None:
    """The error of a call, as one that names the user's arguments; None for an error that no program's run raised."""
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
