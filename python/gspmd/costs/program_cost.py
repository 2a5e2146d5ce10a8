"""What a partitioned program costs on a device: communication, arithmetic, memory, and what bounds its time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxlib.mlir import ir

from gspmd import api
from gspmd.collectives import Collective, collective_operations, time_of, traffic_of
from gspmd.costs.buffers import Buffers, bytes_of_value
from gspmd.costs.memory import ARGUMENT, Allocation, aliases_of, memory_of
from gspmd.costs.work import Work, work_of
from gspmd.dialect.errors import SourceLocation
from gspmd.dialect.mesh import Mesh
from gspmd.pass_manager.manager import run_in_memory
from gspmd.reading import read_program
from gspmd.runtime.executable_module import is_partitioned
from gspmd.transforms.analysis.divergence import NOWHERE, Names, replicated_axes
from gspmd.transforms.analysis.least.bound import Least, least_sent
from gspmd.transforms.ingest import Ingest
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.modules import main_function, symbol
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.program import Program
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.signature import Signature, dictionaries, read_signature
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.machine.target_file import is_topology, read_hardware, read_target
from gspmd.transforms.machine.torus import Placement
from gspmd.transforms.ops.custom_rules import RuleSource
from gspmd.transforms.parsing.mlir import source_location


@dataclasses.dataclass(frozen=True, slots=True)
class CollectiveCost:
    """A collective with its price: `time_s` each time it runs, on the target's links."""

    collective: Collective
    time_s: float

    @property
    def runs(self) -> int:
        """How often it runs in a call of the program; in loops of unknown length once."""
        return 1 if self.collective.count is None else self.collective.count

    @property
    def total_bytes(self) -> int:
        return self.runs * self.collective.bytes

    @property
    def total_time_s(self) -> float:
        return self.runs * self.time_s


