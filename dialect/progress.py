"""Progress of long computations.

Without a follower nothing is shown, and reporting progress costs one variable access.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class PassStep:
    """The start of a step: its name, its number, and the number of steps."""

    name: str
    number: int
    total: int


Follower = Callable[[PassStep], None]
_follower: contextvars.ContextVar[Follower | None] = contextvars.ContextVar("gspmd_progress", default=None)


def tell(name: str, number: int, total: int) -> None:
    """Report the start of a step; numbers count from 1."""
    follower = _follower.get()
    if follower is not None:
        follower(PassStep(name, number, total))


def counted(items: Sequence[T], name: str | Callable[[T], str]) -> Iterator[T]:
    """The items; the start of each is reported, with a common name or its own."""
    for number, item in enumerate(items, 1):
        tell(name if isinstance(name, str) else name(item), number, len(items))
        yield item


def told(items: Iterable[T], name: str, total: int) -> Iterator[T]:
    """The items of an iterator, `total` in all; each is reported while it is computed."""
    rest = iter(items)
    for number in range(1, total + 1):
        tell(name, number, total)
        try:
            yield next(rest)
        except StopIteration:
            return


@contextlib.contextmanager
def following(follower: Follower | None) -> Iterator[None]:
    """Inside, `follower` receives every step, and nobody does if there is none."""
    token = _follower.set(follower)
    try:
        yield
    finally:
        _follower.reset(token)
