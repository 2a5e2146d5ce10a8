"""Terms: the elements of values as operations on elements of other values, down to the program's arguments.

A term stands for all elements that are computed in the same way. Its slots distinguish them: the indices at which
arguments are read, the entries of masks, and the sets of sums. A value (`values.py`) binds each slot to a function of
the device and the index of the element. So slices, transposes, reshapes or gathers make no terms, but change bindings,
and two programs that move their data in different ways have the same terms.

Equal terms are one object. No two slots of a term have the same binding: those that would have are one slot.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ops import traits_of
from gspmd.verification import numbers
from gspmd.verification.blocks import ANY, Blocks
from gspmd.verification.index_maps import IndexMap, TooLarge, constant, factors, joined, masked, pointwise, takes, where

INDEX, NUMBER, MASK, SET = "index", "number", "mask", "set"
"""Kinds of slots: an index of an argument; the number of a known integer; the part that a choice takes, followed by the
number of its parts; the set of a sum.
"""


class BoundSlot(NamedTuple):
    """A slot of a summand: the `column` of the rows of the set of that number."""

    of: int
    column: int


Ref: TypeAlias = "int | IndexMap | BoundSlot"
"""A slot of a part of a term: a slot of the term by number, a fixed map, or a column that the term binds."""

CONSTANT, ARGUMENT, INTEGER = "constant", "argument", "integer"
SUM, CHOICE, SHARE = "sum", "choice", "share"
RANGE = "range"
"""Whether an integer is in a range, whose ends are the slots of the operation and belong to it."""

ADD = "stablehlo.add"
TUPLE = ("tuple",)
ANY_ONE, NOTHING = "any one", "nothing"
"""What is left of the updates of an element that replace it, in no order, and of none; followed by a type."""
_MAX_FLAT = 1 << 19
"""The most entries up to which nested choices become one."""


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Term:
    """`operation` on `parts`. The parts' slots are `refs`, and those of the operation itself are `own`: see `make`.

    An integer is the number in its slot, of type `element`. A choice is the part whose number is in its slot. A sum
    combines its part over the product of its sets. All other operations read their own slots as indices. No bound label
    in the term has the number `free_label` or a larger one.
    """

    operation: tuple[Hashable, ...]
    element: str
    parts: tuple[Term, ...]
    refs: tuple[tuple[Ref, ...], ...]
    own: tuple[Ref, ...]
    kinds: tuple[str, ...]
    number: int
    free_label: int

    @property
    def kind(self) -> Hashable:
        return self.operation[0]

    def __repr__(self) -> str:
        return self.text(4)

    def text(self, depth: int) -> str:
        """The term to a depth of so many operations."""
        name = ".".join(map(str, self.operation))[:60]
        if not depth:
            return f"{name}(..)"
        parts = zip(self.parts, self.refs, strict=True)
        inner = ", ".join(f"{part.text(depth - 1)}{list(refs)}" for part, refs in parts)
        return f"{name}({inner}{f'; {list(self.own)}' if self.own else ''})"


class Column(NamedTuple):
    """The binding of a summand's slot while the sum is made. Nested sums have other levels."""

    level: int
    of: int
    column: int


Binding: TypeAlias = "IndexMap | BoundSlot | Column"


def free_label(bindings: Iterable[Ref | Binding]) -> int:
    """One more than the largest number of a bound label that a binding depends on."""
    labels = (label for each in bindings if isinstance(each, IndexMap) for label in each.labels)
    return max((label.number + 1 for label in labels if label.kind == "bound"), default=0)


def opened(ref: Ref, bindings: Sequence[Binding], level: int) -> Binding:
    """The binding of a part's slot; columns of the term's own sets become columns of a level."""
    if isinstance(ref, BoundSlot):
        return Column(level, ref.of, ref.column)
    return bindings[ref] if isinstance(ref, int) else ref


