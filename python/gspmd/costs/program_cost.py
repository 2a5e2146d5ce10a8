"""The cost of a partitioned program on a device: communication, compute, memory, and bounds of its time."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from jaxlib.mlir import ir

from gspmd import api
from gspmd.collectives import collective_operations, time_of, traffic_of
from gspmd.costs.cost_report import CollectiveCost, CostReport, OperationCost
from gspmd.costs.memory_cost import memory_cost
from gspmd.costs.timeline import ScheduledCollective, estimated
from gspmd.costs.work import Work, work_of
from gspmd.dialect.errors import SourceLocation
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
from gspmd.transforms.ops.custom_rules import RuleSource
from gspmd.transforms.parsing.mlir import source_location


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
