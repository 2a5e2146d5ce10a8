"""Programs compiled for machines that need not be present: their compilers' figures, and files to run there."""

from __future__ import annotations

import dataclasses
import io
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jaxlib
from jax.errors import JaxRuntimeError
from jaxlib import _jax
from jaxlib.mlir import ir

from gspmd import api
from gspmd.api import Partitioned
from gspmd.compiled.file import CompiledFile, FileHeader, compiled_bytes, read_compiled
from gspmd.compiled.machines import Machine, is_outdated, machine, outdated, platform_version
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, ExecutionError, InputError
from gspmd.dialect.mesh import Mesh
from gspmd.output import Output
from gspmd.reading import read_program
from gspmd.runtime import executable as runtime
from gspmd.runtime import executable_module, refusals
from gspmd.runtime.callbacks import refuse_to_run
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.machine.topology import is_topology

if TYPE_CHECKING:  # figures are computed on demand, since calls do not need them
    from gspmd.compiled.dearer import CollectiveIncrease
    from gspmd.compiled.step_time import StepTime
    from gspmd.costs.program_cost import CostReport

# The compilers' messages for programs that do not fit: the memory needed and available.
_OUT_OF_MEMORY = (
    re.compile(r"Used ([\d.]+)([KMGT]) of ([\d.]+)([KMGT]) hbm"),
    re.compile(r"RESOURCE_EXHAUSTED.*?\(([\d.]+)([KMGT])\) exceeds available HBM \(([\d.]+)([KMGT])\)"),
)
# Options with which compilers start collectives early, at the cost of memory for those in flight.
_BEGIN_EARLY = {"xla_enable_async_all_gather": True, "xla_enable_async_collective_permute": True}
_LATE = ("tpu:v2:", "tpu:v3:")


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
        from gspmd.compiled.text import lines
        from gspmd.tables import fitted

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


def compile_for(
    program: Any,
    target: str,
    *,
    compiler_options: Mapping[str, str | int | float | bool] | None = None,
    **options: Any,
) -> CompiledProgram:
    """Compile a program for a machine that need not be present, such as `tpu:v5p:8x8x8`, or for local devices.

    `program` is an argument of `gspmd.partition`, which gets `options`, or a partitioned program. The mesh is placed on
    a topology such that its collectives take the least time. `compiler_options` are options of XLA, such as
    `{"xla_enable_async_all_gather": False}`. For TPU v2 and v3, whose compiler does not start collectives early by
    default, this option and that for permutes are set unless given, if the program then fits.

    Errors: those of `gspmd.partition`; Unsupported for a program that calls Python; UsageError for an unknown or too
    small target, and for unknown compiler options; ExecutionError if libtpu is missing or the program does not fit into
    memory.
    """
    from gspmd.collectives import traffic_of

    partitioned = _partitioned(program, target, options)
    place = machine(target, partitioned.mesh, traffic_of(model_of(partitioned.module), partitioned.mesh))
    client, given = place.devices[0].client, dict(compiler_options or {})
    compiler = client.compile_and_load if place.is_here else client.compile

    def compile_(module: ir.Module, xla_options: Mapping[str, str | int | float | bool] = given) -> Any:
        with module.context, runtime.quiet():
            build = runtime.compile_options(place.devices, xla_options)
            return compiler(module, _jax.DeviceList(place.devices), build)

    platform = place.devices[0].platform
    module, _ = executable_module.read_partitioned(partitioned.module, platform)  # with source locations
    refuse_to_run(module)
    started = time.perf_counter()
    executable = compiled_by(compile_, module, lambda: partitioned, place, given, f"the compiler for '{place.target}'")
    return CompiledProgram(partitioned, place, executable, time.perf_counter() - started)


def compiled_by(
    compile_: Callable[..., Any],
    module: ir.Module,
    partitioned: Callable[[], Partitioned],
    place: Machine,
    given: Mapping[str, Any],
    compiler: str,
) -> Any:
    """The result of `compile_` for a module, by default with the options `given`; errors are located."""
    try:
        return _begun_early(compile_, module, given) if place.target.startswith(_LATE) else compile_(module)
    except refusals.REFUSED as error:
        found = _refused(error, partitioned, place)
        raise found or refusals.refusal(error, module, compile_, compiler) from None


