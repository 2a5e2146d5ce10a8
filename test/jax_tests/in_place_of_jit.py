"""A plugin of pytest: `gspmd.jit` takes the place of `jax.jit` and `pjit`, and how tests end is written to a file."""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

_OPEN = object()  # in place of an argument that is not given


def pytest_configure(config: pytest.Config) -> None:
    if _is_controller(config):
        return
    _find_tools()
    if os.environ.get("GSPMD_IN_PLACE_OF_JIT"):
        replace()


def _find_tools() -> None:
    """Let tests of kernels find what they use of the checkout: it is not installed with JAX."""
    folder = Path(os.environ.get("GSPMD_JAX_CHECKOUT", "")) / "jax" / "_src" / "pallas"
    if (folder / "pallas_test_util.py").exists():
        from jax._src import pallas

        pallas.__path__.append(str(folder))


def _is_controller(config: pytest.Config) -> bool:
    return not hasattr(config, "workerinput") and bool(config.getoption("numprocesses", None))


def replace() -> None:
    """Put `gspmd.jit` in the place of `jax.jit` and `pjit` for whoever is neither JAX nor gspmd."""
    import jax
    from jax._src import pjit
    from jax.experimental import pjit as experimental

    import gspmd

    own, own_pjit = jax.jit, pjit.pjit

    @functools.wraps(own)
    def jit(fun: Any = None, **options: Any) -> Any:
        return own(fun, **options) if _is_called_inside() else gspmd.jit(fun, **options)

    @functools.wraps(own_pjit)
    def pjit_(fun: Any, in_shardings: Any = _OPEN, out_shardings: Any = _OPEN, **options: Any) -> Any:
        given = {"in_shardings": _whole(in_shardings), "out_shardings": _whole(out_shardings)}
        given = {name: value for name, value in given.items() if _is_given(value)}
        return (own_pjit if _is_called_inside() else gspmd.jit)(fun, **given, **options)

    jax.jit = jit
    experimental.pjit = pjit.pjit = pjit_
    _count_calls()


def _is_called_inside() -> bool:
    """Whether JAX or gspmd asks for a function by `jit`, and not the test."""
    return sys._getframe(2).f_globals["__name__"].split(".")[0] in ("gspmd", "jax")


def _count_calls() -> None:
    """Count the calls that C++ could not make alone, as JAX does for its tests.

    Their tools are not imported here: they take the standard output of that moment for the one to capture.
    """
    import jax
    from jax._src import core, util

    from gspmd.frontend.jitted import Jitted
    from gspmd.frontend.lowered import Compiled

    def counting(method: Any, event: str) -> Any:
        @functools.wraps(method)
        def called(*args: Any, **kwargs: Any) -> Any:
            tools = sys.modules.get("jax._src.test_util")
            counts = {} if tools is None else tools.thread_local_state.counts
            before = counts.get(event, 0)
            result = method(*args, **kwargs)
            traced = any(isinstance(leaf, core.Tracer) for leaf in jax.tree.leaves(result))
            if counts.get(event, 0) == before and not traced:  # what is left to JAX is counted there
                util.test_event(event)
            return result

        return called

    Jitted._call_of_new_kind = counting(Jitted._call_of_new_kind, "jit_cpp_cache_miss")
    Compiled._call_of_new_kind = counting(Compiled._call_of_new_kind, "stages_compiled_call")


def _whole(specs: Any) -> Any:
    """What `pjit` takes None for, within `with mesh:`: `gspmd.jit` and `jax.jit` leave it open."""
    import jax
    from jax._src.mesh import thread_resources

    if thread_resources.env.physical_mesh.empty or not _is_given(specs):
        return specs
    whole = jax.sharding.PartitionSpec()
    return jax.tree.map(lambda spec: whole if spec is None else spec, specs, is_leaf=lambda spec: spec is None)


def _is_given(value: Any) -> bool:
    return value is not _OPEN and type(value).__name__ != "UnspecifiedValue"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the worst that a test ended with; the process that controls the others hears of crashes, too."""
    path = os.environ.get("GSPMD_OUTCOMES")
    if path is None or os.environ.get("PYTEST_XDIST_WORKER"):
        return
    if report.when == "call" or report.outcome != "passed":
        message = "" if report.outcome != "failed" else _message(report)
        test = report.nodeid.partition("::")[2] or report.nodeid
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"test": test, "ended": report.outcome, "message": message}) + "\n")


def _message(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[:2])[:400] if lines else ""
