"""Measures, runs and verifies one program as one partitioner has it, in a process that XLA may end.

The process keeps the last compiled program, so that it is compiled once for its figures and its results.
"""

from __future__ import annotations

import dataclasses
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from jaxlib.mlir import ir

from gspmd.checks.running import Inputs, ProgramPair, Reference, given_arrays, reference_of, runs_of
from gspmd.checks.verdicts import CheckReport
from gspmd.comparisons.line_names import name_by_lines
from gspmd.comparisons.peer_modules import KeptModule, per_device_module
from gspmd.comparisons.peers import as_laid_out, compile_by_peer
from gspmd.compiled.hlo_work import HloWork, work_in
from gspmd.compiled.optimized_hlo import OptimizedModule
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_mesh, print_mesh
from gspmd.runtime import executable as runtime
from gspmd.runtime.executable import Executable
from gspmd.runtime.executable_module import plain_signature
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.signature import signature_of
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.parsing.mlir import new_context, parse_written
from gspmd.transforms.repairs.collectives import replace_missing
from gspmd.verification.verdicts import Verification
from gspmd.verification.verifying import verified

OURS = "gspmd"


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """The texts of a program and its mesh, the arguments of `gspmd.check`, and whether to verify the result."""

    program: str
    mesh_text: str
    inputs: Inputs | None = None
    seed: int = 0
    rtol: float | None = None
    atol: float | None = None
    verify: bool = False

    @property
    def mesh(self) -> Mesh:
        return parse_mesh(self.mesh_text)


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """The work of a compiled program, its bytes on a device, and the seconds until it was ready to run."""

    work: HloWork
    held_bytes: int
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class _Loaded:
    """A program loaded by PJRT, the source lines after which its operations are named, and the compile time.

    `module` is the per-device module of a peer, if it was to be kept.
    """

    executable: Any
    lines: tuple[str, ...]
    seconds: float
    module: bytes | None


_reference: tuple[str, Reference] | None = None
_compiled: tuple[tuple[str, str, str], _Loaded] | None = None


def unpartitioned(task: Task) -> str:
    """Compile the program without partitioning it, and read its inputs; returns a description of the machine.

    Errors: as `gspmd.check`.
    """
    global _reference
    if _reference is None or _reference[0] != task.program:
        _reference = task.program, reference_of(_read(task.program), None)
    if task.inputs is not None:
        given_arrays(_reference[1].executable.signature.inputs, task.inputs)
    return _reference[1].described


def measured(task: Task, partitioner: str, partitioned: str = "") -> Measured:
    """Compile the program with one partitioner, and measure the executable; gspmd's module is given as `partitioned`.

    Errors: those of the partitioner and of the compiler.
    """
    made = _loaded(task, partitioner, partitioned)
    loaded = made.executable
    stats = loaded.get_compiled_memory_stats()
    held = (
        stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes - stats.alias_size_in_bytes
    )
    module = OptimizedModule(loaded.hlo_modules()[0].to_string(), made.lines)
    return Measured(work_in(module, task.mesh), held, made.seconds)


def judged(task: Task, partitioner: str, partitioned: str = "") -> Verification:
    """Verify the per-device module of one partitioner against the program; nothing is run.

    Errors: Unsupported if a peer's sharding of an argument or result does not follow the axes of the mesh.
    """
    given = _read(task.program)
    if partitioner == OURS:
        return verified(given, _read(partitioned))
    module = _loaded(task, partitioner, partitioned).module
    if module is None:
        raise Unsupported("XLA wrote no per-device module", code=Code.UNSUPPORTED)
    return verified(given, per_device_module(module, plain_signature(model_of(given), task.mesh)))


def checked(task: Task, partitioner: str, partitioned: str = "") -> CheckReport:
    """Run one partitioner's program, and compare its results with those of the unpartitioned program.

    Errors: those of running; Unsupported if a peer's sharding does not follow the axes of the mesh.
    """
    description = unpartitioned(task)
    assert _reference is not None, "it was just compiled"
    loaded = _loaded(task, partitioner, partitioned).executable
    devices = runtime.platform_devices("cpu")[: task.mesh.size]
    if partitioner == OURS:
        executable = Executable(loaded, signature_of(_read(partitioned)), devices, "nan")
    else:
        executable = as_laid_out(loaded, _reference[1].executable.signature, task.mesh, devices)
    pair = ProgramPair(_reference[1], executable, task.rtol, task.atol)
    runs, notes = runs_of(pair, task.inputs, task.seed, _silent)
    return CheckReport(print_mesh(task.mesh), task.mesh.size, description, runs, notes)


def _loaded(task: Task, partitioner: str, partitioned: str) -> _Loaded:
    """The compiled program; the last one is cached."""
    global _compiled
    key = task.program, partitioner, partitioned
    if _compiled is not None and _compiled[0] == key:
        return _compiled[1]
    _compiled = None
    module = _read(partitioned or task.program)
    if partitioner != OURS:  # collectives that XLA cannot run on CPUs are replaced, as for gspmd
        with in_memory(module) as program:
            replace_missing(program, "cpu")
    lines = name_by_lines(module)
    devices = runtime.platform_devices("cpu")[: task.mesh.size]
    kept = KeptModule()
    started = time.perf_counter()
    if partitioner == OURS:
        loaded = runtime.compile(module, devices).loaded
    else:
        keeping = kept.keeping if task.verify else nullcontext
        loaded = compile_by_peer(partitioner, module, task.mesh, devices, keeping)
    _compiled = key, _Loaded(loaded, lines, time.perf_counter() - started, kept.proto)
    return _compiled[1]


def _read(text: str) -> ir.Module:
    return parse_written(text, new_context())


def _silent(_: str) -> AbstractContextManager[None]:
    return nullcontext()
