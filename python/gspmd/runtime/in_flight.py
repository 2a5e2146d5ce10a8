"""Limit the programs in flight on several CPU devices of one process.

XLA's CPU client has as many threads as devices, or as cores if there are more cores. A program takes one thread per
device until it ends, since its collectives wait for each other; queued programs take none. But a device admits only 32
programs: enqueuing another one blocks a thread until one of the 32 ends, and the running program may then lack a
thread. This is a deadlock, and XLA ends the process a minute later. So before every second program that gspmd starts
there, it waits for the previous one, and thereby for all earlier ones, since they run one at a time. That leaves room
for other programs in between.

XLA runs very short programs synchronously, unless they have to wait for another one. Starting these costs more than
running them, and so would a check before each one: gspmd waits for every sixteenth. If there are enough threads,
nothing waits. Source: xla/pjrt/cpu/cpu_client.cc, `max_inflight_computations_per_device`, `cheap_computation_`,
`DefaultThreadPoolSize`.
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
_MAX = 2
"""Programs of gspmd in flight: with 15 other programs for each of them, 32 are in flight.

Devices cannot use more than one program that is prepared while another one runs.
"""
_MAX_BRIEF = 16
"""Short programs of gspmd between two waits: half of the 32, so that as many other programs have room."""

_BRIEF_FLOPS = 1000  # operations of a device: XLA runs programs with fewer in the thread that starts them
_ENOUGH_THREADS = 4
"""Threads per device: one for the program, and one for each of three Python threads that wait to start one."""


@dataclasses.dataclass(frozen=True)
class StartPolicy:
    """How a program is started: at each call, `due()` says whether to use `start` instead of a plain call."""

    rank: int
    due: Callable[[], bool]
    start: Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any]], Any]


def share_threads(devices: Sequence[Any]) -> bool:
    """Whether programs over these devices may deadlock."""
    return len(devices) > 1 and devices[0].platform == "cpu" and _threads() < _ENOUGH_THREADS * len(devices)


@functools.cache
def _threads() -> int:
    """The number of threads of XLA's client, unless there are more devices."""
    for name in ("PJRT_NPROC", "NPROC"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pace(devices: Sequence[Any], flops: Callable[[], float]) -> StartPolicy:
    """The pace of a program over these devices, with so many operations per device by XLA's count."""
    if not share_threads(devices):
        return FREE
    return BRIEF if flops() < _BRIEF_FLOPS else WITH_ROOM


class _Called(threading.local):
    """Whether a program over several CPU devices waits for this thread."""

    by_program = False


_CALLED = _Called()


def called_by_program(function: Callable[..., _T], args: Sequence[Any]) -> _T:
    """Call a function on behalf of a program over several CPU devices that waits for it."""
    before, _CALLED.by_program = _CALLED.by_program, True
    try:
        return function(*args)
    finally:
        _CALLED.by_program = before


class _Started:
    """The programs started since all had ended. Each thread may miscount by one, for which there is room."""

    count = 0
    last: jax.Array | weakref.ref[jax.Array] | None = None  # a result, of which a reference is held only if it is small


@contextlib.contextmanager
def turn(devices: Sequence[Any]) -> Iterator[Callable[[_T], _T]]:
    """The context in which one program is started; the yielded function is called with its results and returns them.

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
    """Call a function that starts one program over devices that share threads, after making room for it."""
    make_room()
    return started(function(*args, **kwargs))


def _to_its_end(function: Callable[..., _T], args: Sequence[Any], kwargs: Mapping[str, Any]) -> _T:
    """Call a function that starts one program, and wait for its end."""
    results = function(*args, **kwargs)
    array = _first(results)
    if array is not None:
        _wait(array)
    return results


def make_room() -> None:
    """Wait until few programs are in flight; call this before starting one over devices that share threads.

    Errors: ExecutionError in a callback of such a program, since the two would deadlock.
    """
    _check_not_called()
    if _Started.count >= _MAX:
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
    """Call this after starting it, with the pytree of its results, which is returned."""
    _Started.count += 1
    if _Started.count >= _MAX:
        _remember(results)
    return results


def _remember(results: Any) -> None:
    """Record the result for which the next one waits."""
    array = _first(results)
    if array is None:
        _Started.last = None
        return
    _Started.last = weakref.ref(array) if array.size > _SMALL else array
    if _Started.count > _MAX:  # the results of the previous one are gone
        _wait(array)


def _wait(array: jax.Array) -> None:
    with contextlib.suppress(RuntimeError, ValueError):  # the user of the array gets the error
        array.block_until_ready()
    _Started.count = 0


def _first(results: Any) -> jax.Array | None:
    """An array among the results, if there is one; fast for common containers."""
    first = results
    while isinstance(first, _CONTAINERS) and first:
        first = next(iter(first.values())) if isinstance(first, dict) else first[0]
    if not isinstance(first, jax.Array):
        first = next((leaf for leaf in jax.tree.leaves(results) if isinstance(leaf, jax.Array)), None)
    return None if isinstance(first, Tracer) else first


FREE = StartPolicy(0, itertools.repeat(False).__next__, lambda function, args, kwargs: function(*args, **kwargs))
BRIEF = StartPolicy(1, itertools.cycle([False] * (_MAX_BRIEF - 1) + [True]).__next__, _to_its_end)
WITH_ROOM = StartPolicy(2, itertools.repeat(True).__next__, _with_room)