def _begun_early(compile_: Callable[..., Any], module: ir.Module, given: Mapping[str, Any]) -> Any:
    """The executable with collectives that start early, unless that exceeds the memory."""
    try:
        return compile_(module, {**_BEGIN_EARLY, **given})
    except refusals.REFUSED as error:
        if _memory_needed(error) is None or not _BEGIN_EARLY.keys() - given.keys():
            raise
    return compile_(module)


def _memory_needed(error: Exception) -> re.Match[str] | None:
    """The memory needed and available in a compiler's message, each with its unit."""
    text = " ".join(str(error).split())
    return next((found for pattern in _OUT_OF_MEMORY if (found := pattern.search(text))), None)


def _partitioned(program: Any, target: str, options: dict[str, Any]) -> Partitioned:
    if isinstance(program, Partitioned):
        return program
    module = read_program(program)
    if executable_module.is_partitioned(module):
        return Partitioned(module)
    return api.partition(module, target=target if is_topology(target) else "", **options)


def step_time_on(machine: Machine, hlo_text: str, mesh: Mesh | None = None) -> StepTime | None:
    """An estimate from optimized HLO for a machine; None for compilers that report no cycles."""
    from gspmd.compiled.step_time import step_time

    hardware, placement = machine.hardware, machine.placement
    if hardware is None or placement is None or not hardware.clock_hz:
        return None
    return step_time(hlo_text, hardware, hardware.placed(placement), machine.places.__getitem__, mesh)


def _refused(error: Exception, partitioned: Callable[[], Partitioned], place: Machine) -> Error | None:
    """The error to raise if the compiler does not refuse a certain operation."""
    if is_outdated(error) and place.target.startswith("tpu"):
        return outdated()
    if found := _memory_needed(error):
        from gspmd.costs.program_cost import cost_of

        report = cost_of(partitioned().module, place.target)
        largest = ", ".join(
            f"{b.value} {b.type}" + (f" (replicated over {', '.join(b.replicated_over)})" if b.replicated_over else "")
            for b in report.memory.buffers[:3]
        )
        return ExecutionError(
            f"the program needs {found[1]} {found[2]}iB of memory on each device, which has {found[3]} {found[4]}iB; "
            f"largest at the peak: {largest}",
            hint="shard values that are replicated over an axis, or recompute instead of keeping them; see gspmd cost",
            code=Code.COMPILER,
        )
    return None


def load_compiled(path: str | os.PathLike[str], devices: Sequence[Any] | None = None) -> runtime.Executable:
    """Load a file written by `CompiledProgram.save`, on a machine of the kind for which it was compiled.

    It holds native code, which runs with all rights of the process: load only files that you trust.

    `devices` are by default those of the platform with the ids for which it was compiled.

    Errors: InputError for an invalid file; ExecutionError if devices are missing or the runtime differs from the
    compiler's.
    """
    return loaded(read_compiled(path), os.fspath(path), devices)


def loaded(stored: CompiledFile, path: str, devices: Sequence[Any] | None = None) -> runtime.Executable:
    """The same for a file that has been read from `path`."""
    about = stored.about
    compiled_for = f"compiled for {len(about.ids)} devices of '{about.target}'"
    if devices is None:
        by_id = {device.id: device for device in runtime.platform_devices(about.platform)}
        if not by_id.keys() >= set(about.ids):
            raise ExecutionError(f"{compiled_for}; here are {len(by_id)} of {about.platform}", code=Code.OTHER_MACHINE)
        devices = [by_id[i] for i in about.ids]
    chosen = runtime.listed(devices)
    if len(chosen) != len(about.ids):
        raise ExecutionError(f"{compiled_for}, got {len(chosen)}", code=Code.OTHER_MACHINE)
    module, signature = executable_module.read_partitioned(stored.partitioned)
    refuse_to_run(module)
    if signature.num_partitions != len(chosen):
        raise InputError(f"'{path}' is for {signature.num_partitions} devices, but {compiled_for}", code=Code.BAD_FILE)
    try:
        executable = chosen[0].client.deserialize_executable(
            stored.executable, _jax.DeviceList(chosen), runtime.compile_options(chosen)
        )
    except (JaxRuntimeError, ValueError) as error:
        raise ExecutionError(
            f"cannot load '{path}': {str(error).splitlines()[0]}",
            hint=f"it was compiled by {about.compiler.splitlines()[0]} (jaxlib {about.jaxlib})",
            code=Code.OTHER_MACHINE,
        ) from None
    return runtime.Executable(executable, signature, chosen, "zero")
