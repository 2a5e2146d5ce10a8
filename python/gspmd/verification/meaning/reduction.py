"""Reductions."""

from __future__ import annotations

import functools
import operator

import numpy as np

from gspmd.transforms.ir.operations import Operation
from gspmd.verification import numbers
from gspmd.verification.attributes import ints, reducer
from gspmd.verification.index_maps import Integers
from gspmd.verification.meaning.elementwise import item, joint, region_text, spread
from gspmd.verification.meaning.meaning import Execution, Meaning
from gspmd.verification.meaning.opaque import opaque
from gspmd.verification.terms import CONSTANT, SUM, TUPLE
from gspmd.verification.values import SymbolicValue
from gspmd.verification.witness import Numbers, Uninterpreted, Witness


def with_initial(machine: Execution, monoid: str, made: SymbolicValue, initial: SymbolicValue) -> SymbolicValue:
    """A sum that starts from an initial value."""
    if initial.term.kind == CONSTANT and numbers.is_neutral(monoid, int(initial.term.operation[1]), made.element):  # type: ignore[call-overload]
        return made
    return machine.algebra.elementwise((f"stablehlo.{monoid}",), made.element, [made, spread(initial, made.shape)])


def _reduce(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    monoid = reducer(op.regions[0]) if len(op.results) == 1 else None
    axes = sorted(ints(op, "dimensions"), reverse=True)
    if monoid is None:
        return _by_body(machine, op, values, axes)
    made, initial = values
    for axis in axes:
        made = machine.algebra.total(monoid, made, axis)
    return [with_initial(machine, monoid, made, initial)]


def _by_body(machine: Execution, op: Operation, values: list[SymbolicValue], axes: list[int]) -> list[SymbolicValue]:
    """A reduction of several operands together, or by a custom function.

    It may be done in parts if the initial value, combined with itself, is unchanged: then it does not matter how often
    it is combined. All others take whole operands.
    """
    algebra, count = machine.algebra, len(op.results)
    operands, initial = values[:count], values[count:]
    if any(value.term.kind != CONSTANT for value in initial) or not _is_idempotent(machine, op, initial):
        return opaque(machine, op, values)
    begins = ",".join(f"{value.element}={value.term.operation[1]}" for value in initial)
    monoid = f"{region_text(op.regions[0])} from {begins}"
    algebra.neutral_terms[monoid] = algebra.terms.make(TUPLE, "tuple", [value.instance for value in initial]).term
    made = _together(machine, monoid, operands, initial)
    for axis in axes:
        made = algebra.total(monoid, made, axis)
    made = algebra.summed_once(monoid, made)
    return [item(machine, made, index, result.type.element) for index, result in enumerate(op.results)]


def _together(
    machine: Execution, monoid: str, operands: list[SymbolicValue], initial: list[SymbolicValue]
) -> SymbolicValue:
    """Operands as one value. The results of one joint reduction are that reduction."""
    algebra, shape = machine.algebra, operands[0].shape
    valid = [mask for value in operands for mask in value.valid]
    if all(value.term.operation == ("item", index) for index, value in enumerate(operands)):
        sums = [algebra.part(value, 0) for value in operands]
        if sums[0].term.operation == (SUM, monoid) and all(each.instance == sums[0].instance for each in sums):
            return algebra.of(sums[0].instance, shape, valid)
    apart = [
        algebra.without(value, functools.partial(operator.is_, begin.term))
        for value, begin in zip(operands, initial, strict=True)
    ]
    first = apart[0]
    if first is not None and all(each is not None and each[0] is first[0] for each in apart):
        inner = _together(machine, monoid, [each[1] for each in apart if each is not None], initial)
        empty = algebra.terms.make(TUPLE, "tuple", [value.instance for value in initial])
        return algebra.choice(first[0], inner, algebra.of(empty, shape))
    return joint(machine, operands)


def _is_idempotent(machine: Execution, op: Operation, initial: list[SymbolicValue]) -> bool:
    """Whether the initial value of a reduction, combined with itself, is unchanged."""
    made = machine.block(op.regions[0], [*initial, *initial])
    row = np.zeros((1, 0), np.int64)
    witness = Witness(_no_arguments)
    try:
        return all(
            not value.maps and witness.values(value.term, row) == witness.values(begin.term, row)
            for value, begin in zip(made, initial, strict=True)
        )
    except Uninterpreted:
        return False


def _no_arguments(number: int, element: str, index: Integers) -> Numbers:
    raise Uninterpreted


MEANINGS: dict[str, Meaning] = {"stablehlo.reduce": _reduce}
