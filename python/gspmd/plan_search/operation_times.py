"""The times of a propagated program's operations on one device, without splitting them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from gspmd.costs.operations import flops_of
from gspmd.transforms.analysis.trip_count import runs_of
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.propagate import Completion
from gspmd.transforms.propagate.solver import Node


def operation_times(completion: Completion, hardware: Hardware) -> Iterator[tuple[Node, float]]:
    """The nodes of the graph that compute, with their seconds on one device in a call of the program.

    The longer of arithmetic and memory traffic counts; loops of unknown trip count run once.
    """
    program = completion.annotated.program
    for node in completion.graph.nodes:
        if node.op < len(program.ops) and not program.ops[node.op].regions:
            types = [completion.graph.slot_types[slot] for slot in node.slots]
            op = program.ops[node.op]
            yield node, runs_of(op.ir) * _time(op.info, types, hardware)


def bytes_of(type_: TensorType) -> float:
    """The bytes of a value of the type in memory."""
    return math.prod(type_.shape) * element_bytes(type_.element) if type_.is_tensor else 0.0


def _time(info: OpInfo, types: Iterable[TensorType], hardware: Hardware) -> float:
    counted = flops_of(info)
    element = info.operands[0].element if info.operands else "f32"
    compute_s = counted[1] / hardware.flops_of(element) if counted else 0.0
    return max(compute_s, sum(map(bytes_of, types)) / hardware.memory_bytes_per_s)
