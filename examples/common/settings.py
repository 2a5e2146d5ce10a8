"""Settings that name one of several things."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError

T = TypeVar("T")


def choose(setting: str, name: str, choices: Mapping[str, T]) -> T:
    """The choice of this name. Raises UsageError where there is none."""
    if name not in choices:
        raise UsageError(
            f"'{name}' is no value for '{setting}'", hint=f"choose one of {', '.join(choices)}", code=Code.BAD_VALUE
        )
    return choices[name]
