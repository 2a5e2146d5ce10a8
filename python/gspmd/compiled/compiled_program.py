"""A program compiled for a machine: its figures, as values, as text and as JSON."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jaxlib

from gspmd import text_report
from gspmd.api import Partitioned
from gspmd.compiled.file import CompiledFile, FileHeader, compiled_bytes
from gspmd.compiled.machines import Machine, platform_version
from gspmd.dialect.mesh import Mesh
from gspmd.output import Output
from gspmd.tables import fitted, table

if TYPE_CHECKING:  # figures are computed on demand, since calls do not need them
    from gspmd.compiled.dearer import CollectiveIncrease
    from gspmd.compiled.step_time import CompiledCollective, StepTime
    from gspmd.costs.cost_report import CostReport


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledMemory:
    """The compiler's allocation on a device in bytes; `limit` is the memory of the device, 0 if unknown."""

    arguments: int
    results: int
    aliased: int
    temporaries: int
    code: int
    limit: int

    @property
    def peak(self) -> int:
        return self.arguments + self.results - self.aliased + self.temporaries + self.code


class CompiledProgram:
    """A partitioned program compiled by PJRT for a machine in `compile_s` seconds."""

    def __init__(self, partitioned: Partitioned, machine: Machine, executable: Any, compile_s: float) -> None:
        self._partitioned, self.machine, self.compile_s = partitioned, machine, compile_s
        self._pjrt = executable

    def __str__(self) -> str:
        """The text that `gspmd compile` prints."""
        return "\n".join(fitted(lines(self)))

    @property
    def partitioned(self) -> Partitioned:
        """The per-device program."""
        return self._partitioned

    def runtime_executable(self) -> Any:
        """PJRT's executable."""
        return self._pjrt

    @property
    def hlo_text(self) -> str:
        """The optimised HLO."""
        return str(self.runtime_executable().hlo_modules()[0].to_string())

    @property
    def memory(self) -> CompiledMemory:
        stats = self.runtime_executable().get_compiled_memory_stats()
        limit = int(self.machine.hardware.memory_bytes) if self.machine.hardware else 0
        return CompiledMemory(
            stats.argument_size_in_bytes,
            stats.output_size_in_bytes,
            stats.alias_size_in_bytes,
            stats.temp_size_in_bytes,
            stats.generated_code_size_in_bytes,
            limit,
        )

    @property
    def flops(self) -> float:
        """The operations of a device by the compiler's count, in which loop bodies count once."""
        return float(self.runtime_executable().cost_analysis().get("flops", 0.0))

    def cost(self) -> CostReport:
        """The cost of the same program on the same machine by gspmd's model."""
        from gspmd.costs.program_cost import cost_of

        return cost_of(self.partitioned.module, self.machine.target if self.machine.hardware else "")

    def dearer(self) -> list[CollectiveIncrease]:
        """Collectives for which the compiled program sends more than the partitioned program."""
        from gspmd.compiled.dearer import dearer_collectives

        return dearer_collectives(self.partitioned.collectives, self.hlo_text, self.partitioned.mesh)

    def step_time(self) -> StepTime | None:
        """An estimate from the compiler's output; None for compilers that report no cycles."""
        return step_time_on(self.machine, self.hlo_text, self.partitioned.mesh)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file for `load_compiled` atomically. Errors: InputError."""
        output = Output(path)
        output.write(self.serialized())

    def serialized(self) -> bytes:
        """The file for `load_compiled`: the executable, and the partitioned module with its signature."""
        module = io.BytesIO()
        self.partitioned.module.operation.write_bytecode(module)
        about = FileHeader(
            target=self.machine.target,
            ids=tuple(device.id for device in self.machine.devices),
            jaxlib=jaxlib.__version__,
            compiler=platform_version(self.machine.devices),
        )
        return compiled_bytes(CompiledFile(about, module.getvalue(), self.runtime_executable().serialize()))


def step_time_on(machine: Machine, hlo_text: str, mesh: Mesh | None = None) -> StepTime | None:
    """An estimate from optimized HLO for a machine; None for compilers that report no cycles."""
    from gspmd.compiled.step_time import step_time

    hardware, placement = machine.hardware, machine.placement
    if hardware is None or placement is None or not hardware.clock_hz:
        return None
    return step_time(hlo_text, hardware, hardware.placed(placement), machine.places.__getitem__, mesh)


def lines(compiled: CompiledProgram, top: int = 8) -> list[str]:
    """Machine, memory, collectives and time."""
    cost, step = compiled.cost(), compiled.step_time()
    placement = text_report.placement_lines(cost.mesh, cost.hardware, cost.placement)
    return [
        f"compiled for {compiled.machine.target} in {compiled.compile_s:.1f} s: {text_report.mesh_text(cost.mesh)}",
        *(["", *placement] if placement else []),
        "",
        *_memory(compiled),
        "",
        *(
            _collectives(step, top)
            if step
            else ["collectives:", *text_report.collective_lines(compiled.partitioned.collectives)]
        ),
        *_dearer(compiled),
        "",
        *(_time(compiled, cost, step) if step else [f"arithmetic: {cost.work.total_flops:.4g} operations a device"]),
    ]


def _memory(compiled: CompiledProgram) -> list[str]:
    memory = compiled.memory
    limit = f" of {text_report.bytes_text(memory.limit)} ({memory.peak / memory.limit:.0%})" if memory.limit else ""
    parts = {
        "arguments": memory.arguments,
        "results": memory.results,
        "in donated arguments": -memory.aliased,
        "temporaries": memory.temporaries,
        "code": memory.code,
    }
    rows = [
        (name, text_report.bytes_text(abs(count)) if count >= 0 else f"-{text_report.bytes_text(-count)}")
        for name, count in parts.items()
    ]
    return [f"memory of a device: {text_report.bytes_text(memory.peak)}{limit}", *table(rows, right=(1,))]


def _collectives(step: StepTime, top: int) -> list[str]:
    if not step.collectives:
        return ["collectives: none"]
    ranked = sorted(step.collectives, key=lambda c: -c.time_s * c.runs)
    rows: list[tuple[str, ...]] = [("runs", "sent", "time", "kind", "devices", "", "from")]
    rows += [_row(c) for c in ranked[:top]]
    more = [f"  and {len(ranked) - top} more"] if len(ranked) > top else []
    total = sum(c.sent_bytes * c.runs for c in ranked)
    count = sum(c.runs for c in ranked)
    return [
        f"collectives as compiled: {count} in a step, {text_report.bytes_text(total)} sent by a device",
        *table(rows, right=(0, 1, 2, 4)),
        *more,
    ]


def _dearer(compiled: CompiledProgram) -> Iterator[str]:
    for each in compiled.dearer():
        axes = each.axes.replace('"', "")
        yield f"warning: over {axes} the compiler made {_kinds(each.made)} of {_kinds(each.asked)}"
        if each.sources:
            yield f"  at {', '.join(each.sources)}"


def _kinds(sent: Mapping[str, float]) -> str:
    """Such as `79.0 GiB of reduce_scatter and 1.0 MiB of all_gather`."""
    ranked = sorted(sent.items(), key=lambda pair: -pair[1])
    return " and ".join(f"{text_report.bytes_text(size)} of {kind}" for kind, size in ranked) or "nothing"


def _row(c: CompiledCollective) -> tuple[str, ...]:
    how = "asynchronous" if c.is_async else ""
    sent, time = text_report.bytes_text(c.sent_bytes * c.runs), _ms(c.time_s * c.runs)
    return (str(c.runs), sent, time, c.kind, str(c.devices), how, c.source)


def _time(compiled: CompiledProgram, cost: CostReport, step: StepTime) -> list[str]:
    rows = [("compute", _ms(step.compute_s)), ("communication", _ms(step.communication_s))]
    low_s, high_s = _ms(step.lower_bound_s), _ms(step.upper_bound_s)
    found = [
        f"time of a step: {_ms(step.scheduled_s)} as scheduled, {low_s} if all overlaps, {high_s} if nothing does",
        *table(rows, right=(1,)),
    ]
    low, scheduled, high = utilisation(compiled, cost, step)
    whose = "of the model" if cost.model_flops else "of the partitioned program"
    found.append(f"utilisation: {scheduled:.1%} of the peak ({low:.1%} to {high:.1%}), counting operations {whose}")
    if step.unknown_loops:
        found.append(f"note: {step.unknown_loops} loops of unknown length count once")
    return found


def utilisation(compiled: CompiledProgram, cost: CostReport, step: StepTime) -> tuple[float, float, float]:
    """As `StepTime.utilisation`, for the operations of the model or, if unknown, of the program."""
    flops = cost.model_flops / cost.mesh.size if cost.model_flops else cost.work.total_flops
    hardware = compiled.machine.hardware
    assert hardware is not None, "a step time has a machine"
    return step.utilisation(flops, hardware.flops["bf16"])


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


def to_dict(compiled: CompiledProgram) -> dict[str, Any]:
    """All of it for JSON; times in seconds."""
    cost, step, memory = compiled.cost(), compiled.step_time(), compiled.memory
    found: dict[str, Any] = {
        "target": compiled.machine.target,
        "mesh": dict(cost.mesh.axes),
        "compile_s": compiled.compile_s,
        "axes": text_report.placement_dict(cost.placement),
        "memory": {
            "arguments": memory.arguments,
            "results": memory.results,
            "aliased": memory.aliased,
            "temporaries": memory.temporaries,
            "code": memory.code,
            "peak": memory.peak,
            "limit": memory.limit,
        },
        "flops": {"per_device": cost.work.total_flops, "model": cost.model_flops, "compiler": compiled.flops},
    }
    found["dearer"] = [
        {"axes": each.axes, "asked": dict(each.asked), "made": dict(each.made), "sources": list(each.sources)}
        for each in compiled.dearer()
    ]
    if step is not None:
        low, scheduled, high = utilisation(compiled, cost, step)
        found["time"] = {
            "compute_s": step.compute_s,
            "communication_s": step.communication_s,
            "lower_bound_s": step.lower_bound_s,
            "upper_bound_s": step.upper_bound_s,
            "scheduled_s": step.scheduled_s,
            "utilisation": {"no_overlap": low, "scheduled": scheduled, "all_overlap": high},
        }
        found["collectives"] = [
            {
                "kind": c.kind,
                "devices": c.devices,
                "bytes": c.sent_bytes,
                "count": c.runs,
                "time_s": c.time_s,
                "async": c.is_async,
                "location": c.source,
            }
            for c in step.collectives
        ]
    return found
