"""Conditions on unknown integers: that one equals a known number, or is within known bounds.

A device with a shard of a table looks up indices relative to the start of the shard, and takes zeros for indices
outside it. Such conditions are normalized to conditions on the index of the given program. So the look-up of a device
is a sum over its own rows, and the sum over all devices is the look-up of the given program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from gspmd.verification import index_maps, numbers
from gspmd.verification.algebra import BITCAST, Algebra
from gspmd.verification.blocks import ANY
from gspmd.verification.index_maps import IndexMap, counted, dim, integer_map, pointwise, pointwise_known
from gspmd.verification.numbers import is_float
from gspmd.verification.ordered import as_ordered, from_ordered
from gspmd.verification.terms import CHOICE, CONSTANT, NOTHING, SET, SUM, BoundSlot, Instance, is_zero
from gspmd.verification.values import SymbolicValue

_EQUAL = "EQ"
_WIDEST = 64  # bits; numbers beyond the range of narrower types are compared as they are
_COMPARE, _SELECT, _AND, _OR, _NOT = (f"stablehlo.{name}" for name in ("compare", "select", "and", "or", "not"))
_ADD = "stablehlo.add"
_OPPOSITE = {"LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT", "EQ": "NE", "NE": "EQ"}
_MIRRORED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "EQ", "NE": "NE"}


@dataclasses.dataclass(frozen=True, slots=True)
class _Bounds:
    """The inclusive bounds of an integer; None if there is no bound."""

    low: IndexMap | None = None
    high: IndexMap | None = None

    def both(self, other: _Bounds) -> _Bounds:
        """The bounds of an integer that has both."""
        return _Bounds(_either(np.maximum, self.low, other.low), _either(np.minimum, self.high, other.high))


class Conditions(Algebra):
    """Makes values, with conditions in normal form."""

    def elementwise(self, operation: tuple[Any, ...], element: str, values: Sequence[SymbolicValue]) -> SymbolicValue:
        """As `Algebra.elementwise`, with conditions and selections in normal form."""
        name = operation[0]
        made: SymbolicValue | None = None
        if name == _COMPARE and "total" not in operation and numbers.bits_of(values[0].element):
            made = self._compared(str(operation[1]), values)
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

    # ---- comparisons with numbers ----

    def _compared(self, direction: str, values: Sequence[SymbolicValue]) -> SymbolicValue | None:
        left, right = values
        if self.known(left) is not None and self.known(right) is None:
            left, right, direction = right, left, _MIRRORED[direction]
        number = self.known(right)
        if number is None or self.known(left) is not None:
            return None
        if direction == _EQUAL:
            return self.equal(left, number)
        if (possible := self._possible(direction, left, number)) is not None:
            return possible
        made = self._bounded(direction, left, number)
        return super().elementwise((_COMPARE, direction, left.element), "i1", [left, right]) if made is None else made

    def _possible(self, direction: str, value: SymbolicValue, number: IndexMap) -> SymbolicValue | None:
        """A comparison with a number of each device that does not hold on some devices, as a choice of it or false."""
        if direction == "NE" or not number.labels or any(label.kind != "digit" for label in number.labels):
            return None
        ends = [pointwise_known(numbers.COMPARE[direction], each, number) for each in self._limits(value)]
        some = pointwise_known(np.maximum, *ends)
        if 0 not in some.taken or any(label.kind != "digit" for label in some.labels):
            return None
        left = pointwise(lambda n, s: np.where(s == 1, n, ANY), number, some)
        against = self.number(left, value.element, value.shape)
        here = self.elementwise((_COMPARE, direction, value.element), "i1", [value, against])
        return self.choice(some, here, self.number(index_maps.constant(0), "i1", value.shape))

    def equal(self, value: SymbolicValue, number: IndexMap) -> SymbolicValue:
        """Whether integers are these numbers."""
        known, no = self.known(value), self.number(index_maps.constant(0), "i1", value.shape)
        if known is not None:
            return self.number(pointwise_known(np.equal, known, number), "i1", value.shape)
        within = pointwise_known(lambda n, least, most: (n >= least) & (n <= most), number, *self._limits(value))
        kept = pointwise(lambda n, m: np.where(m == 1, n, ANY), number, within)
        if kept.is_constant and kept.value == ANY:
            return no
        return self.choice(within, self._equal_in_range(value, kept), no)

    def _equal_in_range(self, value: SymbolicValue, number: IndexMap) -> SymbolicValue:
        """The same, for numbers that the integers may be."""
        element, shape = value.element, value.shape
        kind = value.term.kind
        if kind == "stablehlo.convert" and numbers.bits_of((part := self.part(value, 0)).element):
            low, high = numbers.range_of_type(element)
            inner = self.range_of(part)
            if low <= inner[0] and inner[1] <= high:
                return self.equal(part, number)
        shifted = self._shifted(value)
        if shifted is not None:
            part, offset = shifted
            return self.equal(part, pointwise_known(lambda n, o: numbers.wrapped(n - o, element), number, offset))
        reflected = self._reflected(value)
        if reflected is not None:
            part, known_ = reflected
            return self.equal(part, pointwise_known(lambda n, o: numbers.wrapped(o - n, element), number, known_))
        if (limits := self._clamp_limits(value)) is not None:
            found = self._equal_within(self.part(value, 1), *limits, number)
            if found is not None:
                return found
        if kind == _SELECT and (found := self._equal_selected(value, number)) is not None:
            return found
        return super().elementwise((_COMPARE, _EQUAL, element), "i1", [value, self.number(number, element, shape)])

    def _equal_within(self, value: SymbolicValue, low: int, high: int, number: IndexMap) -> SymbolicValue | None:
        """Whether clamped integers are these numbers; None if these take both limits, or nothing between.

        A limit that the integers do not exceed counts as being between.
        """
        given, (least, most) = number.bounds(), self.range_of(value)
        if given is not None and (given[0] > low or low <= least) and (given[1] < high or high >= most):
            return self.equal(value, number)
        if given is None or (given[0] <= low and given[1] >= high) or not any(low < n < high for n in given):
            return None
        made = self.equal(value, number)
        for limit, direction in ((low, "LE"), (high, "GE")):
            if given[0] <= limit <= given[1]:
                at = pointwise(lambda n, limit=limit: np.where(n == ANY, ANY, n == limit), number)
                against = self.number(index_maps.constant(limit), value.element, value.shape)
                beyond = self.elementwise((_COMPARE, direction, value.element), "i1", [value, against])
                made = self.choice(at, beyond, made)
        return made

    def _equal_selected(self, value: SymbolicValue, number: IndexMap) -> SymbolicValue | None:
        """Whether a selection of an integer or a known one, which is none of these numbers, is these numbers."""
        condition, yes, no = (self.part(value, i) for i in range(3))
        for holds, part, other in ((condition, yes, no), (self._opposite(condition), no, yes)):
            known = self.known(other)
            if holds is None or known is None:
                continue
            same = pointwise_known(np.equal, known, number)
            if not [n for n in same.taken if n != 0]:
                return self._all_of([*self.conjuncts(holds), self.equal(part, number)])
        return None

    def _reflected(self, value: SymbolicValue) -> tuple[SymbolicValue, IndexMap] | None:
        """The unknown and the known operand of `known - unknown`; None for other values."""
        if value.term.kind == "stablehlo.negate":
            return self.part(value, 0), index_maps.constant(0)
        if value.term.kind != "stablehlo.subtract":
            return None
        known = self.known(self.part(value, 0))
        return None if known is None else (self.part(value, 1), known)

    def _shifted(self, value: SymbolicValue) -> tuple[SymbolicValue, IndexMap] | None:
        """The unknown and the known operand of a sum; None for other values."""
        kind = value.term.kind
        if kind not in ("stablehlo.add", "stablehlo.subtract") or value.element == "i1":
            return None
        parts = [self.part(value, 0), self.part(value, 1)]
        known = [self.known(part) for part in parts]
        if kind == "stablehlo.add" and known[0] is not None:
            return parts[1], known[0]
        if known[1] is None:
            return None
        if kind == "stablehlo.add":
            return parts[0], known[1]
        return parts[0], pointwise_known(np.negative, known[1])

    def _clamp_limits(self, value: SymbolicValue) -> tuple[int, int] | None:
        """The limits of a clamp to constants."""
        if value.term.kind != "stablehlo.clamp":
            return None
        low, high = self.known(self.part(value, 0)), self.known(self.part(value, 2))
        return None if low is None or high is None or low.labels or high.labels else (low.value, high.value)

    def _bounded(self, direction: str, value: SymbolicValue, number: IndexMap) -> SymbolicValue | None:
        """A comparison with a known number, moved to the base of the integer, if no arithmetic wraps around.

        Clamped integers are moved to if both limits are on the same side of the number as the integers beyond them.
        """
        reflected = self._reflected(value)
        if reflected is not None and self._is_exact_difference(*reflected, value.element):
            part, known = reflected
            moved = pointwise_known(np.subtract, known, number)
            least, most = numbers.range_of_type(part.element)
            if not _within(moved, least, most):
                return None
            mirrored = (_COMPARE, _MIRRORED[direction], part.element)
            return self.elementwise(mirrored, "i1", [part, self.number(moved, part.element, value.shape)])
        if self._clamp_limits(value) is not None:
            if not self._is_undecided(direction, value, number):
                return None
            against = self.number(number, value.element, value.shape)
            return self.elementwise((_COMPARE, direction, value.element), "i1", [self.part(value, 1), against])
        base, offset = self.base(value)
        if base is value:
            return None
        moved = pointwise_known(np.subtract, number, offset)
        least, most = numbers.range_of_type(base.element)
        if (numbers.bits_of(base.element) or 0) >= _WIDEST and not _within(moved, least, most):
            return None
        operation = (_COMPARE, direction, base.element)
        return self.elementwise(operation, "i1", [base, self.number(moved, base.element, value.shape)])

    def _is_undecided(self, direction: str, value: SymbolicValue, number: IndexMap) -> bool:
        """Whether clamped integers compare with numbers as they do without the clamp."""
        limits, (least, most) = self._clamp_limits(value), self.range_of(self.part(value, 1))
        if limits is None:
            return False
        low = limits[0] + (direction in ("GE", "LT", "NE")) if limits[0] > least else least
        high = limits[1] - (direction in ("LE", "GT", "NE")) if limits[1] < most else most
        return _within(number, low, high)

    def base(self, value: SymbolicValue) -> tuple[SymbolicValue, IndexMap]:
        """The base and the offset of an integer: value = base + offset, without wrapping around."""
        offset = index_maps.constant(0)
        while True:
            kind = value.term.kind
            if kind == "stablehlo.convert" and numbers.bits_of((part := self.part(value, 0)).element):
                low, high = numbers.range_of_type(value.element)
                inner = self.range_of(part)
                if part.element == "i1" or not (low <= inner[0] and inner[1] <= high):
                    return value, offset
                value = part
                continue
            shifted = self._shifted(value)
            if shifted is None or not self._is_exact(*shifted, value.element):
                return value, offset
            value = shifted[0]
            offset = pointwise_known(np.add, offset, shifted[1])

    def _is_exact_difference(self, part: SymbolicValue, known: IndexMap, element: str) -> bool:
        least, most = self.range_of(part)
        given, (low, high) = known.bounds(), numbers.range_of_type(element)
        return given is None or (low <= given[0] - most and given[1] - least <= high)

    def _is_exact(self, part: SymbolicValue, offset: IndexMap, element: str) -> bool:
        least, most = self.range_of(part)
        given, (low, high) = offset.bounds(), numbers.range_of_type(element)
        return given is None or (low <= least + given[0] and most + given[1] <= high)

    def range_of(self, value: SymbolicValue) -> tuple[int, int]:
        """The bounds of an integer, both included, on all devices and at all indices."""
        least, most = numbers.range_of_type(value.element)
        kind = value.term.kind
        known = self.known(value)
        if known is not None:
            return known.bounds() or (0, 0)
        limits = self._clamp_limits(value)
        if limits is not None:
            low, high = self.range_of(self.part(value, 1))
            return min(max(low, limits[0]), limits[1]), min(max(high, limits[0]), limits[1])
        if kind == "stablehlo.convert" and numbers.bits_of((part := self.part(value, 0)).element):
            low, high = self.range_of(part)
            if least <= low and high <= most:
                return low, high
        shifted = self._shifted(value)
        if shifted is not None and self._is_exact(*shifted, value.element):
            low, high = self.range_of(shifted[0])
            offset = shifted[1].bounds() or (0, 0)
            return low + offset[0], high + offset[1]
        if kind == CHOICE:
            ranges = [self.range_of(leaf) for leaf in self.leaves(value)]
            return min(low for low, _ in ranges), max(high for _, high in ranges)
        return least, most

    def _limits(self, value: SymbolicValue) -> tuple[IndexMap, IndexMap]:
        """The bounds of an integer by device and index; none is beyond the numbers that may be known."""
        if (limits := self._clamp_limits(value)) is not None:
            inner = self._limits(self.part(value, 1))
            low, high = (pointwise_known(lambda n: np.minimum(np.maximum(n, limits[0]), limits[1]), n) for n in inner)
            return low, high
        base, offset = self.base(value)
        if base is not value:
            low, high = (pointwise_known(np.add, each, offset) for each in self._limits(base))
            return low, high
        least, most = self.range_of(value)
        return index_maps.constant(least), index_maps.constant(min(most, np.iinfo(np.int64).max))

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
        given = self._within_bounds(self._exactly(list(unknown.values())))
        if any(self.known(each) is not None or each.term.kind == CHOICE for each in given):
            more = self._all_of(given) if given != list(unknown.values()) else None
            if more is not None:
                for mask in masks:
                    more = self.choice(mask, more, no)
                return more
        unknown = {each.instance: each for each in given}
        parts = sorted(unknown.values(), key=lambda part: part.term.number)
        made = parts[0] if parts else self.number(index_maps.constant(1), "i1", shape)
        for part in parts[1:]:
            made = super().elementwise((_AND,), "i1", [made, part])
        for mask in masks:
            made = self.choice(mask, made, no)
        return made

    def _exactly(self, conditions: list[SymbolicValue]) -> list[SymbolicValue]:
        """Replace bounds that are met by a single number by an equality."""
        bounds: dict[Instance, _Bounds] = {}
        bounding = [each for each in conditions if self._note(each, bounds)]
        found = [each for each in conditions if each not in bounding]
        for each in bounding:
            subject = self.part(each, 0)
            known = bounds[subject.instance]
            if known.low is None or known.low is not known.high:
                found.append(each)
            elif (equal := self.equal(subject, known.low)) not in found:
                found.append(equal)
        return found

    # ---- selections ----

    def _opposite(self, condition: SymbolicValue) -> SymbolicValue | None:
        """The opposite of a condition, if it is a conjunction of comparisons of integers."""
        known, kind = self.known(condition), condition.term.kind
        if known is not None:
            return self.elementwise((_NOT,), "i1", [condition])
        if kind not in (_NOT, _OR, _COMPARE, CHOICE):
            return None
        parts = self.leaves(condition)
        if kind == _NOT:
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
            which, made = self.selector(condition), no
            for number, each in enumerate(self.leaves(condition)):
                here = pointwise(lambda w, number=number: np.where(w == ANY, ANY, w == number), which)
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
        if value.term.kind == _SELECT and self.part(value, 0).instance == condition.instance:
            return self.part(value, 1)
        if value.term.kind != _ADD:
            return value
        parts = [self.part(value, number) for number in range(2)]
        there = [self._on(condition, part) for part in parts]
        return value if there == parts else self.elementwise((_ADD,), value.element, there)

    def _kept(self, condition: SymbolicValue, yes: SymbolicValue, no: SymbolicValue) -> SymbolicValue | None:
        """An update of one position with a further condition, which writes the old element if that does not hold."""
        if yes.term.kind != _SELECT or condition.term.kind != _COMPARE or condition.term.operation[1] != _EQUAL:
            return None
        index, number = self.part(condition, 0), self.known(self.part(condition, 1))
        if number is None or len(number.labels) != 1 or number.labels[0].kind != "dim":
            return None
        axis, rank = number.labels[0].number, len(no.shape)
        size = no.shape[axis]
        if number is not counted(dim(axis), size):
            return None
        shape = (*no.shape, size)
        every = self.moved(no, shape, {dim(axis): counted(dim(rank), size)})
        here = self.equal(dataclasses.replace(index, shape=shape), counted(dim(rank), size))
        there = self.elementwise((_SELECT,), no.element, [here, every, self.zero(no.element, shape)])
        if self.total("add", there, rank).instance != self.part(yes, 2).instance:
            return None
        both = self._all_of([condition, *self.conjuncts(self.part(yes, 0))])
        return self.elementwise((_SELECT,), no.element, [both, self.part(yes, 1), no])

    def _is_lookup(self, value: SymbolicValue) -> bool:
        term = value.term
        if term.operation != (SUM, "add"):
            return False
        part = term.parts[0]
        if any(kind == SET and isinstance(ref, BoundSlot) for kind, ref in zip(part.kinds, term.refs[0], strict=True)):
            return False
        return (
            part.kind == _SELECT
            and part.parts[2].kind == CONSTANT
            and self.is_zero(SymbolicValue(part.parts[2], (), ()))
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
        if body.term.kind != _SELECT or any((each.table > 1).any() for each in counts):
            return None
        found = self.conjuncts(self.part(body, 0))
        guards = [dataclasses.replace(each, shape=body.shape) for each in self.conjuncts(condition)]
        both = self._all_of([*found, *guards])
        zero = self.zero(value.element, body.shape)
        made = self.elementwise((_SELECT,), value.element, [both, self.part(body, 1), zero])
        for count in counts:
            made = self.choice(pointwise(lambda c: np.minimum(c, 1), count), made, zero)
        for axis in reversed(range(rank, len(body.shape))):
            made = self.total("add", made, axis)
        return self.of(made.instance, value.shape, [*made.valid, *value.valid])

    def _within_bounds(self, conditions: list[SymbolicValue]) -> list[SymbolicValue]:
        """Drop bounds that an equality implies, and clamps that the bounds imply."""
        bounds: dict[Instance, _Bounds] = {}
        bounding = [each for each in conditions if self._note(each, bounds)]
        if not bounding:
            return conditions
        used: set[Instance] = set()
        others = [self._within(each, bounds, used) for each in conditions if each not in bounding]
        return [*others, *(each for each in bounding if self.part(each, 0).instance not in used)]

    def _note(self, guard: SymbolicValue, bounds: dict[Instance, _Bounds]) -> bool:
        """Record the bound that a comparison sets to an integer; False if it sets none."""
        if guard.term.kind != _COMPARE or "total" in guard.term.operation:
            return False
        left, right = self.part(guard, 0), self.part(guard, 1)
        number = self.known(right)
        if number is None or not numbers.bits_of(left.element):
            return False
        direction = str(guard.term.operation[1])
        if direction in ("GE", "GT"):
            bound = _Bounds(low=number if direction == "GE" else _plus(number, 1))
        elif direction in ("LE", "LT"):
            bound = _Bounds(high=number if direction == "LE" else _plus(number, -1))
        else:
            return False
        bounds[left.instance] = bounds.get(left.instance, _Bounds()).both(bound)
        return True

    def _bounds_on(self, value: SymbolicValue, bounds: dict[Instance, _Bounds]) -> tuple[_Bounds, set[Instance]]:
        """The bounds on an integer, and of which integers they are: of itself, and of one that it clamps."""
        known, subjects = bounds.get(value.instance, _Bounds()), {value.instance}
        if self._clamp_limits(value) is None:
            return known, subjects
        inner = self.part(value, 1).instance
        of_inner = bounds.get(inner, _Bounds())
        for direction, bound in (("GE", of_inner.low), ("LE", of_inner.high)):
            if bound is not None and not self._is_undecided(direction, value, bound):
                return known, subjects
        return known.both(of_inner), subjects | {inner}

    def _within(self, condition: SymbolicValue, bounds: dict[Instance, _Bounds], used: set[Instance]) -> SymbolicValue:
        """An equality of an integer within bounds, without a clamp to wider limits."""
        if condition.term.kind != _COMPARE or condition.term.operation[1] != _EQUAL:
            return condition
        left, number = self.part(condition, 0), self.known(self.part(condition, 1))
        limits = self._clamp_limits(left)
        inner = self.part(left, 1) if limits is not None else left
        base, offset = self.base(inner)
        known, subjects = self._bounds_on(base, bounds)
        if number is None or known.low is None or known.high is None:
            return condition
        if limits is not None:
            low = pointwise(lambda a, o: a + o - limits[0], known.low, offset)
            high = pointwise(lambda a, o: limits[1] - a - o, known.high, offset)
            empty = pointwise(lambda a, b: a > b, known.low, known.high)
            if not _all(lambda a, b, e: (e == 1) | ((a >= 0) & (b >= 0)), low, high, empty):
                return condition
        moved = pointwise_known(np.subtract, number, offset)
        inside = pointwise(lambda n, a, b: np.where(n == ANY, ANY, (n >= a) & (n <= b)), moved, known.low, known.high)
        used |= subjects
        return self.choice(inside, self.equal(base, moved), self.number(index_maps.constant(0), "i1", condition.shape))


def _either(tighter: Any, bound: IndexMap | None, other: IndexMap | None) -> IndexMap | None:
    """The tighter of two bounds, of which either may be missing."""
    if bound is None or other is None:
        return other if bound is None else bound
    return pointwise(tighter, bound, other)


def _within(each: IndexMap, least: int, most: int) -> bool:
    given = each.bounds()
    return given is None or (least <= given[0] and given[1] <= most)


def _plus(number: IndexMap, by: int) -> IndexMap:
    return pointwise(lambda n: np.where(n == ANY, ANY, n + by), number)


def _all(holds: Any, *maps: IndexMap) -> bool:
    made = pointwise(lambda *tables: holds(*tables).astype(np.int64), *maps)
    return made.is_constant and made.value == 1
