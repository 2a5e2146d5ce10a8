"""Renamed public names: the old ones are accepted for some versions, with a warning.

CONTRIBUTING.md says for how long. A renamed option of a pass has `renamed` in its declaration, a renamed pass in its
class, a renamed argument of a function is declared by `renamed_argument`.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from gspmd.dialect.diagnostic import Diagnostic, Severity, send
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")


@dataclasses.dataclass(frozen=True, slots=True)
class Renamed:
    """A rename from `old`, which version `until`, such as `0.3.0`, no longer accepts."""

    old: str
    until: str = dataclasses.field(kw_only=True)

    def notice(self, kind: str, new: str) -> str:
        """The warning for a use of the old name of a thing, such as a pass option."""
        return f"{kind} '{self.old}' is called '{new}' now, and gspmd {self.until} will not take the old name"


@functools.lru_cache(maxsize=256)
def warn_in_text(renamed: Renamed, kind: str, new: str) -> None:
    """Warn, once in a process, of an old name on a command line or in a pipeline text."""
    send(Diagnostic(Severity.WARNING, renamed.notice(kind, new)))


def warn_in_python(renamed: Renamed, kind: str, new: str, stacklevel: int = 2) -> None:
    """Warn of an old name in Python, with a DeprecationWarning at the line `stacklevel` calls above the caller."""
    warnings.warn(renamed.notice(kind, new), DeprecationWarning, stacklevel=stacklevel + 1)


def by_old_name(new_names: Mapping[str, tuple[Renamed, ...]]) -> dict[str, tuple[str, Renamed]]:
    """The new name for each old one, from the old names of each new one."""
    return {each.old: (new, each) for new, all_ in new_names.items() for each in all_}


def renamed_argument(new: str, renamed: Renamed) -> Callable[[Callable[_Args, _Result]], Callable[_Args, _Result]]:
    """A decorator for a function with a keyword argument `new` that had another name.

    Errors: the function raises UsageError where both are given.
    """

    def decorate(function: Callable[_Args, _Result]) -> Callable[_Args, _Result]:
        @functools.wraps(function)
        def taking_both(*args: _Args.args, **kwargs: _Args.kwargs) -> _Result:
            return function(*args, **_with_new_name(function.__qualname__, new, renamed, kwargs))

        return taking_both

    return decorate


def _with_new_name(function: str, new: str, renamed: Renamed, kwargs: dict[str, Any]) -> dict[str, Any]:
    if renamed.old not in kwargs:
        return kwargs
    if new in kwargs:
        raise UsageError(
            f"{function} got '{new}' and '{renamed.old}', its old name",
            hint=f"give '{new}'",
            code=Code.OPTIONS_DISAGREE,
        )
    warn_in_python(renamed, f"argument of {function}", new, stacklevel=3)
    return {new if name == renamed.old else name: value for name, value in kwargs.items()}
