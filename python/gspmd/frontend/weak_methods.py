"""Methods without a reference to their object, which the object's own members can hold without a reference cycle."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from jax.extend import source_info_util

source_info_util.register_exclusion(__file__)  # no part of what the user's function calls


def weakly(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method without a reference to its object."""
    found: Any = weakref.WeakMethod(method)

    def call(*args: Any, **kwargs: Any) -> Any:
        return found()(*args, **kwargs)

    return call
