"""What a library compiles and calls by `jax.jit`, or by `gspmd.jit` in its place: executables, times and results."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import statistics
import time
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

OURS, JAX = "gspmd.jit", "jax.jit"


def check_made_by(how: str, compiled: Any) -> None:
    """Raise AssertionError for an executable of the other one: figures would be those of a program beside itself."""
    is_ours = type(compiled).__module__.partition(".")[0] == "gspmd"
    assert is_ours == (how == OURS), f"{how} was asked for, and {type(compiled)} was made"


def jit_of(how: str) -> Callable[..., Any]:
    """The function that `how` names."""
    if how == OURS:
        import gspmd

        return gspmd.jit
    import jax

    return jax.jit


@dataclasses.dataclass
class Record:
    """What one jitted function did: seconds of the processor to make its executable, seconds of calls, results.

    `partition_s` is the part of gspmd in `lower_s`, 0 for `jax.jit`.
    """

    name: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    lower_s: float = 0.0
    partition_s: float = 0.0
    compile_s: float = 0.0
    first_call_s: float | None = None
    calls_s: list[float] = dataclasses.field(default_factory=list)
    results: list[Any] = dataclasses.field(default_factory=list)
    compiled: Any = None
    arguments: tuple[Any, Any] | None = None
    function: Any = None

    @property
    def call_s(self) -> float:
        """A call after the first, which may compile; 0 if there was none."""
        return statistics.median(self.calls_s) if self.calls_s else 0.0

    def executable(self) -> Any:
        """What was compiled; of a function that was only called, made once more for the arguments of its first call."""
        if self.compiled is None:
            assert self.arguments is not None, f"'{self.name}' was neither lowered nor called"
            args, kwargs = self.arguments
            self.function.lower(*args, **kwargs).compile()
            self.lower_s = self.partition_s = self.compile_s = 0.0  # of what may be known already
        return self.compiled


class Watch:
    """Stands where a library has the module `jax`: everything is JAX's own, but that `jit` is watched.

    `kept(results)` is what is kept of the results of each call, which is waited for.
    """

    def __init__(self, how: str, kept: Callable[[Any], Any] = lambda results: None) -> None:
        self._jit, self._kept = jit_of(how), kept
        self.records: list[Record] = []

    def __getattr__(self, name: str) -> Any:
        import jax

        return getattr(jax, name)

    def jit(self, fun: Any = None, **options: Any) -> Any:
        if fun is None:
            return functools.partial(self.jit, **options)
        self.records.append(Record(getattr(fun, "__name__", "function"), options))
        return _Function(self._jit(fun, **options), self.records[-1], self._kept)

    def within(self, modules: Iterable[str]) -> None:
        """Replace `jax` in these modules."""
        for name in modules:
            vars(importlib.import_module(name))["jax"] = self

    def imported(self, name: str) -> ModuleType:
        """A module in which `jax.jit` is this one, also where it decorates; what it imports has to be there already."""
        import jax

        plain = jax.jit

        def instead(fun: Any = None, **options: Any) -> Any:
            if fun is None:
                return functools.partial(instead, **options)
            jax.jit = plain  # which gspmd.jit itself calls
            try:
                return self.jit(fun, **options)
            finally:
                jax.jit = instead

        jax.jit = instead
        try:
            module = importlib.import_module(name)
        finally:
            jax.jit = plain
        vars(module)["jax"] = self
        return module


class _Function:
    def __init__(self, inner: Any, record: Record, kept: Callable[[Any], Any]) -> None:
        # Names only: what a function of gspmd keeps under its own names is not to replace what is kept here.
        functools.update_wrapper(self, inner, updated=())
        self._inner, self._record, self._kept = inner, record, kept
        record.function = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        started = time.process_time()
        lowered = self._inner.lower(*args, **kwargs)
        self._record.lower_s += time.process_time() - started
        return _Lowered(lowered, self._record)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import jax

        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs))):
            return self._inner(*args, **kwargs)
        record = self._record
        if record.arguments is None:
            record.arguments = jax.tree.map(_described, (args, kwargs))
        started = time.perf_counter()
        results = jax.block_until_ready(self._inner(*args, **kwargs))
        seconds = time.perf_counter() - started
        if record.first_call_s is None:
            record.first_call_s = seconds
        else:
            record.calls_s.append(seconds)
        record.results.append(self._kept(results))
        return results


def _described(leaf: Any) -> Any:
    """An array without its data, which may be donated."""
    import jax

    if not isinstance(leaf, jax.Array):
        return leaf
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)


class _Lowered:
    def __init__(self, inner: Any, record: Record) -> None:
        self._inner, self._record = inner, record

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        record = self._record
        started = time.process_time()
        getattr(self._inner, "partitioned", None)  # gspmd partitions then, and keeps what comes out
        record.partition_s += (partitioned := time.process_time()) - started
        record.compiled = self._inner.compile(*args, **kwargs)
        record.compile_s += time.process_time() - partitioned
        return record.compiled
