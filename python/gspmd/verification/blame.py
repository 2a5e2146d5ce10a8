"""The first operation of the partitioned program that makes something the given program has not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.operations import Value as Name
from gspmd.verification.terms import CONSTANT, INTEGER, Term
from gspmd.verification.values import SymbolicValue


def first_difference(
    given: Iterable[SymbolicValue], found: Mapping[Name, SymbolicValue], result: Name
) -> Operation | None:
    """Of the operations that a result is made of the first whose operands are all the given program's, and it is not.

    Sums that are not finished on all devices do not count. Where all are the given program's, as where only the wrong
    elements are taken, it is the last one.
    """
    native = _reachable(value.term for value in given)
    for op in _made_of(result):
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


def _made_of(result: Name) -> list[Operation]:
    """The operations of the block that a value is made of, in order."""
    found: set[Operation] = set()
    open_ = [result]
    while open_:
        op = open_.pop().op
        if op is None or op in found:
            continue
        found.add(op)
        open_.extend(op.operands)
    return [op for op in result.block if op in found]
