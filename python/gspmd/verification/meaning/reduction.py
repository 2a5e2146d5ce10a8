"""Elements that are combined."""

from __future__ import annotations

from gspmd.transforms.ir.operations import Operation
from gspmd.verification import numbers
from gspmd.verification.algebra import NotKnown
from gspmd.verification.attributes import ints, reducer
from gspmd.verification.meaning.elementwise import spread
from gspmd.verification.meaning.meaning import Execution, Meaning
from gspmd.verification.terms import CONSTANT
from gspmd.verification.values import SymbolicValue


def with_initial(machine: Execution, monoid: str, made: SymbolicValue, initial: SymbolicValue) -> SymbolicValue:
    """A sum that begins with a value."""
    if initial.term.kind == CONSTANT and numbers.is_neutral(monoid, int(initial.term.operation[1]), made.element):  # type: ignore[call-overload]
        return made
    return machine.algebra.elementwise((f"stablehlo.{monoid}",), made.element, [made, spread(initial, made.shape)])


def _reduce(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    monoid = reducer(op.regions[0]) if len(op.results) == 1 else None
    if monoid is None:
        raise NotKnown("a reduction by an operation of its own")
    made, initial = values
    for axis in sorted(ints(op, "dimensions"), reverse=True):
        made = machine.algebra.total(monoid, made, axis)
    return [with_initial(machine, monoid, made, initial)]


MEANINGS: dict[str, Meaning] = {"stablehlo.reduce": _reduce}
