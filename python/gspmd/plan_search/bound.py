"""What no step of a program takes less than, by the estimate that plans are compared by."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxlib.mlir import ir

from gspmd import api
from gspmd.costs.operations import flops_of
from gspmd.costs.work import work_of
from gspmd.dialect.mesh import Mesh
from gspmd.plan_search.meshes import put_mesh
from gspmd.reading import read_program
from gspmd.runtime.unannotated import has_manual_regions, strip
from gspmd.transforms.analysis.buffers import Buffers, bytes_of_value
from gspmd.transforms.decide.work import CONTRACTIONS
from gspmd.transforms.emit.partial_values import is_taking_apart
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.program import BARRIER, Op, Program
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.ops import traits_of
from gspmd.transforms.ops.custom_rules import CallPartitioner


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """Seconds that no plan takes less than, and why."""

    seconds: float
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON holds them."""
        return dataclasses.asdict(self)


WORK = "arithmetic, and what is read and written in any case, divided evenly"


def work_bound_s(
    module: ir.Module, annotated: AnnotatedProgram, hardware: Hardware, arguments: Mapping[str, Any]
) -> float:
    """Seconds that the work of a program takes at least on the devices of its mesh, however it is split.

    A device that does a part of an operation does at least its share of the arithmetic, and of what is written and read
    in any case (`_LeastTraffic`). The operations are those of the program without annotations, partitioned for one
    device, and so without what is done twice; functions that split calls know their own devices alone, and with them
    it is for these. Where parts of it are manual, or arguments are sums over devices, there is no such program; the
    operations are those of the program as it is, of which only the arithmetic counts.

    `annotated` is the program as it is ingested, and `arguments` are those of `gspmd.partition`. Errors: those of
    `gspmd.partition`.
    """
    if has_manual_regions(model_of(module)) or any(is_taking_apart(op.ir) for op in annotated.program.ops):
        works = work_of(annotated.program, annotated=annotated).operations
        return sum(each.runs * each.flops / hardware.flops_of(each.element) for each in works) / annotated.mesh.size
    whole = read_program(module)
    with in_memory(whole) as top:
        strip(top)
    is_asked = any(isinstance(rule, CallPartitioner) for rule in (arguments.get("custom_rules") or {}).values())
    put_mesh(whole, annotated.mesh if is_asked else Mesh((("x", 1),), name="mesh"))
    program = Program(model_of(api.partition(whole, **{**arguments, "target": ""}).module))
    buffers, total_s = Buffers(program), 0.0
    least = _LeastTraffic(program, buffers)
    for each in work_of(program, buffers).operations:
        traffic_s = least.bytes_of(program.ops[each.op]) / hardware.memory_bytes_per_s
        total_s += each.runs * max(each.flops / hardware.flops_of(each.element), traffic_s)
    return total_s / annotated.mesh.size


class _LeastTraffic:
    """What the operations of a program write and read in memory, all devices together, however it is split.

    Splitting takes traffic away. A transpose is done within a contraction, or is a reshape where shards are small; a
    slice or a pad is all that a device has; a reduction has nothing to add up. What such operations moved is not
    written then, and what they were made of may be computed within their users. So only these count: contractions;
    what looks values up or replaces some; and elementwise operations whose results are used by several operations, by
    a contraction, or by whoever called the program or the body of a loop.
    """

    def __init__(self, program: Program, buffers: Buffers) -> None:
        self.program, self.buffers = program, buffers
        self._written: dict[int, bool] = {}

    def bytes_of(self, op: Op) -> float:
        """What an operation writes and reads at least."""
        if not self._is_written(op):
            return 0.0
        traits, read = traits_of(op.info.name), dict[int, float]()
        is_partly_read = traits.looks_up or traits.update is not None
        for operand in op.operands[1:] if is_partly_read else op.operands:
            root, bytes_ = self._made_of(operand)
            read[root] = max(read.get(root, 0.0), bytes_)
        values = op.results if traits.update is None else [op.operands[traits.update]]
        written = sum(bytes_of_value(self.program, value) for value in values)
        return sum(read.values()) + (2 * written if traits.looks_up else written)

    def _is_written(self, op: Op) -> bool:
        """Whether the results of an operation are in memory however the program is split."""
        found = self._written.get(op.index)
        if found is None:
            found = self._written[op.index] = self._decide(op)
        return found

    def _decide(self, op: Op) -> bool:
        traits = traits_of(op.info.name)
        if op.regions or traits.view or self.buffers.is_virtual(op):
            return False
        if traits.looks_up or traits.update is not None or _contracts(op):
            return True
        if not traits.elementwise:
            return False
        users = self.buffers.final_users(op)
        return len(users) > 1 or any(user is None or _contracts(user) for user in users)

    def _made_of(self, value: int) -> tuple[int, float]:
        """A value in memory that one is made of element by element, and how many bytes of it are read at least.

        Those are no more than of each value in between, since what is in memory of these may be read instead.
        """
        program, least = self.program, float(bytes_of_value(self.program, value))
        while program.value_def[value] >= 0:
            op = program.ops[program.value_def[value]]
            if op.regions or flops_of(op.info) is None or self._is_written(op):
                break
            if not op.operands:
                return value, 0.0
            if op.info.name == BARRIER:
                value = op.operands[op.results.index(value)]
            else:
                value = max(op.operands, key=lambda operand: bytes_of_value(program, operand))
            least = min(least, bytes_of_value(program, value))
        return value, least


def _contracts(op: Op) -> bool:
    counted = flops_of(op.info)
    return counted is not None and counted[0] in CONTRACTIONS
