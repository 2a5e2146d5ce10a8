"""Methods that are kept by what their object holds, without a cycle: the object is freed when it is out of use."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


def weakly(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method without a reference to its object."""
    found: Any = weakref.WeakMethod(method)

    def call(*args: Any, **kwargs: Any) -> Any:
        return found()(*args, **kwargs)

    return call
