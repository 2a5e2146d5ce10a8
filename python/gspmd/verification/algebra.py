"""Values of operations, in normal form: choices by known masks, operations on elements, and sums over sets.

Programs consist of these, of moves (`values.py`), and of opaque terms. Two values are the same function of the
arguments if they are the same instance. Arithmetic is exact: in whatever order and parts a sum is added up, it is one
term with the set of its summands.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gspmd.transforms.ops import traits_of
from gspmd.verification import index_maps, numbers
from gspmd.verification.blocks import ANY
from gspmd.verification.index_maps import (
    IndexMap,
    Label,
    all_along,
    dim,
    masked,
    pointwise,
    set_map,
)
from gspmd.verification.not_known import NotKnown
from gspmd.verification.sets import removed, union, united
from gspmd.verification.summing import Summing, of_all_shares
from gspmd.verification.terms import (
    CHOICE,
    CONSTANT,
    INDEX,
    INTEGER,
    NUMBER,
    SET,
    SHARE,
    SUM,
    BoundSlot,
    Instance,
    Term,
    TermTable,
    is_zero,
    opened,
    summands,
)
from gspmd.verification.values import Shape, SymbolicValue, Values

_MAX_SUMMANDS = 256  # that are sorted
_SELECT = "stablehlo.select"
_SUMS = frozenset({"stablehlo.add", "stablehlo.subtract", _SELECT})
ORDERED = "ordered"  # see ordered.py
BITCAST, PIECE, PIECES = "stablehlo.bitcast_convert", "piece", "pieces"
_OF_BITS = (BITCAST, PIECE, PIECES)
_PARTS_OF_COMPLEX = ["stablehlo.real", "stablehlo.imag"]
_MAX_JOINT = 1 << 18
"""The most known numbers over several dimensions that are computed; the operation on more of them is a term."""


class Algebra(Values):
    """Makes the values of operations."""

    def __init__(self, terms: TermTable) -> None:
        super().__init__(terms)
        self._shares = itertools.count()
        self._totals: dict[tuple[str, SymbolicValue, Label, int], SymbolicValue] = {}
        self.neutral_terms: dict[str, Term] = {}
        """The neutral elements of monoids that are not numbers, by monoid."""
        self._linear: dict[tuple[Term, frozenset[int]], str] = {}

    # ---- numbers ----

    def number(
        self, each: IndexMap, element: str, shape: Sequence[int], valid: Sequence[IndexMap] = ()
    ) -> SymbolicValue:
        """Known numbers."""
        if each.is_constant and each.value != ANY:
            return self.of(self.terms.make((CONSTANT, each.value), element), shape, valid)
        return self.of(self.terms.make((INTEGER,), element, own=[(NUMBER, each)]), shape, valid)

    def known(self, value: SymbolicValue) -> IndexMap | None:
        """The numbers of a value, or None if they are unknown, or unsigned and as large as to be stored as negative."""
        found: IndexMap | None = None
        if value.term.kind == INTEGER:
            found = self._own(value)
        elif value.term.kind == CONSTANT:
            found = index_maps.constant(int(value.term.operation[1]))  # type: ignore[call-overload]
        if found is not None and value.element == "ui64" and (found.bounds() or (0,))[0] < 0:
            return None
        return found

    def zero(self, element: str, shape: Sequence[int]) -> SymbolicValue:
        if element.startswith("complex<"):
            part = self.zero(element[8:-1], shape)
            return self.elementwise(("stablehlo.complex",), element, [part, part])
        return self.number(index_maps.constant(0), element, shape)

    def is_zero(self, value: SymbolicValue) -> bool:
        return is_zero(value.term)

    # ---- choices ----

    def choice(self, mask: IndexMap, yes: SymbolicValue, no: SymbolicValue) -> SymbolicValue:
        """One value where the mask is 1, and the other one elsewhere."""
        if mask.is_constant:
            return yes if mask.value == 1 else no
        which = pointwise(lambda m: np.where(m == ANY, ANY, m != 1), mask)
        valid = self._chosen_validity(mask, yes, no)
        return self.of(self.terms.choice(which, [yes.instance, no.instance]), yes.shape, valid)

    def _chosen_validity(self, mask: IndexMap, yes: SymbolicValue, no: SymbolicValue) -> list[IndexMap]:
        if yes.valid == no.valid:
            return list(yes.valid)
        made = [pointwise(lambda m, a: ((m == 0) | ((m == 1) & (a == 1))) * 1, mask, each) for each in yes.valid]
        made += [pointwise(lambda m, a: ((m == 1) | ((m == 0) & (a == 1))) * 1, mask, each) for each in no.valid]
        return made

    def selector(self, value: SymbolicValue) -> IndexMap:
        """The number of the part that a choice takes."""
        return self._own(value)

    def _own(self, value: SymbolicValue) -> IndexMap:
        """The binding of the only slot of a term's operation."""
        (ref,) = value.term.own
        found = value.maps[ref] if isinstance(ref, int) else ref
        assert isinstance(found, IndexMap)
        return found

    def leaves(self, value: SymbolicValue) -> list[SymbolicValue]:
        """The parts of a choice."""
        return [self.part(value, number) for number in range(len(value.term.parts))]

    def without(
        self, value: SymbolicValue, holds: Callable[[Term], bool]
    ) -> tuple[IndexMap, SymbolicValue, SymbolicValue] | None:
        """For a choice with a part that `holds`: the mask of its other parts, the choice of these, and that part."""
        if value.term.kind != CHOICE:
            return None
        number = next((i for i, part in enumerate(value.term.parts) if holds(part)), None)
        if number is None:
            return None
        which, leaves = self.selector(value), self.leaves(value)
        mask = pointwise(lambda w: np.where(w == ANY, ANY, w != number), which)
        rest = pointwise(lambda w: np.where(w == number, ANY, w), which)
        others = self.of(self.terms.choice(rest, [leaf.instance for leaf in leaves]), value.shape, value.valid)
        return mask, others, leaves[number]

    def _seen(self, value: SymbolicValue, mask: IndexMap) -> SymbolicValue:
        """A value whose elements do not matter where a mask is not 1."""
        return self.value(value.term, [masked(each, mask) for each in value.maps], value.shape, value.valid)

    def part(self, value: SymbolicValue, number: int) -> SymbolicValue:
        """A part of a value's term, with its bindings."""
        term = value.term
        bindings = [value.maps[ref] if isinstance(ref, int) else ref for ref in term.refs[number]]
        assert not any(isinstance(binding, BoundSlot) for binding in bindings)
        return self.of(Instance(term.parts[number], tuple(bindings)), value.shape, value.valid)

    # ---- operations on elements ----

    def elementwise(self, operation: tuple[Any, ...], element: str, values: Sequence[SymbolicValue]) -> SymbolicValue:
        """The result of an operation, a tuple that begins with its name, on values of one shape."""
        shape = values[0].shape
        valid = [mask for value in values for mask in value.valid]
        found = self._computed(operation, element, values)
        if found is not None:
            return self.number(found, element, shape, valid)
        name = operation[0]
        if name == "stablehlo.select":
            mask = self.known(values[0])
            if mask is not None:
                made = self.choice(mask, values[1], values[2])
                return self.of(made.instance, shape, [*made.valid, *values[0].valid])
        if name == "stablehlo.convert" and values[0].element == element:
            return values[0]
        if name == "stablehlo.add":
            for a, b in ((0, 1), (1, 0)):
                if self.is_zero(values[a]):
                    return self.of(values[b].instance, shape, valid)
            joined = self._added(element, values)
            if joined is not None:
                return self.of(joined.instance, shape, valid)
        if name in _OF_BITS:
            return self._of_bits(operation, element, values)
        hoisted = self._of_choice(operation, element, values, valid)
        if hoisted is not None:
            return hoisted
        known = self._undone(str(name), element, values)
        if known is not None:
            return self.of(known.instance, shape, valid)
        return self.of(self.terms.make(operation, element, [value.instance for value in values]), shape, valid)

    def _added(self, element: str, values: Sequence[SymbolicValue]) -> SymbolicValue | None:
        """A sum with its summands in a fixed order; a sum of integers only as a choice."""
        if numbers.bits_of(element) is not None:
            return self._joined(*values)
        parts = [each for value in values for each in self._summands(value, _MAX_SUMMANDS)]
        changed = True
        while changed:
            changed = False
            for i, j in itertools.combinations(range(len(parts)), 2):
                if parts[i].term is not parts[j].term and parts[i].term.kind != CHOICE:
                    continue
                both = self._joined(parts[i], parts[j]) or self._united(parts[i], parts[j])
                if both is not None:
                    parts = [each for k, each in enumerate(parts) if k not in (i, j)] + self._summands(both, 1)
                    changed = True
                    break
        return self.of(self.terms.added([each.instance for each in parts]), values[0].shape)

    def _subtracted(self, left: SymbolicValue, right: SymbolicValue) -> SymbolicValue | None:
        """The difference of equal integers, or of a sum of integers and one of its summands; None for others."""
        term, part = left.term, right.term
        if left.instance == right.instance:
            return self.zero(left.element, left.shape)
        if term.operation != (SUM, "add") or len(term.own) != 1 or term.parts[0] is not part:
            return None
        (own,), row = term.own, dict[int, IndexMap]()
        for ref, kind, each in zip(term.refs[0], part.kinds, right.maps, strict=True):
            if isinstance(ref, BoundSlot) and kind != SET:
                row[ref.column] = each
            elif opened(ref, left.maps, 0) is not each:
                return None
        without = removed(left.maps[own], [row[column] for column in sorted(row)]) if isinstance(own, int) else None
        if without is None:
            return None
        maps = [without if slot == own else each for slot, each in enumerate(left.maps)]
        return self._of_nonempty("add", self.value(term, maps, left.shape))

    def _summands(self, value: SymbolicValue, most: int) -> list[SymbolicValue]:
        return [self.of(each, value.shape) for each in summands(value.instance, most)]

    def _united(self, first: SymbolicValue, second: SymbolicValue) -> SymbolicValue | None:
        """The sum of two sums of one term over two sets, as one over their union."""
        if first.term is not second.term:
            return None
        differing = [i for i, (a, b) in enumerate(zip(first.maps, second.maps, strict=True)) if a is not b]
        if len(differing) != 1 or self.linear(first.term, frozenset(differing)) != "linear":
            return None
        (slot,) = differing
        maps = list(first.maps)
        maps[slot] = union(first.maps[slot], second.maps[slot])
        return self._of_nonempty("add", self.value(first.term, maps, first.shape))

    def _joined(self, left: SymbolicValue, right: SymbolicValue) -> SymbolicValue | None:
        """The sum of two values, one of which is zero wherever the other one is not, as a choice."""
        if left.term.kind != CHOICE or right.term.kind != CHOICE:
            return None
        first, second = self.without(left, is_zero), self.without(right, is_zero)
        if first is None or second is None or _dims(first[0]) != _dims(second[0]):
            return None
        both = pointwise(lambda a, b: (a == 1) & (b == 1), first[0], second[0])
        if not (both.is_constant and both.value == 0):
            return None
        return self.choice(first[0], first[1], self.choice(second[0], second[1], second[2]))

    def _undone(self, name: str, element: str, values: Sequence[SymbolicValue]) -> SymbolicValue | None:
        """The result of an operation that inverts the operation of its operand; None for others."""
        value = values[0]
        if name == "stablehlo.subtract" and numbers.bits_of(element) is not None:
            return self._subtracted(*values)
        if name == "stablehlo.convert" and value.term.kind == name and value.term.parts[0].element == element:
            return self.part(value, 0) if numbers.widens(element, value.element) else None
        if name in _PARTS_OF_COMPLEX and value.term.kind == "stablehlo.complex":
            return self.part(value, _PARTS_OF_COMPLEX.index(name))
        if name == "stablehlo.complex" and [v.term.kind for v in values] == _PARTS_OF_COMPLEX:
            real, imaginary = (self.part(v, 0) for v in values)
            return real if real.instance == imaginary.instance else None
        return None

    def _of_bits(self, operation: tuple[Any, ...], element: str, values: Sequence[SymbolicValue]) -> SymbolicValue:
        """The same bits as another type, one piece of a value's bits, or a value of all of its pieces."""
        shape, valid = values[0].shape, [mask for value in values for mask in value.valid]
        known = values[0] if values[0].element == element else self._same_bits(str(operation[0]), element, values)
        if known is not None:
            return self.of(known.instance, shape, valid)
        bits = values[:1] if operation[0] == PIECE else values
        if all(_is_positive_zero(value.term) for value in bits):
            return self.of(self.zero(element, shape).instance, shape, valid)
        apart = [self.without(value, _is_positive_zero) for value in bits]
        if apart[0] is not None and all(each is not None and each[0] is apart[0][0] for each in apart):
            others = [*(each[1] for each in apart if each is not None), *values[len(bits) :]]
            made = self.choice(apart[0][0], self._of_bits(operation, element, others), self.zero(element, shape))
            return self.of(made.instance, shape, valid)
        return self.of(self.terms.make(operation, element, [value.instance for value in values]), shape, valid)

    def _same_bits(self, name: str, element: str, values: Sequence[SymbolicValue]) -> SymbolicValue | None:
        """The value of this type that an operation on bits gives back; None if there is none."""
        value = values[0]
        if not value.term.parts or value.term.parts[0].element != element:
            return None
        if name == BITCAST and value.term.kind == BITCAST:
            return self.part(value, 0)
        if name == PIECE and value.term.kind == PIECES:
            which = self.known(values[1])
            leaves = [each.instance for each in self.leaves(value)]
            return None if which is None else self.of(self.terms.choice(which, leaves), value.shape)
        if name == PIECES and all(each.term.kind == PIECE for each in values):
            wholes, numbered = ([self.part(each, i) for each in values] for i in range(2))
            places = [self.known(each) for each in numbered]
            in_order = all(place is index_maps.constant(number) for number, place in enumerate(places))
            return wholes[0] if in_order and all(each.instance == wholes[0].instance for each in wholes) else None
        return None

    def _computed(self, operation: tuple[Any, ...], element: str, values: Sequence[SymbolicValue]) -> IndexMap | None:
        if numbers.is_float(element) and len(operation) == 1 and all(v.term.kind == CONSTANT for v in values):
            given = [int(value.term.operation[1]) for value in values]  # type: ignore[call-overload]
            found = numbers.of_floats(str(operation[0]), element, given)
            return None if found is None else index_maps.constant(found)
        maps = [self.known(value) for value in values]
        if any(each is None for each in maps):
            return None
        known = [each for each in maps if each is not None]
        labels = {label: size for each in known for label, size in each.sizes().items()}
        over = [label for label in labels if label.kind == "dim"]
        if len(over) > 1 and int(np.prod(list(labels.values()), dtype=np.int64)) > _MAX_JOINT:
            return None
        return numbers.computed(operation, values[-1].element, element, known)

    def _of_choice(
        self, operation: tuple[Any, ...], element: str, values: Sequence[SymbolicValue], valid: Sequence[IndexMap]
    ) -> SymbolicValue | None:
        """A linear operation on a choice of a part or zero, as a choice of its result or zero; and in the same way a
        function of one operand that is a choice of a part or a constant.
        """
        for position in _linear_operands(str(operation[0]), element):
            value = values[position]
            parts = self.without(value, is_zero)
            if parts is None:
                continue
            mask, part, _ = parts
            others = [part if i == position else self._seen(v, mask) for i, v in enumerate(values)]
            made = self.elementwise(operation, element, others)
            result = self.choice(mask, made, self.zero(element, value.shape))
            return self.of(result.instance, value.shape, valid)
        known = self.without(values[0], lambda term: term.kind == CONSTANT) if len(values) == 1 else None
        if known is None or operation[0] == ORDERED:
            return None
        mask, part, other = known
        yes, no = (self.elementwise(operation, element, [each]) for each in (part, other))
        result = self.choice(mask, yes, no)
        return self.of(result.instance, values[0].shape, valid)

    # ---- sums ----

    def summed_once(self, monoid: str, value: SymbolicValue) -> SymbolicValue:
        """A value as a sum, even of one summand: with an initial value, a sum of one summand may be another value."""
        if value.term.operation == (SUM, monoid):
            return value
        once = set_map((), np.ones((1, 1), np.int64))
        made = self.terms.make((SUM, monoid), value.element, [value.instance], [(SET, once)])
        return self.of(made, value.shape, value.valid)

    def share(self, value: SymbolicValue, which: IndexMap, count: int) -> SymbolicValue:
        """One of `count` unknown summands that add up to a value; every call makes new ones."""
        operation = (SHARE, count, next(self._shares))
        made = self.terms.make(operation, value.element, [value.instance], [(INDEX, which)])
        return self.of(made, value.shape, value.valid)

    def total(self, monoid: str, value: SymbolicValue, axis: int) -> SymbolicValue:
        """All elements along a dimension, combined; the dimension is removed. Raises NotKnown, TooLarge."""
        if value.element == "i1":
            monoid = numbers.OF_BOOLEANS.get(monoid, monoid)
        shape = value.shape[:axis] + value.shape[axis + 1 :]
        names = {old: old - 1 for old in range(axis + 1, len(value.shape))}
        size, label = value.shape[axis], dim(axis)
        if size == 0:
            neutral = self.neutral(monoid, value.element, shape)
            if neutral is None:
                raise NotKnown(f"a reduction of no elements by '{monoid}', which has no neutral element")
            return neutral
        if size == 1:
            made = self.moved(value, value.shape, {label: index_maps.constant(0)})
        else:
            made = self._total(monoid, value, label, size)
        return self.relabelled(made, shape, names)

    def _total(self, monoid: str, value: SymbolicValue, label: Label, size: int) -> SymbolicValue:
        """The same, with the dimension kept at size 1; totals are cached."""
        key = (monoid, value, label, size)
        found = self._totals.get(key)
        if found is None:
            found = self._totals[key] = self._made_total(monoid, value, label, size)
        return found

    def _made_total(self, monoid: str, value: SymbolicValue, label: Label, size: int) -> SymbolicValue:
        valid = [all_along(mask, [label]) for mask in value.valid]
        value = SymbolicValue(value.term, value.bindings, value.shape)
        if monoid == "add" and is_zero(value.term):
            return self.of(value.instance, value.shape, valid)
        if value.term.kind == "stablehlo.select":
            condition, *parts = (self.part(value, number) for number in range(3))
            if not any(each.depends_on(label) for each in condition.maps):  # all summands are from one side
                sums = [self._total(monoid, part, label, size) for part in parts]
                made = self.elementwise(value.term.operation, value.element, [condition, *sums])
                return self.of(made.instance, value.shape, [*valid, *made.valid])
            if monoid == "add":
                value = self._with_plain_zeros(value)
        present, kept, value = self._present(monoid, value, label)
        if monoid == "add" and is_zero(value.term):
            return self.of(self.zero(value.element, value.shape).instance, value.shape, valid)
        maps = value.maps
        if present is not None:
            maps = tuple(masked(each, present) for each in maps)
        instance = self.terms.normal(value.term, maps)
        if instance.term.kind == ORDERED and instance.term.operation[1] == (monoid == "maximum"):
            made = self._total_of_ordered(monoid, self.of(instance, value.shape), present, label, size)
        else:
            made = self._combined(monoid, instance, label, size, present, value.shape)
        for mask, other in reversed(kept):
            made = self.choice(mask, made, other)
        return self.of(made.instance, value.shape, valid)

    def _total_of_ordered(
        self, monoid: str, value: SymbolicValue, present: IndexMap | None, label: Label, size: int
    ) -> SymbolicValue:
        """The ordered integer of the largest (or the least) float, of those that are present."""
        part, there = self.part(value, 0), index_maps.constant(1)
        if present is not None:
            part, there = self._only(monoid, present, part), index_maps.any_along(present, [label])
        inner = self._total(monoid, part, label, size)
        made = self.elementwise(value.term.operation, value.element, [inner])
        return self._only(monoid, there, made)

    def _only(self, monoid: str, mask: IndexMap, value: SymbolicValue) -> SymbolicValue:
        """A value where a mask is 1, and the neutral element elsewhere. Raises NotKnown if there is none."""
        neutral = self.neutral(monoid, value.element, value.shape)
        if neutral is None:
            raise NotKnown(f"a reduction by '{monoid}', which has no neutral element, of no elements on some devices")
        return self.choice(mask, value, neutral)

    def neutral(self, monoid: str, element: str, shape: Sequence[int]) -> SymbolicValue | None:
        """The neutral element of a monoid; None if there is none."""
        if monoid in self.neutral_terms:
            return self.value(self.neutral_terms[monoid], (), shape)
        bits = numbers.neutral(monoid, element)
        return None if bits is None else self.number(index_maps.constant(bits), element, shape)

    def _with_plain_zeros(self, value: SymbolicValue) -> SymbolicValue:
        """A selection of a value or a zero of any sign, as one of the value or 0."""
        parts = [self.part(value, number) for number in range(3)]
        plain = [self.zero(part.element, part.shape) if is_zero(part.term) else part for part in parts]
        return self.elementwise(value.term.operation, value.element, plain)

    def _present(
        self, monoid: str, value: SymbolicValue, label: Label
    ) -> tuple[IndexMap | None, list[tuple[IndexMap, SymbolicValue]], SymbolicValue]:
        """A mask of the summands that are not neutral, choices that do not depend on the label, and the summands."""
        present: IndexMap | None = None
        kept: list[tuple[IndexMap, SymbolicValue]] = []
        element = value.element
        neutral = self._neutral(monoid, element)
        while (parts := self.without(value, neutral)) is not None:
            mask, yes, no = parts
            if mask.depends_on(label):
                both = (
                    mask
                    if present is None
                    else pointwise(lambda a, b: np.where((a == 1) & (b == 1), 1, 0), mask, present)
                )
                present = both
            else:
                kept.append((mask, no))
            value = yes
        return present, kept, value

    def _neutral(self, monoid: str, element: str) -> Callable[[Term], bool]:
        """Tests whether a term is neutral."""
        known = self.neutral_terms.get(monoid)
        return lambda term: term is known or _is_constant(term, lambda bits: numbers.is_neutral(monoid, bits, element))

    def _finished(self, value: SymbolicValue) -> SymbolicValue:
        """A sum of all shares of a value, as the value."""
        term = value.term
        if term.kind != SUM or term.parts[0].kind != SHARE:
            return value
        sets = [(SET, opened(ref, value.maps, 0)) for ref in term.own]
        whole = of_all_shares(term.parts[0], sets, [opened(ref, value.maps, 0) for ref in term.refs[0]])
        return value if whole is None else self.of(whole, value.shape, value.valid)

    def _combined(
        self, monoid: str, instance: Instance, label: Label, size: int, present: IndexMap | None, shape: Shape
    ) -> SymbolicValue:
        term, maps = instance.term, SymbolicValue(*instance, shape).maps
        over = [i for i, each in enumerate(maps) if each.depends_on(label)]
        sets = frozenset(i for i in over if term.kinds[i] == SET)
        if monoid == "add" and sets and len(sets) == len(over) and self.linear(term, sets) == "linear":
            whole = [united(each, label, size, present) if i in sets else each for i, each in enumerate(maps)]
            return self._of_nonempty(monoid, self._finished(self.value(term, whole, shape)))
        if term.kind != SUM and (sets or term.kind in _SUMS or self._has_part_without(monoid, instance, label, shape)):
            distributed = self._distributed(monoid, instance, label, size, present, shape)
            if distributed is not None:
                return distributed
        if monoid == "add" and (scaled := _scaled(term)) is not None:
            return self._scaled_sum(scaled, instance, label, size, present, shape)
        if monoid in numbers.IDEMPOTENT and not over and present is None:
            return self.value(term, maps, shape)
        made, there = Summing(self, monoid, label, size, present, shape).of(instance)
        if there is None:
            return self._of_nonempty(monoid, made)
        if there.is_constant and there.value == 1:
            return made
        return self._only(monoid, there, made)

    def _of_nonempty(self, monoid: str, value: SymbolicValue) -> SymbolicValue:
        """A sum, with the neutral element chosen wherever one of the sets that it sums over is empty."""
        term, made = value.term, value
        neutral = self.neutral(monoid, value.element, value.shape)
        if neutral is None:
            return value
        for slot, (kind, each) in enumerate(zip(term.kinds, value.maps, strict=True)):
            if kind == SET and (
                (term.operation == (SUM, monoid) and slot in term.own)
                or (monoid == "add" and self.linear(term, frozenset([slot])) == "linear")
            ):
                made = self.choice(index_maps.nonempty(each), made, neutral)
        return made

    def _has_part_without(self, monoid: str, instance: Instance, label: Label, shape: Shape) -> bool:
        """Whether a part of the combined values is neutral, depending on a label."""
        term = instance.term
        if _together(monoid, str(term.kind), term.element) != tuple(range(len(term.parts))) or len(term.parts) < 2:
            return False
        parts = [self.part(SymbolicValue(*instance, shape), i) for i in range(len(term.parts))]
        neutral = self._neutral(monoid, term.element)
        return any(
            part.term.kind == CHOICE and any(map(neutral, part.term.parts)) and self.selector(part).depends_on(label)
            for part in parts
        )

    def _selected_sum(self, value: SymbolicValue) -> SymbolicValue:
        """A selection from a sum, as a sum of selections."""
        condition, chosen, zero = (self.part(value, i) for i in range(3))
        if chosen.term.kind not in ("stablehlo.add", "stablehlo.subtract"):
            return value
        parts = [
            self.elementwise(value.term.operation, value.element, [condition, self.part(chosen, i), zero])
            for i in range(2)
        ]
        return self.elementwise(chosen.term.operation, value.element, parts)

    def _distributed(
        self, monoid: str, instance: Instance, label: Label, size: int, present: IndexMap | None, shape: Shape
    ) -> SymbolicValue | None:
        """The sum of a sum of parts, part by part."""
        term = instance.term
        value = SymbolicValue(*instance, shape)
        if monoid == "add" and term.kind == _SELECT and is_zero(term.parts[2]):
            value = self._selected_sum(value)
            if value.term is term:
                return None
            instance, term = value.instance, value.term
        if _together(monoid, str(term.kind), term.element) != tuple(range(len(term.parts))):
            return None
        parts = []
        for number in range(len(term.parts)):
            part = self.part(value, number)
            if present is not None:
                if self.neutral(monoid, part.element, shape) is None:
                    return None
                part = self._only(monoid, present, part)
            parts.append(self._total(monoid, part, label, size))
        return self.elementwise(term.operation, term.element, parts)

    def _scaled_sum(
        self, scaled: int, instance: Instance, label: Label, size: int, present: IndexMap | None, shape: Shape
    ) -> SymbolicValue:
        """The sum of a part that is scaled by constants: scaled afterwards, as means are."""
        value = SymbolicValue(*instance, shape)
        parts = [self.part(value, number) for number in range(len(instance.term.parts))]
        part = parts[scaled] if present is None else self._only("add", present, parts[scaled])
        parts[scaled] = self._total("add", part, label, size)
        return self.elementwise(instance.term.operation, instance.term.element, parts)

    def linear(self, term: Term, slots: frozenset[int]) -> str:
        """Whether a term is `linear` in the sums over the sets in these slots, `constant`, or neither (`no`)."""
        used = slots & {i for i, kind in enumerate(term.kinds) if kind == SET}
        if not used:
            return "constant"
        key = (term, used)
        found = self._linear.get(key)
        if found is None:
            found = self._linear[key] = self._is_linear(term, used)
        return found

    def _is_linear(self, term: Term, slots: frozenset[int]) -> str:
        parts = [
            self.linear(part, frozenset(i for i, ref in enumerate(refs) if ref in slots and isinstance(ref, int)))
            for part, refs in zip(term.parts, term.refs, strict=True)
        ]
        if "no" in parts:
            return "no"
        if term.kind == SUM:
            own = sum(ref in slots for ref in term.own)
            if term.operation[1] != "add" or own + parts.count("linear") > 1:
                return "no"
            return "linear"
        zeros = [part == "linear" or is_zero(each) for part, each in zip(parts, term.parts, strict=True)]
        if term.kind == CHOICE:
            return "linear" if all(zeros) else "no"
        if term.kind in _CONVERTS and not numbers.is_float(term.parts[0].element):
            return "no"  # integers may have wrapped around
        positions = {i for i, part in enumerate(parts) if part == "linear"}
        for together in _linear_in(str(term.kind), term.element):
            if positions <= set(together) and all(zeros[i] for i in together):
                return "linear"
        return "no"


