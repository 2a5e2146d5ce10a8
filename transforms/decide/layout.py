"""The placement of the mesh on the target machine.

The links of an axis depend on its placement, and the best placement depends on the collectives along it. So the mesh is
first placed for the collectives that propagation implies, and the program is decided for that placement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.decide.problem import ProblemBuilder
from gspmd.transforms.decide.solver import Solution
from gspmd.transforms.decide.write import shardings
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.machine.device_order import order_text
from gspmd.transforms.machine.targets import Traffic
from gspmd.transforms.machine.topology import is_machine, read_machine

Move = tuple[TensorType, TensorSharding, TensorSharding]


def is_open(target: str, mesh: Mesh) -> bool:
    """Whether the target does not fix the placement of the devices."""
    return mesh.size > 1 and not mesh.device_ids and is_machine(target) and not read_machine(target).order


def laid_out(target: str, builder: ProblemBuilder, solution: Solution) -> str:
    """A target without a device order, with the best order for a solution."""
    machine = read_machine(target)
    assert machine.torus is not None, "machines are tori, or switches"
    placement = machine.place(builder.values.annotated.mesh, list(_traffic(builder, solution.states)))
    return f"{target}@{order_text(tuple(slot for _, slots in placement.slots for slot in slots), machine.torus)}"


def _traffic(builder: ProblemBuilder, states: list[int]) -> Iterator[Traffic]:
    """The traffic of a solution's reshards."""
    planner = builder.prices.planner
    for (type_, source, target), times in _moves(builder, states).items():
        at = source
        for step in planner.plan(type_, source, target).steps:
            for sent in step.sent(type_, at):
                yield Traffic(sent.kind, sent.local_bytes, sent.axes, times, sent.reach)
            at = step.after


def _moves(builder: ProblemBuilder, states: list[int]) -> Counter[Move]:
    """The reshards between operations, and how often each runs. Equal reshards of a value count once."""
    values, decided = builder.values, shardings(builder, states)
    found: Counter[Move] = Counter()
    seen: set[tuple[int, TensorSharding]] = set()
    for consumer in values.consumers.values():
        op = consumer.op
        assert op is not None, "it is an operation"
        runs = builder.shardings_of(op, states[builder.op_variable[op.index]])
        for number, (value, needed) in enumerate(zip((*op.operands, *op.results), runs, strict=True)):
            lies = decided.get(values.carried[value]) or values.at(value)
            if lies == needed or (value, needed) in seen:
                continue
            seen.add((value, needed))
            ends = (lies, needed) if number < len(op.operands) else (needed, lies)
            found[builder.types[value], *ends] += round(consumer.times * consumer.copies)
    return found
