"""gspmd: partitions a single-device StableHLO program into one SPMD program with collectives.

`partition` makes the per-device program, `propagate` only completes the shardings, `explain` says why they are so,
`compile` makes a partitioned module ready to run, `check` compares it with the original, `verify` proves them equal.
What needs jax is imported when it is first used.
"""

from __future__ import annotations

import importlib.util
import os
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

if PathFinder.find_spec("gspmd.dialect", __path__) is None:  # links to the folders beside python/ were lost
    __path__.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))

for _part in ("dialect", "tools", "transforms"):
    if importlib.util.find_spec(f"gspmd.{_part}") is None:
        raise ImportError(f"gspmd is not whole: '{os.path.dirname(__file__)}' has no '{_part}'; install it again")

from gspmd.dialect.errors import (  # noqa: E402 - found along the path above
    AnnotationError,
    Error,
    ErrorKind,
    ExecutionError,
    InputError,
    InternalError,
    ParseError,
    SourceLocation,
    Unsupported,
    UsageError,
)

if TYPE_CHECKING:
    from gspmd.api import Partitioned, Sharding, partition, propagate, verify
    from gspmd.checks.checking import CheckReport, check
    from gspmd.collectives import Collective
    from gspmd.comparisons.opinions import SecondOpinion
    from gspmd.comparisons.second_opinion import compare
    from gspmd.comparisons.versions import VersionComparison, compare_versions
    from gspmd.compiled.ahead_of_time import compile_for, load_compiled
    from gspmd.compiled.compiled_program import CompiledProgram
    from gspmd.costs.cost_report import CostReport
    from gspmd.costs.program_cost import cost
    from gspmd.explanations.explanation import Explanation, explain
    from gspmd.frontend.annotation import UNSPECIFIED, annotate, mesh_split
    from gspmd.frontend.device_mesh import DeviceMesh, make_mesh
    from gspmd.frontend.jitted import jit
    from gspmd.frontend.lowered import Compiled, Lowered
    from gspmd.frontend.pipeline_schedule import bubble_ratio
    from gspmd.frontend.pipelining import pipeline
    from gspmd.pass_manager import PassManager
    from gspmd.pictures.visualizing import visualize
    from gspmd.plan_search.plan import ShardingPlan
    from gspmd.plan_search.searching import search
    from gspmd.reports.report import Report, report
    from gspmd.runtime.executable import Executable, compile, load, save
    from gspmd.runtime.processes import wait
    from gspmd.runtime.sharded_array import ShardedArray
    from gspmd.suggestions.suggesting import Suggestions, suggest
    from gspmd.transforms.reshard.strict import ReshardError
    from gspmd.verification.verdicts import ResultVerdict, Verdict, Verification
    from gspmd.verification.verifying import NotProved

_HOME = {
    "CompiledProgram": "compiled.compiled_program",
    "compile_for": "compiled.ahead_of_time",
    "load_compiled": "compiled.ahead_of_time",
    "UNSPECIFIED": "frontend.annotation",
    "annotate": "frontend.annotation",
    "mesh_split": "frontend.annotation",
    "DeviceMesh": "frontend.device_mesh",
    "make_mesh": "frontend.device_mesh",
    "jit": "frontend.jitted",
    "Compiled": "frontend.lowered",
    "Lowered": "frontend.lowered",
    "Partitioned": "api",
    "Sharding": "api",
    "partition": "api",
    "propagate": "api",
    "verify": "api",
    "Collective": "collectives",
    "CostReport": "costs.cost_report",
    "cost": "costs.program_cost",
    "ReshardError": "transforms.reshard.strict",
    "PassManager": "pass_manager.manager",
    "bubble_ratio": "frontend.pipeline_schedule",
    "pipeline": "frontend.pipelining",
    "Explanation": "explanations.explanation",
    "explain": "explanations.explanation",
    "SecondOpinion": "comparisons.opinions",
    "compare": "comparisons.second_opinion",
    "VersionComparison": "comparisons.versions",
    "compare_versions": "comparisons.versions",
    "CheckReport": "checks.checking",
    "check": "checks.checking",
    "Executable": "runtime.executable",
    "compile": "runtime.executable",
    "load": "runtime.executable",
    "save": "runtime.executable",
    "ShardedArray": "runtime.sharded_array",
    "wait": "runtime.processes",
    "ShardingPlan": "plan_search.plan",
    "search": "plan_search.searching",
    "Report": "reports.report",
    "report": "reports.report",
    "Suggestions": "suggestions.suggesting",
    "suggest": "suggestions.suggesting",
    "visualize": "pictures.visualizing",
    "NotProved": "verification.verifying",
    "ResultVerdict": "verification.verdicts",
    "Verdict": "verification.verdicts",
    "Verification": "verification.verdicts",
}

__all__ = [
    "UNSPECIFIED",
    "AnnotationError",
    "CheckReport",
    "Collective",
    "Compiled",
    "CompiledProgram",
    "CostReport",
    "DeviceMesh",
    "Error",
    "ErrorKind",
    "Executable",
    "ExecutionError",
    "Explanation",
    "InputError",
    "InternalError",
    "Lowered",
    "NotProved",
    "ParseError",
    "Partitioned",
    "PassManager",
    "Report",
    "ReshardError",
    "ResultVerdict",
    "SecondOpinion",
    "ShardedArray",
    "Sharding",
    "ShardingPlan",
    "SourceLocation",
    "Suggestions",
    "Unsupported",
    "UsageError",
    "Verdict",
    "Verification",
    "VersionComparison",
    "annotate",
    "bubble_ratio",
    "check",
    "compare",
    "compare_versions",
    "compile",
    "compile_for",
    "cost",
    "explain",
    "jit",
    "load",
    "load_compiled",
    "make_mesh",
    "mesh_split",
    "partition",
    "pipeline",
    "propagate",
    "report",
    "save",
    "search",
    "suggest",
    "verify",
    "visualize",
    "wait",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        return _by_old_name(name)
    value = getattr(importlib.import_module(f"gspmd.{home}"), name)
    globals()[name] = value
    return value


def _by_old_name(name: str) -> Any:
    """The object whose former name is `name`, with a deprecation warning. Raises AttributeError."""
    from gspmd.dialect.renaming import by_old_name, warn_in_python
    from gspmd.old_names import OLD_NAMES

    if name not in (known := by_old_name(OLD_NAMES)):
        raise AttributeError(f"module 'gspmd' has no attribute '{name}'")
    new, renamed = known[name]
    warn_in_python(renamed, "name of gspmd", new, stacklevel=3)
    return __getattr__(new)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
