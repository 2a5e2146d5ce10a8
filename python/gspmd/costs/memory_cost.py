"""The memory of a device and the values live at its peak, by their names in the program."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from gspmd.dialect.errors import SourceLocation
from gspmd.transforms.analysis.buffers import Buffers
from gspmd.transforms.analysis.divergence import NOWHERE, Names, replicated_axes
from gspmd.transforms.analysis.memory import ARGUMENT, Allocation, Moment, memory_of
from gspmd.transforms.ir.program import Program
from gspmd.transforms.ir.signature import Signature
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.parsing.mlir import source_location


@dataclasses.dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that is live at the peak.

    `value` is the name of the argument or of the producer; `kind` is `argument`, `result` or `temporary`;
    `replicated_over` are the mesh axes along which the devices hold replicas.
    """

    value: str
    kind: str
    type: str
    bytes: int
    location: SourceLocation | None
    replicated_over: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryMoment:
    """The live bytes of a device after the operation `name`."""

    name: str
    location: SourceLocation | None
    held: int
    temporaries: int


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryCost:
    """Bytes on a device (see `transforms/analysis/memory.py`); `capacity` is the target's, 0 where unknown.

    `allocated` is the memory needed if the compiler allocates all results at the beginning. `host` is the peak in host
    memory, which counts nowhere else. `moments` are those of the program in order, and `peak_moment` is the index of
    the peak.
    """

    arguments: int
    results: int
    aliased: int
    temporaries: int
    allocated: int
    peak: int
    host: int
    capacity: int
    buffers: tuple[Buffer, ...]
    moments: tuple[MemoryMoment, ...]
    peak_moment: int


def memory_cost(
    program: Program,
    buffers: Buffers,
    signature: Signature,
    hardware: Hardware,
    locations: Sequence[SourceLocation | None],
) -> MemoryCost:
    """The memory of a partitioned program; `locations` are by the index of the operation."""
    body = program.body
    memory = memory_of(program, buffers)
    equal = replicated_axes(body.ir, signature.mesh, [value.sharding for value in signature.inputs])
    names = {
        value: named.name or f"argument {i}"
        for i, (value, named) in enumerate(zip(body.arguments, signature.inputs, strict=True))
    }
    return MemoryCost(
        arguments=memory.arguments,
        results=memory.results,
        aliased=memory.aliased,
        temporaries=memory.temporaries,
        allocated=memory.allocated,
        peak=memory.peak,
        host=memory.host,
        capacity=int(hardware.memory_bytes),
        buffers=tuple(
            _buffer(program, held, names, equal.get(program.value_ir[held.value], NOWHERE)) for held in memory.at_peak
        ),
        moments=tuple(_moment(program, moment, locations) for moment in memory.moments),
        peak_moment=memory.peak_moment,
    )


def _moment(program: Program, moment: Moment, locations: Sequence[SourceLocation | None]) -> MemoryMoment:
    if moment.op < 0:
        return MemoryMoment("", None, moment.held, moment.temporaries)
    name = program.ops[moment.op].info.name.removeprefix("stablehlo.")
    return MemoryMoment(name, locations[moment.op], moment.held, moment.temporaries)


def _buffer(program: Program, held: Allocation, names: Mapping[int, str], equal: Names) -> Buffer:
    definer = program.value_def[held.value]
    type_ = program.value_type[held.value]
    location = None
    name = names.get(held.value, "")
    if definer >= 0:
        op = program.ops[definer]
        location, name = source_location(op.ir.location), op.info.name.removeprefix("stablehlo.")
        if len(op.results) > 1:
            name += f"#{op.results.index(held.value)}"
    elif held.kind != ARGUMENT and not name:
        name = "block argument"
    return Buffer(name, held.kind, type_.brief, held.bytes, location, tuple(sorted(equal)))
