"""Programs compiled for machines that need not be present: their compilers' figures, and files to run there."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jax.errors import JaxRuntimeError
from jaxlib import _jax
from jaxlib.mlir import ir

from gspmd import api
from gspmd.api import Partitioned
from gspmd.compiled.compiled_program import CompiledProgram
from gspmd.compiled.file import CompiledFile, read_compiled
from gspmd.compiled.machines import Machine, is_outdated, machine, outdated
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Error, ExecutionError, InputError
from gspmd.reading import read_program
from gspmd.runtime import executable as runtime
from gspmd.runtime import executable_module, refusals
from gspmd.runtime.callbacks import refuse_to_run
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.machine.topology import is_topology

if TYPE_CHECKING:  # figures are computed on demand, since calls do not need them
    pass

# The compilers' messages for programs that do not fit: the memory needed and available.
_OUT_OF_MEMORY = (
    re.compile(r"Used ([\d.]+)([KMGT]) of ([\d.]+)([KMGT]) hbm"),
    re.compile(r"RESOURCE_EXHAUSTED.*?\(([\d.]+)([KMGT])\) exceeds available HBM \(([\d.]+)([KMGT])\)"),
)
# Options with which compilers start collectives early, at the cost of memory for those in flight.
_BEGIN_EARLY = {"xla_enable_async_all_gather": True, "xla_enable_async_collective_permute": True}
_LATE = ("tpu:v2:", "tpu:v3:")


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
