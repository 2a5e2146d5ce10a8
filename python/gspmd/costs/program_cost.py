"""The cost of a partitioned program on a device: communication, compute, memory, and bounds of its time."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from jaxlib.mlir import ir

from gspmd import api
from gspmd.collectives import Collective, collective_operations, time_of, traffic_of
from gspmd.costs.memory_cost import MemoryCost, memory_cost
from gspmd.costs.timeline import ScheduledCollective, Timeline, estimated
from gspmd.costs.work import Work, work_of
from gspmd.dialect.errors import SourceLocation
from gspmd.dialect.mesh import Mesh
from gspmd.pass_manager.manager import run_in_memory
from gspmd.reading import read_program
from gspmd.runtime.executable_module import is_partitioned
from gspmd.transforms.analysis.buffers import Buffers
from gspmd.transforms.analysis.least.bound import LowerBound, least_sent
from gspmd.transforms.ingest import Ingest
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.modules import symbol
from gspmd.transforms.ir.program import Program
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.signature import read_signature
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.machine.target_file import placed_hardware
from gspmd.transforms.machine.torus import Placement
from gspmd.transforms.ops.custom_rules import RuleSource
from gspmd.transforms.parsing.mlir import source_location


@dataclasses.dataclass(frozen=True, slots=True)
class CollectiveCost:
    """A collective and its price: `time_s` is the time of one run on the target's links."""

    collective: Collective
    time_s: float

    @property
    def runs(self) -> int:
        """The number of runs in a call of the program; loops of unknown trip count count once."""
        return 1 if self.collective.count is None else self.collective.count

    @property
    def total_bytes(self) -> int:
        return self.runs * self.collective.bytes

    @property
    def total_time_s(self) -> float:
        return self.runs * self.time_s


@dataclasses.dataclass(frozen=True, slots=True)
class OperationCost:
    """The compute of an operation on a device: arithmetic, bytes of memory traffic and seconds of one run."""

    name: str
    location: SourceLocation | None
    runs: float
    flops: float
    compute_s: float
    traffic_bytes: float
    traffic_s: float

    @property
    def time_s(self) -> float:
        """Seconds of one run, if arithmetic and memory traffic overlap."""
        return max(self.compute_s, self.traffic_s)


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class CostReport:
    """The cost of one call of a program on each device.

    `work` is that of a device. `model_flops` are the operations of the unpartitioned program, and `least` is a lower
    bound of its communication; both are None if only the partitioned program was given. Each time is in seconds and
    without overlap. `operations` are those that compute, in program order, and `timeline` schedules them and the
    collectives. On a topology, `placement` is that of the axes, and `hardware` has the bandwidth that they get.
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
    operations: tuple[OperationCost, ...]
    timeline: Timeline
    placement: Placement | None = None
    least: LowerBound | None = None

    def __str__(self) -> str:
        """The text that `gspmd cost` prints."""
        from gspmd.costs.text import report_lines
        from gspmd.tables import fitted

        return "\n".join(fitted(report_lines(self)))

    def __repr__(self) -> str:
        from gspmd.text_report import bytes_text, time_text

        low, high = time_text(self.lower_bound_s), time_text(self.upper_bound_s)
        return f"<CostReport on {self.target}: {low} to {high} a step, {bytes_text(self.sent_bytes)} sent>"

    @property
    def least_bytes(self) -> int | None:
        """A lower bound of the bytes that any program with these annotations sends (docs/least.md); None if unknown."""
        return (self.least and self.least.bytes) or None

    @property
    def communication_s(self) -> float:
        return sum(c.total_time_s for c in self.collectives)

    @property
    def sent_bytes(self) -> int:
        """The bytes that a device sends."""
        return sum(c.total_bytes for c in self.collectives)

    @property
    def bytes_by_kind(self) -> dict[str, int]:
        """The bytes that a device sends, by kind of collective."""
        found: dict[str, int] = {}
        for c in sorted(self.collectives, key=lambda c: c.collective.kind):
            found[c.collective.kind] = found.get(c.collective.kind, 0) + c.total_bytes
        return found

    @property
    def runs(self) -> int:
        """The number of runs of collectives."""
        return sum(c.runs for c in self.collectives)

    @property
    def flops_ratio(self) -> float | None:
        """The operations of all devices divided by those of the model: 1 if nothing is computed twice."""
        return self.work.total_flops * self.mesh.size / self.model_flops if self.model_flops else None

    @property
    def lower_bound_s(self) -> float:
        """Seconds if compute, memory traffic and communication overlap perfectly."""
        return max(self._parts.values())

    @property
    def upper_bound_s(self) -> float:
        """Seconds if nothing overlaps."""
        return sum(self._parts.values())

    @property
    def bound_by(self) -> str:
        """The largest of `compute`, `memory traffic` and `communication`."""
        return max(self._parts, key=lambda name: self._parts[name])

    @property
    def _parts(self) -> Mapping[str, float]:
        return {"compute": self.compute_s, "memory traffic": self.traffic_s, "communication": self.communication_s}

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what the figures do not include."""
        notes = []
        if self.memory.capacity and self.memory.peak > self.memory.capacity:
            notes.append(
                f"a device of the target has only {self.memory.capacity} bytes; the program needs more: "
                "gspmd suggest --save memory finds annotations that need less"
            )
        if self.work.open_loops:
            notes.append(f"{self.work.open_loops} loops of unknown trip count are priced as one iteration")
        if self.work.uncounted:
            notes.append(f"arithmetic not counted: {', '.join(self.work.uncounted)}")
        if self.work.kernel_sent_bytes:
            notes.append(f"kernels send {self.work.kernel_sent_bytes:.0f} bytes themselves, which are not priced")
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
    product = partitioned(
        module,
        num_partitions,
        replicate_unsupported=replicate_unsupported,
        custom_rules=custom_rules,
        strict=strict,
        target=target,
        options=options,
    )
    if original is None and product.module is not module:
        original = module
    model = None if original is None else model_of_program(original, num_partitions)
    return cost_of(product.module, target, model)


