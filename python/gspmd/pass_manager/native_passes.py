"""MLIR's own passes by name: checked when a pipeline is put together, and nested where they have to be."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager as MlirPassManager

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.pass_manager.pipeline_text import Element, parse_option_texts, parse_pipeline
from gspmd.transforms.parsing.mlir import new_context
from gspmd.transforms.passes import unknown_option, unknown_pass

COMMON_PASSES = (
    "canonicalize",
    "cse",
    "inline",
    "loop-invariant-code-motion",
    "print-op-stats",
    "remove-dead-values",
    "sccp",
    "sdy-close-shardings",
    "sdy-convert-global-to-local",
    "sdy-drop-sharding-and-mesh",
    "sdy-drop-sharding-rules",
    "sdy-inline-meshes",
    "sdy-insert-explicit-reshards",
    "sdy-lift-inlined-meshes",
    "sdy-populate-op-sharding-rules",
    "sdy-propagation-pipeline",
    "sdy-reshard-to-collectives",
    "sdy-sharding-constraint-to-reshard",
    "snapshot-op-locations",
    "chlo-legalize-to-stablehlo",
    "stablehlo-canonicalize-dynamism",
    "stablehlo-complex-math-expander",
    "stablehlo-convert-to-signless",
    "stablehlo-legalize-composite-to-call",
    "stablehlo-legalize-deprecated-ops",
    "stablehlo-legalize-to-vhlo",
    "stablehlo-refine-shapes",
    "strip-debuginfo",
    "symbol-dce",
    "symbol-privatize",
    "topological-sort",
    "vhlo-legalize-to-stablehlo",
)
"""Passes of MLIR worth naming in help and in near misses; every other one that jaxlib registers runs as well."""

_RESTRICTED = re.compile(r"restricted to '([\w.]+)'")
_UNREGISTERED = re.compile(r"'([^']*)' does not refer to a registered pass")
_NO_SUCH_OPTION = re.compile(r"no such option (\S+)")
_FAILED = re.compile(r"failed to add `([\w.-]+)` with options `(.*)`", re.DOTALL)


@functools.cache
def _context() -> ir.Context:
    """A context for trying pass names: passes belong to the process, only the manager wants one."""
    return new_context()


def check_native(element: Element, ours: Iterable[str]) -> Element:
    """The element in a form that MLIR runs on a module, e.g. `cse`, or `sdy-close-shardings` put into `func.func(...)`.

    Raises UsageError for an unknown pass, with near misses among MLIR's and `ours`, and for a wrong option.
    """
    problem = _problem(str(element))
    if problem is None:
        return element
    anchor = _RESTRICTED.search(problem)
    if anchor and element.children is None:
        return check_native(Element(anchor[1], children=(element,)), ours)
    raise _as_usage_error(problem, element, ours)


def options_of_native(name: str) -> tuple[str, ...]:
    """The names of the options that a native pass has."""
    manager = MlirPassManager("builtin.module", _context())
    try:
        manager.add(str(check_native(Element(name), ())))
        passes = [p for e in parse_pipeline(str(manager)) for p in e.passes() if p.name == name]
    except (ValueError, UsageError):
        return ()
    return tuple(key for p in passes for key, _ in parse_option_texts(p.options))


def _problem(text: str) -> str | None:
    """What MLIR says against this pipeline text, None if nothing."""
    with _stderr_to_nowhere() if "{" in text else contextlib.nullcontext():
        try:
            MlirPassManager("builtin.module", _context()).add(text)
        except ValueError as error:
            return str(error)
    return None


def _as_usage_error(problem: str, element: Element, ours: Iterable[str]) -> UsageError:
    missing = _UNREGISTERED.search(problem)
    if missing:
        return unknown_pass(missing[1], (*ours, *COMMON_PASSES))
    failed = _FAILED.search(problem)
    owner = failed[1] if failed else element.name
    option = _NO_SUCH_OPTION.search(problem)
    if option:
        return unknown_option(owner, option[1], options_of_native(owner))
    if failed and failed[2]:
        return UsageError(
            f"pass '{owner}' does not take the options '{failed[2]}'",
            hint="correct their values",
            code=Code.UNKNOWN_PASS,
        )
    return UsageError(
        f"cannot run '{element}' on a module: {' '.join(problem.split())}",
        hint="correct the pipeline",
        code=Code.UNKNOWN_PASS,
    )


@contextlib.contextmanager
def _stderr_to_nowhere() -> Iterator[None]:
    """MLIR's option parser writes to the process's stderr what its exception leaves out, the option's name."""
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
