"""How far long work is, told by whoever does it to whoever shows it.

Nothing is shown by itself: without a follower, telling costs a look at a variable.
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
    """A step that begins: its name, and which it is of how many."""

    name: str
    number: int
    total: int


Follower = Callable[[PassStep], None]
_follower: contextvars.ContextVar[Follower | None] = contextvars.ContextVar("gspmd_progress", default=None)


def tell(name: str, number: int, total: int) -> None:
    """Say that a step begins; numbers count from 1."""
    follower = _follower.get()
    if follower is not None:
        follower(PassStep(name, number, total))


def counted(items: Sequence[T], name: str | Callable[[T], str]) -> Iterator[T]:
    """The items, each told as it begins, by one name or by its own."""
    for number, item in enumerate(items, 1):
        tell(name if isinstance(name, str) else name(item), number, len(items))
        yield item


def told(items: Iterable[T], name: str, total: int) -> Iterator[T]:
    """What an iterator gives, `total` in all, each told while it is being made."""
    rest = iter(items)
    for number in range(1, total + 1):
        tell(name, number, total)
        try:
            yield next(rest)
        except StopIteration:
            return


@contextlib.contextmanager
def following(follower: Follower) -> Iterator[None]:
    """Inside, `follower` hears of every step."""
    token = _follower.set(follower)
    try:
        yield
    finally:
        _follower.reset(token)