def partitioned(module: ir.Module, num_partitions: int | None, **options: Any) -> api.Partitioned:
    """The module, partitioned by `gspmd.partition` with these options unless it is already partitioned."""
    return api.Partitioned(module) if is_partitioned(module) else api.partition(module, num_partitions, **options)


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """The unpartitioned program: its operations on one device, and a lower bound of its communication."""

    flops: float
    least: LowerBound


def model_of_program(program: Any, num_partitions: int | None = None) -> Model:
    """The `Model` of an unpartitioned program. Errors: those of reading and ingesting it."""
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
    hardware, placement = placed_hardware(target, signature.mesh, traffic_of(top, signature.mesh))
    with module.context, ir.Location.unknown():
        program = Program(top)
        buffers = Buffers(program)
        work = work_of(program, buffers)
        locations = _locations(program)
        sent = list(collective_operations(top, signature.mesh))
        collectives = tuple(CollectiveCost(c, time_of(op, c, signature.mesh, hardware)) for op, c in sent)
        operations = _operations(program, work, hardware, locations)
        numbers = {op: number for number, (op, _) in enumerate(sent)}
        return CostReport(
            program=symbol(top),
            target=hardware.name,
            mesh=signature.mesh,
            collectives=collectives,
            work=work,
            model_flops=None if model is None else model.flops,
            memory=memory_cost(program, buffers, signature, hardware, locations),
            compute_s=sum(flops / hardware.flops_of(element) for (_, element), flops in work.flops.items()),
            traffic_s=work.traffic_bytes / hardware.memory_bytes_per_s,
            hardware=hardware,
            operations=operations,
            timeline=estimated(
                program,
                buffers,
                {each.op: cost.time_s for each, cost in zip(work.operations, operations, strict=True)},
                {op.index: _sent(numbers[op.ir], collectives) for op in program.ops if op.ir in numbers},
                locations,
            ),
            placement=placement,
            least=None if model is None else model.least,
        )


def _locations(program: Program) -> list[SourceLocation | None]:
    """The locations of operations, by index."""
    location_of = functools.cache(source_location)
    return [location_of(op.ir.location) for op in program.ops]


def _operations(
    program: Program, work: Work, hardware: Hardware, locations: Sequence[SourceLocation | None]
) -> tuple[OperationCost, ...]:
    """The price of each operation of the work."""
    return tuple(
        OperationCost(
            name=program.ops[each.op].info.name.removeprefix("stablehlo."),
            location=locations[each.op],
            runs=each.runs,
            flops=each.flops,
            compute_s=each.flops / hardware.flops_of(each.element),
            traffic_bytes=each.traffic_bytes,
            traffic_s=each.traffic_bytes / hardware.memory_bytes_per_s,
        )
        for each in work.operations
    )


def _sent(number: int, collectives: Sequence[CollectiveCost]) -> ScheduledCollective:
    return ScheduledCollective(number, collectives[number].collective.axes, collectives[number].time_s)
