"""A program partitioned in one way, compiled by libtpu for a topology of TPUs, and looked at."""

from __future__ import annotations

import dataclasses
import math
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import xla

if TYPE_CHECKING:
    from gspmd.examples.common.program import Program

OURS, GSPMD, SHARDY = "gspmd", "XLA GSPMD", "XLA Shardy"
_GROUPS = re.compile(r"replica_groups=(\[[^ ]*|\{\{[\d,{}]*\}\}|mesh\[[^}]*\})")
_PAIRS = re.compile(r"source_target_pairs=\{[\d,{}]*\}")


@dataclasses.dataclass(frozen=True)
class Task:
    """A program to be partitioned over `mesh` for `target`.

    `model` is the same program without what is computed again, to count the model's operations; `options` are those
    of `gspmd.partition`, `compiler_options` those of libtpu.
    """

    program: Program
    mesh: Mapping[str, int]
    target: str
    model: Program | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    compiler_options: Mapping[str, bool] = dataclasses.field(default_factory=dict)

    @property
    def devices(self) -> int:
        return math.prod(self.mesh.values())


def prepare(devices: int, how: str) -> None:
    """Before anything imports jax: peers are timed on as many CPU devices."""
    xla.prepare(devices if how in (GSPMD, SHARDY) else 1, quiet=True)


def measure(task: Task, how: str) -> dict[str, Any]:
    """Bytes, seconds, operations and utilisation of a device. Devices are in the order that is best for ours.

    Errors: those of `gspmd.compile_for`, and what libtpu says of a peer's program.
    """
    from gspmd.api import partition
    from gspmd.collectives import traffic_of
    from gspmd.compiled import machines
    from gspmd.compiled.ahead_of_time import compile_for
    from gspmd.costs.program_cost import cost
    from gspmd.transforms.ir.reading import model_of

    program = _lowered(task.program, task.mesh)
    started = time.perf_counter()
    ours = partition(program, target=task.target, options=task.options)
    partition_s = time.perf_counter() - started
    place = machines.machine(task.target, ours.mesh, traffic_of(model_of(ours.module), ours.mesh))
    found: dict[str, Any] = {"parameters": parameters(task.program)}
    if how in (GSPMD, SHARDY):
        partition_s = _xla_partition_s(task, how)
        started = time.perf_counter()
        executable = _xla_compile(task, how, place.devices)
        compile_s = time.perf_counter() - started
    else:
        compiled = compile_for(ours, task.target, compiler_options=task.compiler_options)
        compile_s, executable = compiled.compile_s, compiled.runtime_executable()
        found["module_bytes"] = len(ours.module_text)
    model = cost(ours, original=_lowered(task.model, task.mesh) if task.model else program)
    found |= {"partition_s": partition_s, "compile_s": compile_s}
    return found | _figures(executable, place, (model.model_flops or 0.0) / task.devices)


def _figures(executable: Any, place: Any, model_flops: float) -> dict[str, Any]:
    """What a compiled program needs, sends and takes; `model_flops` are a device's part of the model's operations."""
    from gspmd.compiled.compiled_program import step_time_on

    stats = executable.get_compiled_memory_stats()
    text = executable.hlo_modules()[0].to_string()
    step = step_time_on(place, text)
    assert step is not None, "a topology has a step time"
    sent: dict[str, float] = {}
    for c in step.collectives:
        sent[c.kind] = sent.get(c.kind, 0.0) + c.sent_bytes * c.runs
    low, scheduled, high = step.utilisation(model_flops, place.hardware.flops["bf16"])
    return {
        "peak": stats.argument_size_in_bytes
        + stats.output_size_in_bytes
        - stats.alias_size_in_bytes
        + stats.temp_size_in_bytes,
        "limit": place.hardware.memory_bytes,
        "sent": sent,
        "compute_s": step.compute_s,
        "communication_s": step.communication_s,
        "scheduled_s": step.scheduled_s,
        "model_flops": model_flops,
        "utilisation": {"no_overlap": low, "scheduled": scheduled, "all_overlap": high},
        "hlo_bytes": len(text),
        "group_bytes": sum(len(match[0]) for match in _GROUPS.finditer(text)),
        "pair_bytes": sum(len(match[0]) for match in _PAIRS.finditer(text)),
    }


def parameters(program: Program) -> int:
    import jax

    return sum(leaf.size for leaf in jax.tree.leaves(program.abstract()[0]["params"]))


def _lowered(program: Program, mesh: Mapping[str, int]) -> Any:
    from gspmd.examples.common.running import lowered

    return lowered(program, dict(mesh)).program


def _xla_text(task: Task, how: str, devices: Any) -> str:
    """The annotated module as JAX alone lowers it, in the form that the partitioner reads."""
    import jax
    import numpy as np

    from gspmd.examples.common import program as programs

    jax.config.update("jax_use_shardy_partitioner", how == SHARDY)
    grid = np.array(devices, object).reshape(list(task.mesh.values()))
    return str(programs.lower(task.program, jax.sharding.Mesh(grid, tuple(task.mesh))).as_text())


def _xla_partition_s(task: Task, how: str) -> float:
    """Seconds of the partitioner's passes in jaxlib's XLA."""
    import jax

    from gspmd.transforms.parsing.mlir import new_context, parse_module

    module = parse_module(_xla_text(task, how, jax.devices()[: task.devices]), new_context())
    times = xla.partition(module, task.devices, use_shardy=how == SHARDY)
    passes = ("shardy-xla",) if how == SHARDY else ("sharding-propagation",)
    return sum(times.get(name, 0.0) for name in (*passes, "spmd-partitioning"))


def _xla_compile(task: Task, how: str, devices: Any) -> Any:
    """libtpu compiles the annotated module, with its own copy of the partitioner, for devices in our order."""
    from jaxlib import _jax

    from gspmd.runtime import executable as runtime
    from gspmd.transforms.parsing.mlir import new_context, parse_module

    module = parse_module(_xla_text(task, how, devices), new_context())
    options = runtime.compile_options(devices, task.compiler_options)
    options.executable_build_options.use_shardy_partitioner = how == SHARDY
    with module.context:
        return devices[0].client.compile(module, _jax.DeviceList(devices), options)
