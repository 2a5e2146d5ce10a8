"""How many programs are on their way to CPU devices that one process has several of.

XLA's client for CPUs has as many threads as devices, or cores if these are more. One program takes a thread for every
device until it ends, as its collectives wait for each other; later ones wait their turn without a thread. But a device
lets 32 programs in: bringing it one more takes a thread that waits until one of the 32 has ended, and that one may then
lack the threads that it needs. No program ends any more, and XLA ends the process a minute later. So before every
second program that gspmd starts there, it waits for the one before, and with that for all others, as they run one at a
time. That leaves room for programs of others in between.

A program that takes XLA less than the switch of a thread is run as it is started, unless it has to wait for another
one. Starting it costs more than running it, so that asking each time whether the one before has ended would show: only
every sixteenth is waited for. Where threads are many, nothing has to wait. Source: xla/pjrt/cpu/cpu_client.cc,
`max_inflight_computations_per_device`, `cheap_computation_`, `DefaultThreadPoolSize`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import jax
from jax.core import Tracer

from gspmd.dialect.errors import ExecutionError

_T = TypeVar("_T")
_SMALL = 4096  # elements
_CONTAINERS = (tuple, list, dict)
_MOST = 2
"""Programs of ours at a time: with 15 of others to each of them, 32 are on their way.

One that is prepared while another one runs is all that devices can make use of.
"""
_MOST_BRIEF = 16
"""Brief ones of ours before one is waited for: half of the 32, so that as many of others have room."""

_BRIEF_FLOPS = 1000  # of a device: XLA runs what has fewer in the thread that starts it
_ENOUGH_THREADS = 4
"""To a device: as many as a program takes, and as many for each of three threads of Python that wait to start one."""


@dataclasses.dataclass(frozen=True)
class Pace:
    """How a program is started: `due()` is whether it is by `start`, and not by a call alone; asked at each call."""

    rank: int
    due: Callable[[], bool]
    start: Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any]], Any]


def share_threads(devices: Sequence[Any]) -> bool:
    """Whether programs over these devices may wait for each other without end."""
    return len(devices) > 1 and devices[0].platform == "cpu" and _threads() < _ENOUGH_THREADS * len(devices)


@functools.cache
def _threads() -> int:
    """Those that XLA's client has, where devices are not more."""
    for name in ("PJRT_NPROC", "NPROC"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pace(devices: Sequence[Any], flops: Callable[[], float]) -> Pace:
    """That of a program over these devices, of which one does so many operations by XLA's count."""
    if not share_threads(devices):
        return FREE
    return BRIEF if flops() < _BRIEF_FLOPS else WITH_ROOM


class _Called(threading.local):
    """Whether what this thread does is waited for by a program over several CPU devices."""

    by_program = False


_CALLED = _Called()


def called_by_program(function: Callable[..., _T], args: Sequence[Any]) -> _T:
    """What a function returns that a program over several CPU devices calls, and waits for."""
    before, _CALLED.by_program = _CALLED.by_program, True
    try:
        return function(*args)
    finally:
        _CALLED.by_program = before


class _Started:
    """What was started since all had ended. Threads may miscount by one each, for which there is room."""

    count = 0
    last: jax.Array | weakref.ref[jax.Array] | None = None  # a result, which is kept for this only if it is small


@contextlib.contextmanager
def turn(devices: Sequence[Any]) -> Iterator[Callable[[_T], _T]]:
    """Inside, one program is started, and what is given is called with its results, which it returns.

    Errors: as `make_room`.
    """
    if share_threads(devices):
        make_room()
        yield started
    elif len(devices) > 1:
        _check_not_called()
        yield _as_it_is
    else:
        yield _as_it_is


def _as_it_is(results: _T) -> _T:
    return results


def _with_room(function: Callable[..., _T], args: Sequence[Any], kwargs: Mapping[str, Any]) -> _T:
    """What a function returns that starts one program over devices that share threads, with room for it."""
    make_room()
    return started(function(*args, **kwargs))


def _to_its_end(function: Callable[..., _T], args: Sequence[Any], kwargs: Mapping[str, Any]) -> _T:
    """What a function returns that starts one program, which has ended."""
    results = function(*args, **kwargs)
    array = _first(results)
    if array is not None:
        _wait(array)
    return results


def make_room() -> None:
    """To be called before a program over devices that share threads is started: waits until few are on their way.

    Errors: ExecutionError in a function that such a program calls, as the two would wait for each other without end.
    """
    _check_not_called()
    if _Started.count >= _MOST:
        kept = _Started.last
        last = kept() if isinstance(kept, weakref.ref) else kept
        if last is not None and not last.is_deleted():
            _wait(last)


def _check_not_called() -> None:
    if _CALLED.by_program:
        raise ExecutionError(
            "a function that a program calls runs another one over several CPU devices, which are busy with the first",
            hint="compute on one device or with NumPy there, or call the function before or after the program",
        )


def started(results: _T) -> _T:
    """To be called when it was; `results` are a pytree of what it returned, and are returned."""
    _Started.count += 1
    if _Started.count >= _MOST:
        _remember(results)
    return results


def _remember(results: Any) -> None:
    """Keep what the next one waits for."""
    array = _first(results)
    if array is None:
        _Started.last = None
        return
    _Started.last = weakref.ref(array) if array.size > _SMALL else array
    if _Started.count > _MOST:  # the results of the one before are gone
        _wait(array)


def _wait(array: jax.Array) -> None:
    with contextlib.suppress(RuntimeError, ValueError):  # an error is for whoever uses the array
        array.block_until_ready()
    _Started.count = 0


def _first(results: Any) -> jax.Array | None:
    """An array among the results, if there is one: the first, in what most results are made of."""
    first = results
    while isinstance(first, _CONTAINERS) and first:
        first = next(iter(first.values())) if isinstance(first, dict) else first[0]
    if not isinstance(first, jax.Array):
        first = next((leaf for leaf in jax.tree.leaves(results) if isinstance(leaf, jax.Array)), None)
    return None if isinstance(first, Tracer) else first


FREE = Pace(0, itertools.repeat(False).__next__, lambda function, args, kwargs: function(*args, **kwargs))
BRIEF = Pace(1, itertools.cycle([False] * (_MOST_BRIEF - 1) + [True]).__next__, _to_its_end)
WITH_ROOM = Pace(2, itertools.repeat(True).__next__, _with_room)
