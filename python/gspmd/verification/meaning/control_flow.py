"""Calls and branches."""

from __future__ import annotations

from gspmd.transforms.ir.collective_groups import is_collective
from gspmd.transforms.ir.operations import Operation
from gspmd.verification import index_maps
from gspmd.verification.meaning.elementwise import spread
from gspmd.verification.meaning.meaning import Execution, Meaning
from gspmd.verification.not_known import NotKnown
from gspmd.verification.values import SymbolicValue


def _call(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    return machine.call(str(op.attributes["callee"].value), values)


def _composite(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    return machine.call(str(op.attributes["decomposition"].value), values)


def diverges(value: SymbolicValue) -> bool:
    """Whether a scalar may differ between devices."""
    return any(label.kind == "digit" for label in value.labels())


def check_together(op: Operation, deciding: SymbolicValue) -> None:
    """Raise NotKnown for collectives in a region that not all devices may run."""
    if diverges(deciding) and any(is_collective(inner) for inner in op.walk()):
        raise NotKnown("a collective in a region that not all devices may run")


def _if(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    (condition,) = values
    check_together(op, condition)
    yes, no = (machine.block(region, []) for region in op.regions)
    algebra = machine.algebra
    return [
        algebra.elementwise(("stablehlo.select",), a.element, [spread(condition, a.shape), a, b])
        if a.element == b.element and not a.element.startswith("!")
        else a
        for a, b in zip(yes, no, strict=True)
    ]


def _case(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    (index,) = values
    check_together(op, index)
    algebra, last = machine.algebra, len(op.regions) - 1
    branches = [machine.block(region, []) for region in op.regions]
    chosen = branches[last]
    for number in reversed(range(last)):
        here = algebra.equal(index, index_maps.constant(number))
        chosen = [
            algebra.elementwise(("stablehlo.select",), a.element, [spread(here, a.shape), a, b])
            for a, b in zip(branches[number], chosen, strict=True)
        ]
    return chosen


MEANINGS: dict[str, Meaning] = {
    "func.call": _call,
    "stablehlo.composite": _composite,
    "stablehlo.if": _if,
    "stablehlo.case": _case,
}
