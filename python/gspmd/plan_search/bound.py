"""A lower bound of the step time of every plan, under the estimate by which plans are compared."""

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
    """A lower bound in seconds, and its reason."""

    seconds: float
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return dataclasses.asdict(self)


WORK = "arithmetic and unavoidable memory traffic, divided evenly"


def work_bound_s(
    module: ir.Module, annotated: AnnotatedProgram, hardware: Hardware, arguments: Mapping[str, Any]
) -> float:
    """A lower bound in seconds of the work of a program on the devices of its mesh, for any sharding.

    On average, a device does at least its share of the arithmetic and of the unavoidable memory traffic
    (`_UnavoidableTraffic`). The operations are those of the program without annotations, partitioned for one device, so
    that nothing is repeated; with functions that partition calls, for their devices. A program with manual regions or
    partial arguments has no such form; then the arithmetic of the program as given is the bound.

    `annotated` is the ingested program, and `arguments` are those of `gspmd.partition`. Errors: those of
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
    least = _UnavoidableTraffic(program, buffers)
    for each in work_of(program, buffers).operations:
        traffic_s = least.bytes_of(program.ops[each.op]) / hardware.memory_bytes_per_s
        total_s += each.runs * max(each.flops / hardware.flops_of(each.element), traffic_s)
    return total_s / annotated.mesh.size


class _UnavoidableTraffic:
    """The unavoidable memory traffic of a program, for all devices together and any sharding.

    Splitting can remove traffic: a transpose is fused into a contraction, or becomes a reshape of a small shard; a
    slice or a pad becomes a whole shard; a reduction has a single summand. Then their results are not written, and
    their operands may be fused into the consumers. So only these operations count: contractions, look-ups and updates,
    and elementwise operations whose results are read by several operations or a contraction, or returned from the
    program or a loop body.
    """

    def __init__(self, program: Program, buffers: Buffers) -> None:
        self.program, self.buffers = program, buffers
        self._written: dict[int, bool] = {}

    def bytes_of(self, op: Op) -> float:
        """The bytes that an operation reads and writes at least."""
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
        """Whether the results of an operation are in memory under any sharding."""
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
        """The value in memory from which one is computed elementwise, and the bytes of it that are read at least.

        They are at most the bytes of each value in between, which may be read instead if it is in memory.
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