def _dims(mask: IndexMap) -> tuple[Label, ...]:
    return tuple(label for label in mask.labels if label.kind == "dim")


def _is_positive_zero(term: Term) -> bool:
    return is_zero(term) and _is_constant(term, lambda bits: bits == 0)


def _is_constant(term: Term, holds: Callable[[int], bool]) -> bool:
    return term.kind == CONSTANT and holds(int(term.operation[1]))  # type: ignore[call-overload]


_CONVERTS = frozenset({"stablehlo.convert"})


def _linear_in(name: str, element: str) -> tuple[tuple[int, ...], ...]:
    """The tuples of operands in which an operation is linear, all of a tuple together."""
    if name in _CONVERTS:
        return ((0,),) if numbers.is_float(element) else ()
    if name == "stablehlo.select":
        return ((1, 2),)
    traits = traits_of(name)
    if element == "i1" or (traits.floats_only and not numbers.is_float(element)):
        return ()
    return traits.linear


def _scaled(term: Term) -> int | None:
    """The part in which a term is linear, if all others are constants and not zero."""
    for together in _linear_in(str(term.kind), term.element):
        others = [part for number, part in enumerate(term.parts) if number not in together]
        if len(together) == 1 and others and all(part.kind == CONSTANT and not is_zero(part) for part in others):
            return together[0]
    return None


def _linear_operands(name: str, element: str) -> list[int]:
    """The operands in which an operation is linear by themselves."""
    if name in _CONVERTS:
        return [0]
    return [together[0] for together in _linear_in(name, element) if len(together) == 1]


def _together(monoid: str, name: str, element: str) -> tuple[int, ...]:
    """The operands that can be reduced in place of the result, all together."""
    if name == f"stablehlo.{monoid}":
        return (0, 1)
    return max(_linear_in(name, element), key=len, default=()) if monoid == "add" else ()
