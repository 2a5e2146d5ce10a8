"""Values in the normal form of the indices at which they are read.

A term is in normal form for the devices and indices for which it was made. Read at other ones, as after an all-gather,
it may be simpler: a choice has fewer parts, or two conditions are the same. Then it is computed again.
"""

from __future__ import annotations

import dataclasses

from gspmd.transforms.ops import traits_of
from gspmd.verification.algebra import ORDERED, PIECE, PIECES
from gspmd.verification.conditions import Conditions
from gspmd.verification.terms import CHOICE, INDEX, SUM, TUPLE, Binding, Term
from gspmd.verification.values import SymbolicValue

_OF_BITS = (ORDERED, PIECE, PIECES)
_Known = dict[tuple[Term, tuple[Binding, ...], tuple[int, ...]], SymbolicValue]


def renewed(algebra: Conditions, value: SymbolicValue) -> SymbolicValue:
    """A value, computed again from the arguments on. Raises NotKnown, TooLarge."""
    made = _renewed(algebra, dataclasses.replace(value, valid=()), {})
    return algebra.of(made.instance, value.shape, value.valid)


def _renewed(algebra: Conditions, value: SymbolicValue, known: _Known) -> SymbolicValue:
    key = value.term, value.bindings, value.shape
    if key not in known:
        known[key] = _computed(algebra, value, known)
    return known[key]


def _computed(algebra: Conditions, value: SymbolicValue, known: _Known) -> SymbolicValue:
    term = value.term
    if not term.parts:
        return value
    if term.kind == SUM:
        return _summed(algebra, value, known)
    parts = [_renewed(algebra, algebra.part(value, number), known) for number in range(len(term.parts))]
    if term.kind == CHOICE:
        return algebra.of(algebra.terms.choice(algebra.selector(value), [part.instance for part in parts]), value.shape)
    if term.kind in _OF_BITS or (traits_of(str(term.kind)).elementwise and not term.own):
        return algebra.elementwise(term.operation, term.element, parts)
    own = [(INDEX, value.maps[ref] if isinstance(ref, int) else ref) for ref in term.own]
    made = algebra.terms.make(term.operation, term.element, [part.instance for part in parts], own)
    return algebra.of(made, value.shape)


def _summed(algebra: Conditions, value: SymbolicValue, known: _Known) -> SymbolicValue:
    """A sum of renewed summands; a sum in which a summand counts more than once is left as it is."""
    monoid, rank = str(value.term.operation[1]), len(value.shape)
    body, counts = algebra.unfolded(value)
    neutral = algebra.neutral(monoid, body.element, body.shape)
    if neutral is None or any((each.table > 1).any() for each in counts):
        return value
    made = _renewed(algebra, body, known)
    for count in counts:
        made = algebra.choice(count, made, neutral)
    for axis in reversed(range(rank, len(body.shape))):
        made = algebra.total(monoid, made, axis)
    return algebra.summed_once(monoid, made) if neutral.term.operation == TUPLE else made
