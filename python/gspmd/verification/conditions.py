"""Conditions and selections in normal form: conjunctions of ranges of unknown integers, and of other conditions.

The look-up of a device in its shard of a table is a sum over its own rows, each where the index is in the row's range.
So the sum over all devices is the look-up of the given program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from gspmd.verification import index_maps, numbers
from gspmd.verification.algebra import BITCAST
from gspmd.verification.blocks import ANY
from gspmd.verification.index_maps import IndexMap, counted, dim, integer_map, pointwise, pointwise_known, takes
from gspmd.verification.numbers import is_float
from gspmd.verification.ordered import as_ordered, from_ordered
from gspmd.verification.ranges import NOT, Ranges, is_exact
from gspmd.verification.terms import CHOICE, CONSTANT, NOTHING, RANGE, SET, SUM, BoundSlot, Instance, is_zero
from gspmd.verification.values import SymbolicValue

_COMPARE, _SELECT, _AND, _OR = (f"stablehlo.{name}" for name in ("compare", "select", "and", "or"))
_ADD = "stablehlo.add"
_OPPOSITE = {"LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT", "EQ": "NE", "NE": "EQ"}


class Conditions(Ranges):
    """Makes values, with conditions in normal form."""

    def elementwise(self, operation: tuple[Any, ...], element: str, values: Sequence[SymbolicValue]) -> SymbolicValue:
        """As `Algebra.elementwise`, with conditions and selections in normal form."""
        name = operation[0]
        made: SymbolicValue | None = None
        if name == _COMPARE and "total" not in operation and numbers.bits_of(values[0].element):
            made = self.compared(str(operation[1]), values)
        elif name == NOT and element == "i1":
            made = self._opposite(values[0])
        elif name == _AND and element == "i1":
            made = self._all_of(self.conjuncts(values[0]) + self.conjuncts(values[1]))
        elif name == _SELECT:
            made = as_ordered(self, *values) or self._with_zeros_last(*values) or self._selected(*values)
        elif name == BITCAST and is_float(element):
            made = from_ordered(self, values[0])
        elif name == "stablehlo.clamp":
            made = self._fixed(*values)
        if made is None:
            return super().elementwise(operation, element, values)
        # elements that are not selected need not be known
        deciding = values[:1] if name == _SELECT else values
        valid = [mask for value in deciding for mask in value.valid]
        return self.of(made.instance, values[0].shape, [*made.valid, *valid])

    def _fixed(self, low: SymbolicValue, value: SymbolicValue, high: SymbolicValue) -> SymbolicValue | None:
        """A clamp whose limits are equal, or beyond the range of the value."""
        least, most = self.known(low), self.known(high)
        if least is None or most is None or not (least.is_constant and most.is_constant):
            return None
        if least.value == most.value:
            return low
        if not numbers.bits_of(value.element):
            return None
        lowest, highest = self.range_of(value)
        return value if least.value <= lowest and highest <= most.value else None

    def _of_inner(self, value: SymbolicValue, low: IndexMap, high: IndexMap) -> SymbolicValue:
        """As `Ranges._of_inner`; a selection of a known integer that is not in the range is not that integer."""
        if value.term.kind == _SELECT:
            condition, yes, no = (self.part(value, i) for i in range(3))
            for holds, part, other in ((condition, yes, no), (self._opposite(condition), no, yes)):
                known = self.known(other)
                if holds is None or known is None:
                    continue
                if 1 not in pointwise_known(lambda n, a, b: (a <= n) & (n <= b), known, low, high).taken:
                    return self._all_of([*self.conjuncts(holds), self.within(part, low, high)])
        return super()._of_inner(value, low, high)

    # ---- conjunctions ----

    def conjuncts(self, value: SymbolicValue) -> list[SymbolicValue]:
        """The conditions of which a condition is the conjunction."""
        if value.term.kind == _AND and value.element == "i1":
            return self.conjuncts(self.part(value, 0)) + self.conjuncts(self.part(value, 1))
        return [value]

    def _all_of(self, conditions: Sequence[SymbolicValue]) -> SymbolicValue:
        """A conjunction; its known conditions become a choice."""
        shape = conditions[0].shape
        no = self.number(index_maps.constant(0), "i1", shape)
        unknown: dict[Instance, SymbolicValue] = {}
        masks = []
        for condition in conditions:
            known = self.known(condition)
            if known is not None:
                masks.append(known)
            elif (parts_ := self.without(condition, is_zero)) is not None:
                mask, yes, _ = parts_
                masks.append(mask)
                unknown.update((each.instance, each) for each in self.conjuncts(yes))
            else:
                unknown[condition.instance] = condition
        given = self._met(list(unknown.values()))
        if [each.instance for each in given] != list(unknown):
            made = self._all_of(given)
        elif (apart := next((each for each in given if self._is_apart(each, given)), None)) is not None:
            others, made = [each for each in given if each is not apart], no
            for here, leaf in self._apart(apart):
                seen = [self._seen(each, here) for each in (*others, *self.conjuncts(leaf))]
                made = self.choice(here, self._all_of(seen), made)
        else:
            parts = sorted(given, key=lambda part: part.term.number)
            made = parts[0] if parts else self.number(index_maps.constant(1), "i1", shape)
            for part in parts[1:]:
                made = super().elementwise((_AND,), "i1", [made, part])
        for mask in masks:
            made = self.choice(mask, made, no)
        return made

    def _is_implied(self, condition: SymbolicValue, by: Sequence[SymbolicValue]) -> bool:
        """Whether a condition is one of others, or a range that is wider than one of these."""
        if any(each.instance == condition.instance for each in by):
            return True
        wide = self.ends(condition)
        for narrow in filter(None, map(self.ends, by)):
            if wide is not None and wide[0].instance == narrow[0].instance:
                inside = pointwise_known(lambda a, b, c, d: (a <= b) & (c <= d), wide[1], narrow[1], narrow[2], wide[2])
                return 0 not in inside.taken
        return False

    def _is_apart(self, condition: SymbolicValue, others: Sequence[SymbolicValue]) -> bool:
        """Whether a condition beside others is a choice of ranges of several integers."""
        return (
            condition.term.kind == CHOICE
            and len(others) > 1
            and any(part.kind in (RANGE, _AND) for part in condition.term.parts)
            and self.ends(condition) is None
        )

    def _met(self, conditions: list[SymbolicValue]) -> list[SymbolicValue]:
        """The conditions, with one range in place of several of one integer, each where the others hold."""
        ranges: dict[Instance, list[SymbolicValue]] = {}
        for each in conditions:
            found = self.ends(each)
            ranges.setdefault(each.instance if found is None else found[0].instance, []).append(each)
        met = [each[0] if len(each) == 1 else self._intersection(each) for each in ranges.values()]
        for place, each in enumerate(met):  # one after the other: the others are those that it stands beside
            met[place] = self._given(each, met)
        return met

    def _given(self, condition: SymbolicValue, others: Sequence[SymbolicValue]) -> SymbolicValue:
        """A range where other conditions hold: of what is selected on these, and of an integer that these bound."""
        found = self.ends(condition)
        if found is None:
            return condition
        value, low, high = found
        if value.term.kind == _SELECT and all(self._is_implied(e, others) for e in self.conjuncts(self.part(value, 0))):
            return self._given(self.within(self.part(value, 1), low, high), others)
        if (shifted := self._shifted(value)) is None:
            return condition
        part, offset = shifted
        for integer, *bounds in filter(None, map(self.ends, others)):
            if integer.instance != part.instance or not all(map(is_exact, (offset, *bounds))):
                continue
            least, most = (pointwise_known(np.add, end, offset) for end in bounds)
            if _is_inside(least, most, numbers.range_of_type(value.element)):
                met = _tightened(low, high, least, most)
                return self.within(part, *(pointwise_known(np.subtract, end, offset) for end in met))
        return condition

    def _intersection(self, ranges: Sequence[SymbolicValue]) -> SymbolicValue:
        (value, low, high), *others = (found for each in ranges if (found := self.ends(each)) is not None)
        for _, least, most in others:
            low, high = _tightened(low, high, least, most)
        return self.within(value, low, high)

    # ---- selections ----

    def _opposite(self, condition: SymbolicValue) -> SymbolicValue | None:
        """The opposite of a condition, if that is no conjunction or a conjunction of comparisons of integers."""
        known, kind = self.known(condition), condition.term.kind
        if known is not None:
            return self.number(pointwise_known(lambda n: 1 - n, known), "i1", condition.shape)
        if kind == RANGE:
            return self.outside(condition)
        if kind not in (NOT, _OR, _COMPARE, CHOICE):
            return None
        parts = self.leaves(condition)
        if kind == NOT:
            return parts[0]
        if kind == _OR:
            opposites = [self._opposite(part) for part in parts]
            if opposites[0] is None or opposites[1] is None:
                return None
            return self.elementwise((_AND,), "i1", opposites)  # type: ignore[arg-type]
        if kind == CHOICE:
            leaves = [each.instance for each in map(self._opposite, parts) if each is not None]
            chosen = self.selector(condition) if len(leaves) == len(parts) else None
            return None if chosen is None else self.of(self.terms.choice(chosen, leaves), condition.shape)
        if kind == _COMPARE and "total" not in condition.term.operation and numbers.bits_of(parts[0].element):
            direction, *rest = condition.term.operation[1:]
            return self.elementwise((_COMPARE, _OPPOSITE[str(direction)], *rest), "i1", parts)
        return None

    def _with_zeros_last(self, condition: SymbolicValue, yes: SymbolicValue, no: SymbolicValue) -> SymbolicValue | None:
        """A selection of zero or another value, as one of that value or zero on the opposite condition."""
        if not self.is_zero(yes) or self.is_zero(no) or condition.term.kind == _COMPARE or no.term.kind == NOTHING:
            return None
        opposite = self._opposite(condition)
        return None if opposite is None else self.elementwise((_SELECT,), yes.element, [opposite, no, yes])

    def _selected(self, condition: SymbolicValue, yes: SymbolicValue, no: SymbolicValue) -> SymbolicValue | None:
        if yes.instance == no.instance:
            return yes
        where = self._on(condition, yes)
        if where.instance != yes.instance:
            return self.elementwise((_SELECT,), yes.element, [condition, where, no])
        replaced = self._kept(condition, yes, no)
        if replaced is not None:
            return replaced
        if condition.term.kind == CHOICE:
            made = no
            for here, each in self._apart(condition):
                seen = [self._seen(value, here) for value in (each, yes, no)]
                made = self.choice(here, self.elementwise((_SELECT,), yes.element, seen), made)
            return made
        if self.known(condition) is not None:
            return None
        if self.is_zero(no) and (parts := self.without(yes, is_zero)) is not None:
            mask, part, _ = parts
            return self.choice(mask, self.elementwise((_SELECT,), yes.element, [condition, part, no]), no)
        if yes.term.kind == _SELECT:
            other = self.part(yes, 2)
            if other.instance == no.instance or (self.is_zero(other) and self.is_zero(no)):
                both = self._all_of([*self.conjuncts(condition), *self.conjuncts(self.part(yes, 0))])
                return self.elementwise((_SELECT,), yes.element, [both, self.part(yes, 1), no])
        if self.is_zero(no) and self._is_lookup(yes):
            return self._guarded(condition, yes)
        return None

    def _on(self, condition: SymbolicValue, value: SymbolicValue) -> SymbolicValue:
        """A value, simplified where a condition holds on which it, or a summand of it, is selected."""
        if value.term.kind == _SELECT:
            given = self.conjuncts(condition)
            if all(self._is_implied(self._given(e, given), given) for e in self.conjuncts(self.part(value, 0))):
                return self.part(value, 1)
        if value.term.kind != _ADD:
            return value
        parts = [self.part(value, number) for number in range(2)]
        there = [self._on(condition, part) for part in parts]
        return value if there == parts else self.elementwise((_ADD,), value.element, there)

    def _kept(self, condition: SymbolicValue, yes: SymbolicValue, no: SymbolicValue) -> SymbolicValue | None:
        """An update of one position with a further condition, which writes the old element if that does not hold."""
        found = self.ends(condition) if yes.term.kind == _SELECT else None
        axes = {label for each in (found or ())[1:] for label in each.labels if label.kind == "dim"}
        if found is None or len(axes) != 1:
            return None
        index, low, high = found
        (axis,), rank = axes, len(no.shape)
        size = no.shape[axis.number]
        if not index_maps.in_turn(low, high, axis):
            return None
        shape, places = (*no.shape, size), {axis: counted(dim(rank), size)}
        every, ends = self.moved(no, shape, places), [index_maps.composed(each, places) for each in (low, high)]
        matters = pointwise(lambda a: a != ANY, ends[0])
        within = self.within(dataclasses.replace(index, shape=shape), *ends)
        here = self.choice(matters, within, self.number(index_maps.constant(0), "i1", shape))
        there = self.elementwise((_SELECT,), no.element, [here, every, self.zero(no.element, shape)])
        if self.total("add", there, rank).instance != self.part(yes, 2).instance:
            return None
        both = self._all_of([condition, *self.conjuncts(self.part(yes, 0))])
        return self.elementwise((_SELECT,), no.element, [both, self.part(yes, 1), no])

    def _apart(self, value: SymbolicValue) -> list[tuple[IndexMap, SymbolicValue]]:
        """The parts of a choice, with masks of where each of them is taken; of other values, the value."""
        if value.term.kind != CHOICE:
            return [(index_maps.constant(1), value)]
        return [(takes(self.selector(value), number), each) for number, each in enumerate(self.leaves(value))]

    def _is_lookup(self, value: SymbolicValue) -> bool:
        term = value.term
        if term.operation != (SUM, "add"):
            return False
        part = term.parts[0]
        summand = next((each for each in part.parts if each.kind == _SELECT), part) if part.kind == CHOICE else part
        if any(kind == SET and isinstance(ref, BoundSlot) for kind, ref in zip(part.kinds, term.refs[0], strict=True)):
            return False
        return (
            summand.kind == _SELECT
            and summand.parts[2].kind == CONSTANT
            and self.is_zero(SymbolicValue(summand.parts[2], (), ()))
        )

    def unfolded(self, value: SymbolicValue) -> tuple[SymbolicValue, list[IndexMap]]:
        """The summands of a sum, with a dimension for each of its sets, and how often each of them counts."""
        term, rank = value.term, len(value.shape)
        sets = [value.maps[ref] if isinstance(ref, int) else ref for ref in term.own]
        columns: dict[BoundSlot, IndexMap] = {}
        counts, sizes = [], []
        for j, each in enumerate(sets):
            assert isinstance(each, IndexMap)
            label = dim(rank + j)
            sizes.append(each.table.shape[-2])
            counts.append(integer_map([*each.labels, label], each.table[..., -1]))
            for slot, ref in enumerate(term.refs[0]):
                if isinstance(ref, BoundSlot) and ref.of == j:
                    made = index_maps.numbered_sets if term.parts[0].kinds[slot] == SET else integer_map
                    columns[ref] = made([*each.labels, label], each.table[..., ref.column])
        bindings = [
            columns[ref] if isinstance(ref, BoundSlot) else value.maps[ref] if isinstance(ref, int) else ref
            for ref in term.refs[0]
        ]
        return self.value(term.parts[0], bindings, (*value.shape, *sizes)), counts

    def _guarded(self, condition: SymbolicValue, value: SymbolicValue) -> SymbolicValue | None:
        """A look-up on a further condition, as a look-up on the conjunction of both."""
        rank = len(value.shape)
        body, counts = self.unfolded(value)
        if any((each.table > 1).any() for each in counts):
            return None
        guard, zero = dataclasses.replace(condition, shape=body.shape), self.zero(value.element, body.shape)
        made = zero
        for here, part in self._apart(body):
            seen = [self._seen(each, here) for each in (guard, part)]
            made = self.choice(here, self.elementwise((_SELECT,), value.element, [*seen, zero]), made)
        for count in counts:
            made = self.choice(pointwise(lambda c: np.minimum(c, 1), count), made, zero)
        for axis in reversed(range(rank, len(body.shape))):
            made = self.total("add", made, axis)
        return self.of(made.instance, value.shape, [*made.valid, *value.valid])


def _is_inside(low: IndexMap, high: IndexMap, limits: tuple[int, int]) -> bool:
    first, last = low.bounds(), high.bounds()
    return first is None or last is None or (limits[0] <= first[0] and last[1] <= limits[1])


def _tightened(low: IndexMap, high: IndexMap, least: IndexMap, most: IndexMap) -> tuple[IndexMap, IndexMap]:
    """The ends of what two ranges have in common; where one does not matter, as no condition holds, the other's."""

    def tighter(of: Any) -> Any:
        return lambda a, b: np.where(a == ANY, b, np.where(b == ANY, a, of(a, b)))

    return pointwise(tighter(np.maximum), low, least), pointwise(tighter(np.minimum), high, most)
