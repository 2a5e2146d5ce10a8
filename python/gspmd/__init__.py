"""gspmd: partitions a single-device StableHLO program into one SPMD program with collectives.

`partition` makes the per-device program, `propagate` only completes the shardings, `explain` says why they are so,
`compile` makes a partitioned module ready to run, `check` compares it with the original. What needs jax is imported
when it is first used.
"""

from __future__ import annotations

import importlib.util
import os
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

if PathFinder.find_spec("gspmd.dialect", __path__) is None:  # a source tree, whose folders lie beside python/
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
    from gspmd.ahead_of_time import CompiledProgram, compile_for, load_compiled
    from gspmd.annotation import UNSPECIFIED, annotate, mesh_split
    from gspmd.api import Partitioned, Sharding, partition, propagate
    from gspmd.checking import CheckReport, check
    from gspmd.collectives import Collective
    from gspmd.costs import CostReport, cost
    from gspmd.device_mesh import DeviceMesh, make_mesh
    from gspmd.explanation import Explanation, explain
    from gspmd.jitted import jit
    from gspmd.lowered import Compiled, Lowered
    from gspmd.pass_manager import PassManager
    from gspmd.pipeline_schedule import bubble_ratio
    from gspmd.pipelining import pipeline
    from gspmd.processes import wait
    from gspmd.runtime import Executable, compile, load, save
    from gspmd.sharded_array import ShardedArray
    from gspmd.transforms.reshard.strict import ReshardError

_HOME = {
    "CompiledProgram": "ahead_of_time",
    "compile_for": "ahead_of_time",
    "load_compiled": "ahead_of_time",
    "UNSPECIFIED": "annotation",
    "annotate": "annotation",
    "mesh_split": "annotation",
    "DeviceMesh": "device_mesh",
    "make_mesh": "device_mesh",
    "jit": "jitted",
    "Compiled": "lowered",
    "Lowered": "lowered",
    "Partitioned": "api",
    "Sharding": "api",
    "partition": "api",
    "propagate": "api",
    "Collective": "collectives",
    "CostReport": "costs",
    "cost": "costs",
    "ReshardError": "transforms.reshard.strict",
    "PassManager": "pass_manager",
    "bubble_ratio": "pipeline_schedule",
    "pipeline": "pipelining",
    "Explanation": "explanation",
    "explain": "explanation",
    "CheckReport": "checking",
    "check": "checking",
    "Executable": "runtime",
    "compile": "runtime",
    "load": "runtime",
    "save": "runtime",
    "ShardedArray": "sharded_array",
    "wait": "processes",
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
    "ParseError",
    "Partitioned",
    "PassManager",
    "ReshardError",
    "ShardedArray",
    "Sharding",
    "SourceLocation",
    "Unsupported",
    "UsageError",
    "annotate",
    "bubble_ratio",
    "check",
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
    "save",
    "wait",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'gspmd' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"gspmd.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
