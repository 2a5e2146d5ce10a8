"""A plugin of pytest: `gspmd.jit` takes the place of `jax.jit` and `pjit`, and how tests end is written to a file."""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("GSPMD_IN_PLACE_OF_JIT") and not _is_controller(config):
        _replace()


def _is_controller(config: pytest.Config) -> bool:
    return not hasattr(config, "workerinput") and bool(config.getoption("numprocesses", None))


def _replace() -> None:
    import jax
    from jax._src import pjit
    from jax.experimental import pjit as experimental

    import gspmd

    own = jax.jit

    @functools.wraps(own)
    def jit(fun: Any = None, **options: Any) -> Any:
        if sys._getframe(1).f_globals["__name__"].startswith("gspmd."):  # what it is made of
            return own(fun, **options)
        return gspmd.jit(fun, **options)

    @functools.wraps(pjit.pjit)
    def pjit_(fun: Any, in_shardings: Any = None, out_shardings: Any = None, **options: Any) -> Any:
        given = {"in_shardings": in_shardings, "out_shardings": out_shardings}
        return gspmd.jit(fun, **{name: value for name, value in given.items() if _is_given(value)}, **options)

    jax.jit = jit
    experimental.pjit = pjit.pjit = pjit_


def _is_given(value: Any) -> bool:
    return value is not None and type(value).__name__ != "UnspecifiedValue"


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
