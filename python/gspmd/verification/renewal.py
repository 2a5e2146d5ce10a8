"""Values in the normal form of the indices at which they are read.

A term is in normal form for the devices and indices for which it was made. Read at other ones, as after an all-gather,
it may be simpler: a choice has fewer parts, or two conditions are the same. Then it is computed again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from gspmd.transforms.ops import traits_of
from gspmd.verification.algebra import ORDERED, PIECE, PIECES
from gspmd.verification.conditions import Conditions
from gspmd.verification.index_maps import TooLarge
from gspmd.verification.terms import CHOICE, INDEX, SUM, TUPLE, Instance
from gspmd.verification.values import SymbolicValue

_SELECT = "stablehlo.select"
_OF_BITS = (ORDERED, PIECE, PIECES)
_Known = dict[Instance, SymbolicValue]
_MAX_COMPUTED = 1000  # values: about a second


def renewed(algebra: Conditions, value: SymbolicValue) -> SymbolicValue:
    """A value, computed again from the arguments on. Raises NotKnown, TooLarge."""
    made = _Renewal(algebra, {}, iter(range(_MAX_COMPUTED))).of(dataclasses.replace(value, valid=()))
    return algebra.of(made.instance, value.shape, value.valid)


class _Renewal:
    """Computes values again, some of which are `given`, as long as there are `turns`."""

    def __init__(self, algebra: Conditions, given: _Known, turns: Iterator[int]) -> None:
        self._algebra = algebra
        self._given = given
        self._made = dict(given)
        self._turns = turns

    def of(self, value: SymbolicValue) -> SymbolicValue:
        if value.instance not in self._made:
            if next(self._turns, None) is None:
                raise TooLarge
            self._made[value.instance] = self._computed(value)
        return dataclasses.replace(self._made[value.instance], shape=value.shape)

    def _computed(self, value: SymbolicValue) -> SymbolicValue:
        algebra, term = self._algebra, value.term
        if not term.parts:
            return value
        if term.kind == SUM:
            return self._summed(value)
        if term.kind == _SELECT:
            return self._selected(value)
        if (ends := algebra.ends(value)) is not None:
            return algebra.within(self.of(ends[0]), *ends[1:])
        parts = [self.of(algebra.part(value, number)) for number in range(len(term.parts))]
        if term.kind == CHOICE:
            leaves = [part.instance for part in parts]
            return algebra.of(algebra.terms.choice(algebra.selector(value), leaves), value.shape)
        if term.kind in _OF_BITS or (traits_of(str(term.kind)).elementwise and not term.own):
            return algebra.elementwise(term.operation, term.element, parts)
        own = [(INDEX, value.maps[ref] if isinstance(ref, int) else ref) for ref in term.own]
        made = algebra.terms.make(term.operation, term.element, [part.instance for part in parts], own)
        return algebra.of(made, value.shape)

    def _selected(self, value: SymbolicValue) -> SymbolicValue:
        """A selection; where integers are selected by being equal to known ones, they are these."""
        algebra = self._algebra
        condition, yes, no = (algebra.part(value, number) for number in range(3))
        condition, given = self.of(condition), dict[Instance, SymbolicValue]()
        for each in algebra.conjuncts(condition):
            ends = algebra.ends(each)
            if ends is not None and ends[1] is ends[2]:
                given[ends[0].instance] = algebra.number(ends[1], ends[0].element, each.shape)
        there = _Renewal(algebra, self._given | given, self._turns) if given else self
        return algebra.elementwise(value.term.operation, value.element, [condition, there.of(yes), self.of(no)])

    def _summed(self, value: SymbolicValue) -> SymbolicValue:
        """A sum of renewed summands; a sum in which a summand counts more than once is left as it is."""
        algebra, monoid, rank = self._algebra, str(value.term.operation[1]), len(value.shape)
        body, counts = algebra.unfolded(value)
        neutral = algebra.neutral(monoid, body.element, body.shape)
        if neutral is None or any((each.table > 1).any() for each in counts):
            return value
        made = self.of(body)
        for count in counts:
            made = algebra.choice(count, made, neutral)
        for axis in reversed(range(rank, len(body.shape))):
            made = algebra.total(monoid, made, axis)
        return algebra.summed_once(monoid, made) if neutral.term.operation == TUPLE else made