@dataclasses.dataclass(frozen=True, slots=True)
class Buffer:
    """Memory held at the peak.

    `value` is the argument's name or the operation that makes it; `kind` is `argument`, `result` or `temporary`;
    `replicated_over` are the mesh axes along which all devices hold the same.
    """

    value: str
    kind: str
    type: str
    bytes: int
    location: SourceLocation | None
    replicated_over: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryCost:
    """Bytes on a device (see `gspmd.costs.memory`); `capacity` is the target's, 0 where unknown.

    `allocated` is what a device needs whose compiler allocates all results at the beginning. `host` is the most that is
    held at one time for it in its host's memory, which counts nowhere else.
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


@dataclasses.dataclass(frozen=True, slots=True)
class CostReport:
    """What one call of a program costs on every device.

    `work` is a device's; `model_flops` are the operations of the program before it was partitioned, and `least` is what
    its annotations ask devices to send at least, both None where only the partitioned one was given. Times in seconds:
    each is what the device would take for that alone. On a topology `placement` is where the axes lie, and `hardware`
    what they get there.
    """

    program: str
    target: str
    mesh: Mesh
    collectives: tuple[CollectiveCost, ...]
    work: Work
    model_flops: float | None
    memory: MemoryCost
    compute_s: float
    traffic_s: float
    hardware: Hardware
    placement: Placement | None = None
    least: Least | None = None

    @property
    def least_bytes(self) -> int | None:
        """What any program with these annotations sends (docs/least.md), None where nothing is known to be needed."""
        return (self.least and self.least.bytes) or None

    @property
    def communication_s(self) -> float:
        return sum(c.total_time_s for c in self.collectives)

    @property
    def sent_bytes(self) -> int:
        """What a device sends in all."""
        return sum(c.total_bytes for c in self.collectives)

    @property
    def bytes_by_kind(self) -> dict[str, int]:
        """What a device sends, by kind of collective."""
        found: dict[str, int] = {}
        for c in sorted(self.collectives, key=lambda c: c.collective.kind):
            found[c.collective.kind] = found.get(c.collective.kind, 0) + c.total_bytes
        return found

    @property
    def runs(self) -> int:
        """How many collectives run."""
        return sum(c.runs for c in self.collectives)

    @property
    def flops_ratio(self) -> float | None:
        """Operations of all devices together against those of the model: 1 if nothing is computed twice."""
        return self.work.total_flops * self.mesh.size / self.model_flops if self.model_flops else None

    @property
    def lower_bound_s(self) -> float:
        """Seconds if arithmetic, memory traffic and communication overlap all the time."""
        return max(self._parts.values())

    @property
    def upper_bound_s(self) -> float:
        """Seconds if nothing overlaps."""
        return sum(self._parts.values())

    @property
    def bound_by(self) -> str:
        """`compute`, `memory traffic` or `communication`: what takes longest."""
        return max(self._parts, key=lambda name: self._parts[name])

    @property
    def _parts(self) -> Mapping[str, float]:
        return {"compute": self.compute_s, "memory traffic": self.traffic_s, "communication": self.communication_s}

    @property
    def notes(self) -> tuple[str, ...]:
        """What the figures leave out."""
        notes = []
        if self.memory.capacity and self.memory.peak > self.memory.capacity:
            notes.append(f"a device of the target has only {self.memory.capacity} bytes; the program needs more")
        if self.work.open_loops:
            notes.append(f"{self.work.open_loops} loops of unknown length count as one iteration")
        if self.work.uncounted:
            notes.append(f"arithmetic not counted: {', '.join(self.work.uncounted)}")
        return tuple(notes)


def cost(
    program: Any,
    num_partitions: int | None = None,
    *,
    target: str = "",
    replicate_unsupported: bool = False,
    custom_rules: Mapping[str, RuleSource] | None = None,
    strict: bool | int = False,
    options: Mapping[str, Any] | None = None,
    original: Any = None,
) -> CostReport:
    """Price a program on a target: a name such as `tpu-v5p`, a .toml file, or '' for a neutral device.

    `program` is an annotated program, which is partitioned for the target with the other arguments as
    `gspmd.partition` takes them; or a partitioned one (a `Partitioned`, or any form of its module), for which
    `original` may give the program it was made from. Errors: those of `gspmd.partition`, UsageError for an unknown
    target, InputError and ParseError for a bad .toml file.
    """
    module = program.module if isinstance(program, api.Partitioned) else read_program(program)
    if not is_partitioned(module):
        original = module if original is None else original
        product = api.partition(
            module,
            num_partitions,
            replicate_unsupported=replicate_unsupported,
            custom_rules=custom_rules,
            strict=strict,
            target=target,
            options=options,
        )
        module = product.module
    return cost_of(module, target, None if original is None else _model(original, num_partitions))


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """What is known of a program before it is partitioned: its operations on one device, and what has to be sent."""

    flops: float
    least: Least


def _model(program: Any, num_partitions: int | None) -> Model:
    module = read_program(program)
    with module.context, ir.Location.unknown():
        top = model_of(module)
        run_in_memory([Ingest(num_partitions=num_partitions or 0)], top, module)
        annotated = AnnotatedProgram(top)
        return Model(work_of(annotated.program, annotated=annotated).total_flops, least_sent(annotated))


def cost_of(module: ir.Module, target: str = "", model: Model | None = None) -> CostReport:
    """Price a partitioned module. Errors: ParseError if it is not partitioned, and those of reading the target."""
    top = model_of(module)
    signature = read_signature(top)
    hardware, placement = _machine(top, signature.mesh, target)
    with module.context, ir.Location.unknown():
        program = Program(top)
        buffers = Buffers(program)
        work = work_of(program, buffers)
        return CostReport(
            program=symbol(top),
            target=hardware.name,
            mesh=signature.mesh,
            collectives=_collectives(top, signature.mesh, hardware),
            work=work,
            model_flops=None if model is None else model.flops,
            memory=_memory(program, buffers, signature, hardware),
            compute_s=sum(flops / hardware.flops_of(element) for (_, element), flops in work.flops.items()),
            traffic_s=work.traffic_bytes / hardware.memory_bytes_per_s,
            hardware=hardware,
            placement=placement,
            least=None if model is None else model.least,
        )


def _machine(module: Operation, mesh: Mesh, target: str) -> tuple[Hardware, Placement | None]:
    """The hardware, with the mesh laid onto a topology in the way that is best for the program's collectives."""
    if is_topology(target):
        topology = read_target(target)
        placement = topology.place(mesh, traffic_of(module, mesh))
        return topology.placed(placement), placement
    return read_hardware(target, mesh), None


def _collectives(module: Operation, mesh: Mesh, hardware: Hardware) -> tuple[CollectiveCost, ...]:
    return tuple(
        CollectiveCost(collective, time_of(op, collective, mesh, hardware))
        for op, collective in collective_operations(module, mesh)
    )


def _memory(program: Program, buffers: Buffers, signature: Signature, hardware: Hardware) -> MemoryCost:
    body = program.body
    attributes = dictionaries(main_function(program.module), "arg_attrs", len(body.arguments))
    sizes = [[bytes_of_value(program, v) for v in values] for values in (body.arguments, body.returned)]
    memory = memory_of(program, buffers, aliases_of(attributes, *sizes))
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
    )


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