class Instance(NamedTuple):
    """A term with all of its slots bound."""

    term: Term
    bindings: tuple[Binding, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Opaque:
    """What an opaque operation's terms stand for: its result of this number.

    `operands` has for each dimension of each operand the dimension of the result through which it passes, or a pair of
    which the second is its size; it is whole, and bound to one label after another from the number `first_label` on.
    The term's own slots are indices along the dimensions of the result in `whole`, pairs with their sizes.
    """

    op: Operation
    number: int
    first_label: int
    operands: tuple[tuple[int | tuple[str, int], ...], ...]
    whole: tuple[tuple[int, int], ...]


class TermTable:
    """All terms of a verification, and opaque operations by the operations of their terms."""

    def __init__(self) -> None:
        self.opaque: dict[tuple[Hashable, ...], Opaque] = {}
        self._known: dict[Hashable, Term] = {}
        self._numbers = itertools.count()
        self._rebound: dict[Hashable, Instance] = {}
        self._slots: dict[tuple[Term, Term], tuple[int, ...] | None] = {}

    def __len__(self) -> int:
        return len(self._known)

    def make(
        self,
        operation: tuple[Hashable, ...],
        element: str,
        parts: Sequence[Instance] = (),
        own: Sequence[tuple[str, Binding]] = (),
        level: int | None = None,
    ) -> Instance:
        """The term of an operation on normal instances, and the bindings of its slots.

        Sets that are the same everywhere become parts of the term, and so do whole operands. Columns of the `level` are
        those of the term's own sets.
        """
        if traits_of(str(operation[0])).commutes:
            parts = sorted(parts, key=lambda part: part.term.number)
        slots: dict[tuple[str, Binding], int] = {}

        def ref(kind: str, binding: Binding) -> Ref:
            if isinstance(binding, Column):
                own_column = binding.level == level
                return (
                    BoundSlot(binding.of, binding.column)
                    if own_column
                    else slots.setdefault((kind, binding), len(slots))
                )
            assert isinstance(binding, IndexMap)
            if all(label.kind == "bound" for label in binding.labels) and (binding.labels or kind == SET):
                return binding
            return slots.setdefault((kind, binding), len(slots))

        refs = tuple(tuple(map(ref, part.term.kinds, part.bindings)) for part in parts)
        given = tuple(ref(kind, binding) for kind, binding in own)
        term = self._interned(
            operation, element, tuple(part.term for part in parts), refs, given, tuple(kind for kind, _ in slots)
        )
        bindings: tuple[Binding, ...] = tuple(binding for _, binding in slots)
        return Instance(term, bindings)

    def argument(self, number: int, element: str, rank: int) -> Term:
        """An argument of the program, with a slot for each dimension."""
        return self.leaf((ARGUMENT, number), element, rank)

    def leaf(self, operation: tuple[Hashable, ...], element: str, rank: int) -> Term:
        """A term without parts, with a slot for each dimension."""
        return self._interned(operation, element, (), (), tuple(range(rank)), (INDEX,) * rank)

    def _interned(
        self,
        operation: tuple[Hashable, ...],
        element: str,
        parts: tuple[Term, ...],
        refs: tuple[tuple[Ref, ...], ...],
        own: tuple[Ref, ...],
        kinds: tuple[str, ...],
    ) -> Term:
        key = (operation, element, parts, refs, own, kinds)
        found = self._known.get(key)
        if found is None:
            labels = [free_label(ref for slots in (*refs, own) for ref in slots), *(part.free_label for part in parts)]
            found = Term(operation, element, parts, refs, own, kinds, next(self._numbers), max(labels))
            self._known[key] = found
        return found

    # ---- other bindings ----

    def normal(self, term: Term, bindings: Sequence[Binding]) -> Instance:
        """The term with other bindings, without choices that are the same everywhere."""
        given = tuple(bindings)
        if not self._needs_change(term, given):
            return Instance(term, given)
        key = (term, given)
        found = self._rebound.get(key)
        if found is None:
            found = self._rebound[key] = self._rebuilt(term, given)
        return found

    def _needs_change(self, term: Term, bindings: tuple[Binding, ...]) -> bool:
        if len(set(zip(term.kinds, bindings, strict=True))) < len(bindings):
            return True
        if term.kind == CHOICE:
            return True
        return any(
            isinstance(binding, IndexMap) and _becomes_other(kind, binding)
            for kind, binding in zip(term.kinds, bindings, strict=True)
        )

    def _rebuilt(self, term: Term, bindings: tuple[Binding, ...]) -> Instance:
        level = 1 + max((binding.level for binding in bindings if isinstance(binding, Column)), default=0)
        bind = functools.partial(opened, bindings=bindings, level=level)
        own = [bind(ref) for ref in term.own]
        if term.kind == INTEGER and isinstance(own[0], IndexMap) and own[0].is_constant:
            return self.make((CONSTANT, 0 if own[0].value == ANY else own[0].value), term.element)
        given = [Instance(part, tuple(map(bind, refs))) for part, refs in zip(term.parts, term.refs, strict=True)]
        if term.kind == CHOICE:
            return self.choice(own[0], given)
        if term.kind == ADD and numbers.bits_of(term.element) is None:
            normal = [self.normal(*each) for part in given for each in summands(part)]
            return self.added([each for part in normal for each in summands(part)])
        parts = [self.normal(*each) for each in given]
        kind = {INTEGER: NUMBER, SUM: SET}.get(str(term.kind), INDEX)
        return self.make(term.operation, term.element, parts, [(kind, each) for each in own], level=level)

    # ---- sums of a few ----

    def added(self, summands: Sequence[Instance]) -> Instance:
        """The sum of numbers that are no integers, in a fixed order."""
        first, *others = sorted(summands, key=lambda each: each.term.number)
        for each in others:
            first = self.make((ADD,), each.term.element, [first, each])
        return first

    # ---- choices ----

    def choice(self, which: Binding, given: Sequence[Instance]) -> Instance:
        """The instance whose number is `which`. Instances of one term become one, and are sorted.

        Raises TooLarge.
        """
        if not isinstance(which, IndexMap):
            parts = [self.normal(*each) for each in given]
            return self.make((CHOICE,), parts[0].term.element, parts, [(f"{MASK}{len(parts)}", which)])
        which, given = _flattened(which, given)
        taken = which.taken
        if len(taken) <= 1:
            return self.normal(*given[taken[0] if taken else 0])
        by_term: dict[Term, tuple[IndexMap, Instance]] = {}
        kept: list[tuple[IndexMap, Instance]] = []
        for number in taken:
            here = takes(which, number)
            each = self.normal(given[number].term, [_seen(b, here) for b in given[number].bindings])
            each = self._alike(by_term, each)
            if each.term not in by_term:
                by_term[each.term] = here, each
                continue
            there, other = by_term[each.term]
            merged = _merged(here, each, other)
            if merged is None:
                kept.append((here, each))
            else:
                both = pointwise(lambda a, b: np.where(a == ANY, ANY, a | b), here, there)
                by_term[each.term] = both, Instance(each.term, merged)
        leaves = sorted(
            [*by_term.values(), *kept], key=lambda leaf: (leaf[1].term.kind == CONSTANT, leaf[1].term.number)
        )
        if len(leaves) == 1:
            return self.normal(*leaves[0][1])
        numbered = pointwise(_numbered, *[here for here, _ in leaves])
        element = leaves[0][1].term.element
        maps = [
            binding
            for _, leaf in leaves
            for kind, binding in zip(leaf.term.kinds, leaf.bindings, strict=True)
            if kind == INDEX and isinstance(binding, IndexMap)
        ]
        same = joined(maps) if any(each.has_any for each in maps) else {}
        if same:
            leaves = [
                (here, Instance(leaf.term, tuple(_renamed(same, binding) for binding in leaf.bindings)))
                for here, leaf in leaves
            ]
        parts = [self.normal(*leaf) for _, leaf in leaves]
        zero = next((i for i, part in enumerate(parts) if is_zero(part.term)), None)
        if zero is None or len(parts) > 2:
            return self.make((CHOICE,), element, parts, [(f"{MASK}{len(parts)}", numbered)])
        made = parts[1 - zero]
        for mask in reversed(factors(pointwise(lambda n: np.where(n == ANY, ANY, n != zero), numbered))):
            otherwise = pointwise(lambda m: np.where(m == ANY, ANY, m == 0), mask)
            made = self.make((CHOICE,), element, [made, parts[zero]], [(f"{MASK}2", otherwise)])
        return made

    def _alike(self, known: dict[Term, tuple[IndexMap, Instance]], each: Instance) -> Instance:
        """An instance, or one that is known, is written as one of the other's term, if that only has more slots."""
        for term in list(known):
            slots = self._same_slots(term, each.term)
            if slots is not None:
                return Instance(term, tuple(each.bindings[slot] for slot in slots))
            slots = self._same_slots(each.term, term)
            if slots is not None:
                here, other = known.pop(term)
                known[each.term] = here, Instance(each.term, tuple(other.bindings[slot] for slot in slots))
                return each
        return each

    def paired(self, first: Instance, second: Instance) -> list[tuple[IndexMap, IndexMap]] | None:
        """The bindings of two instances, slot by slot; None if their terms differ in more than equal slots."""
        slots = self._same_slots(first.term, second.term)
        if slots is not None:
            return [(first.bindings[i], second.bindings[slot]) for i, slot in enumerate(slots)]  # type: ignore[misc]
        slots = self._same_slots(second.term, first.term)
        if slots is not None:
            return [(first.bindings[slot], second.bindings[i]) for i, slot in enumerate(slots)]  # type: ignore[misc]
        return None

    def _same_slots(self, term: Term, other: Term) -> tuple[int, ...] | None:
        """The slots of another term for those of a term that is the same except that it has more slots."""
        key = (term, other)
        if key not in self._slots:
            self._slots[key] = self._matched(term, other)
        return self._slots[key]

    def _matched(self, term: Term, other: Term) -> tuple[int, ...] | None:
        if term is other:
            return tuple(range(len(term.kinds)))
        if (term.operation, term.element, len(term.parts), len(term.own)) != (
            other.operation,
            other.element,
            len(other.parts),
            len(other.own),
        ):
            return None
        pairs = list(zip(term.own, other.own, strict=True))
        for part, refs, counterpart, others in zip(term.parts, term.refs, other.parts, other.refs, strict=True):
            slots = self._same_slots(part, counterpart)
            if slots is None:
                return None
            pairs += [(ref, others[slot]) for ref, slot in zip(refs, slots, strict=True)]
        found: dict[int, int] = {}
        for ref, counterpart_ref in pairs:
            if isinstance(ref, int):
                if not isinstance(counterpart_ref, int) or found.setdefault(ref, counterpart_ref) != counterpart_ref:
                    return None
            elif ref != counterpart_ref or isinstance(counterpart_ref, int):
                return None
        if any(kind != other.kinds[found[slot]] for slot, kind in enumerate(term.kinds)):
            return None
        return tuple(found[slot] for slot in range(len(term.kinds)))


def summands(instance: Instance, most: int | None = None) -> list[Instance]:
    """The summands of an instance; after `most` of them, the others may be sums themselves."""
    found, open_ = list[Instance](), [instance]
    if instance.term.kind != ADD:
        found, open_ = open_, found
    while open_ and (most is None or len(found) < most):
        term, bindings = open_.pop()
        for part, refs in zip(term.parts, term.refs, strict=True):
            summand = Instance(part, tuple(opened(ref, bindings, 0) for ref in refs))
            (open_ if part.kind == ADD else found).append(summand)
    return found + open_


def _becomes_other(kind: str, binding: IndexMap) -> bool:
    """Whether a binding becomes part of a term, or leaves fewer choices."""
    if binding.labels and all(label.kind == "bound" for label in binding.labels):
        return True
    if kind == INDEX or not (binding.is_constant or kind.startswith(MASK)):
        return False
    return binding.is_constant or len(binding.taken) < int(kind.removeprefix(MASK))


def is_zero(term: Term) -> bool:
    """Whether a term is zero, of any sign."""
    if term.kind == "stablehlo.complex":
        return all(map(is_zero, term.parts))
    return term.kind == CONSTANT and numbers.is_zero(int(term.operation[1]), term.element)  # type: ignore[call-overload]


def _flattened(which: IndexMap, given: Sequence[Instance]) -> tuple[IndexMap, Sequence[Instance]]:
    """Nested choices as one, unless its table would be too large."""
    inner: list[IndexMap] = []
    leaves: list[Instance] = []
    for number, each in enumerate(given):
        nested = opened(each.term.own[0], each.bindings, 0) if each.term.kind == CHOICE else None
        parts: Sequence[Instance] = [each]
        chosen = constant(0)
        if isinstance(nested, IndexMap) and number in which.taken:
            bind = functools.partial(opened, bindings=each.bindings, level=0)
            own = zip(each.term.parts, each.term.refs, strict=True)
            chosen, parts = _flattened(nested, [Instance(part, tuple(map(bind, refs))) for part, refs in own])
        begin = len(leaves)
        inner.append(pointwise(lambda n, begin=begin: np.where(n == ANY, ANY, n + begin), chosen))
        leaves += parts
    if len(leaves) == len(given):
        return which, given

    def taken(w: Blocks, *chosen: Blocks) -> Any:
        found: Any = ANY
        for number, each in enumerate(chosen):
            found = np.where(w == number, each, found)
        return found

    try:
        return pointwise(taken, which, *inner, largest=_MAX_FLAT), leaves
    except TooLarge:
        return which, given


def _numbered(*masks: Blocks) -> Any:
    """The number of the mask that is 1."""
    found: Any = ANY
    for number, mask in enumerate(masks):
        found = np.where(mask == 1, number, found)
    return found


def _renamed(same: dict[IndexMap, IndexMap], binding: Binding) -> Binding:
    return same.get(binding, binding) if isinstance(binding, IndexMap) else binding


def _seen(binding: Binding, mask: IndexMap) -> Binding:
    return masked(binding, mask) if isinstance(binding, IndexMap) else binding


def _merged(here: IndexMap, each: Instance, other: Instance) -> tuple[Binding, ...] | None:
    """The bindings of one instance where a mask is 1, else those of another one of the same term."""
    found: list[Binding] = []
    for a, b in zip(each.bindings, other.bindings, strict=True):
        if a is b or a == b:
            found.append(a)
        elif isinstance(a, IndexMap) and isinstance(b, IndexMap) and (same := joined([a, b])):
            found.append(same[a])
        elif isinstance(a, IndexMap) and isinstance(b, IndexMap) and a.columns == b.columns:
            try:
                found.append(where(here, a, b))
            except TooLarge:  # it may fit after one of its parts is replaced
                return None
        else:
            return None
    return tuple(found)
