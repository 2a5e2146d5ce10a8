"""Finds the first operation of the partitioned program whose result the given program does not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.operations import Value as Name
from gspmd.verification.terms import CONSTANT, INTEGER, Term
from gspmd.verification.values import SymbolicValue


def first_difference(
    given: Iterable[SymbolicValue], found: Mapping[Name, SymbolicValue], result: Name
) -> Operation | None:
    """The first operation before a result that has a term foreign to the given program, and no foreign operand.

    Partial sums do not count as foreign. If no term is foreign, as where only the wrong elements are read, it is the
    operation that defines the result.
    """
    native = _reachable(value.term for value in given)
    for op in _operations_before(result):
        if not all(name in found for name in (*op.results, *op.operands)):
            continue
        results, operands = [found[name] for name in op.results], [found[name] for name in op.operands]
        if any(_is_foreign(value, native) for value in results) and not any(
            _is_foreign(value, native) for value in operands
        ):
            return op
    return result.op


def _is_foreign(value: SymbolicValue, native: set[Term]) -> bool:
    return value.term not in native and value.term.kind not in (CONSTANT, INTEGER) and not value.is_partial


def _reachable(terms: Iterable[Term]) -> set[Term]:
    found: set[Term] = set()
    open_ = list(terms)
    while open_:
        term = open_.pop()
        if term not in found:
            found.add(term)
            open_.extend(term.parts)
    return found


def _operations_before(result: Name) -> list[Operation]:
    """The operations of the block on which a value depends, in order."""
    found: set[Operation] = set()
    open_ = [result]
    while open_:
        op = open_.pop().op
        if op is None or op in found:
            continue
        found.add(op)
        open_.extend(op.operands)
    return [op for op in result.block if op in found]
