"""Makes the term of a sum: its summand, and the sets over which it runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gspmd.verification import index_maps, numbers
from gspmd.verification.index_maps import IndexMap, Integers, Label, TooLarge, integer_map, set_map
from gspmd.verification.sets import independent, rows_along
from gspmd.verification.terms import SET, SHARE, SUM, Binding, BoundSlot, Column, Instance, Term
from gspmd.verification.values import Shape, SymbolicValue, Values


class Summing:
    """Makes the terms of sums along one label."""

    def __init__(
        self, values: Values, monoid: str, label: Label, size: int, present: IndexMap | None, shape: Shape
    ) -> None:
        self._values = values
        self._monoid = monoid
        self._label = label
        self._size = size
        self._present = present
        self._shape = shape

    def of(self, instance: Instance) -> tuple[SymbolicValue, IndexMap | None]:
        """The sum of an instance over the label, and a mask of where it has a summand; None for everywhere."""
        term, label = instance.term, self._label
        opened = term.kind == SUM and term.operation == (SUM, self._monoid)
        if not opened:
            body, sets = instance, []
        else:
            body = Instance(
                term.parts[0],
                tuple(instance.bindings[ref] if isinstance(ref, int) else ref for ref in term.refs[0]),
            )
            sets = [instance.bindings[ref] if isinstance(ref, int) else ref for ref in term.own]
        bound = [i for i, b in enumerate(body.bindings) if isinstance(b, IndexMap) and b.depends_on(label)]
        joined = [j for j, s in enumerate(sets) if isinstance(s, IndexMap) and s.depends_on(label)]
        if not bound and not joined:
            joined = [j for j, s in enumerate(sets) if isinstance(s, IndexMap) and s.columns == 0]
        rows, columns = self._rows(body, bound, sets, joined)
        if not joined and rows.table.shape[-2] == 1:
            return self._one(body, sets, bound, rows)
        placed: dict[int, BoundSlot] = {}
        kept = [j for j in range(len(sets)) if j not in joined]
        for i, binding in enumerate(body.bindings):
            if isinstance(binding, BoundSlot) and binding.of in kept:
                placed[i] = BoundSlot(kept.index(binding.of), binding.column)
        domains = [sets[j] for j in kept]
        for chosen, part in independent(rows):
            for column, original in enumerate(chosen):
                placed[columns[original]] = BoundSlot(len(domains), column)
            domains.append(part)
        return self._made(body, placed, domains), None

    def _one(
        self, body: Instance, sets: Sequence[Binding], bound: Sequence[int], rows: IndexMap
    ) -> tuple[SymbolicValue, IndexMap | None]:
        """A sum of at most one summand."""
        if not bound and not (rows.table[..., -1] <= 1).all():
            return self._made(body, _bound_already(body), [*sets, rows]), None
        if not (rows.table[..., -1] <= 1).all() and self._monoid not in numbers.IDEMPOTENT:
            placed = _bound_already(body)
            domains = list(sets)
            for chosen, part in independent(rows):
                for column, original in enumerate(chosen):
                    placed[bound[original]] = BoundSlot(len(domains), column)
                domains.append(part)
            return self._made(body, placed, domains), None
        bindings = list(body.bindings)
        for column, i in enumerate(bound):
            made = index_maps.numbered_sets if body.term.kinds[i] == SET else integer_map
            bindings[i] = made(rows.labels, rows.table[..., 0, column])
        placed_all = _bound_already(body)
        instance = Instance(body.term, tuple(bindings))
        value = (
            self._made(instance, placed_all, list(sets))
            if sets
            else self._values.value(instance.term, instance.bindings, self._shape)  # type: ignore[arg-type]
        )
        return value, integer_map(rows.labels, np.minimum(rows.table[..., 0, -1], 1))

    def _column(self, binding: Binding) -> IndexMap:
        """The column for a binding in the rows of a set; for a set, its number."""
        assert isinstance(binding, IndexMap)
        return index_maps.set_numbers(binding) if binding.is_set else binding

    def _rows(
        self, body: Instance, bound: Sequence[int], sets: Sequence[Binding], joined: Sequence[int]
    ) -> tuple[IndexMap, list[int]]:
        """The rows of a set over the label, joined with those of other sets, and the slot of every column."""
        maps = [self._column(body.bindings[i]) for i in bound]
        others: list[IndexMap] = [sets[j] for j in joined]  # type: ignore[misc]
        present = self._present or index_maps.constant(1)
        labels, full = index_maps.joint_labels([*maps, *others, present], (self._label, self._size))
        count = int(np.prod([each.table.shape[-2] for each in others], dtype=np.int64))
        if int(np.prod(full, dtype=np.int64)) * count * (1 + len(maps) + len(others)) > 2 * index_maps.LARGEST_TABLE:
            raise TooLarge
        # [labels..., rows of every joined set..., columns]
        ones = (1,) * len(others)
        columns: list[Integers] = [m.spread(labels).reshape((*_shape(m, labels), *ones)) for m in maps]
        counts: Integers = (present.spread(labels) == 1).astype(np.int64).reshape((*_shape(present, labels), *ones))
        slots = list(bound)
        for number, (j, each) in enumerate(zip(joined, others, strict=True)):
            rows = each.spread(labels)
            at = [1] * len(others)
            at[number] = rows.shape[-2]
            spread = rows.reshape((*rows.shape[: len(labels)], *at, rows.shape[-1]))
            counts = counts * spread[..., -1]
            for column in range(rows.shape[-1] - 1):
                columns.append(spread[..., column])
                slots.append(_slot_of(body, BoundSlot(j, column)))
        shape = (*full, *[each.table.shape[-2] for each in others])
        if self._monoid in numbers.IDEMPOTENT:
            counts = np.minimum(counts, 1)
        table = np.stack([np.broadcast_to(c, shape) for c in (*columns, counts)], axis=-1)
        made = rows_along(labels, self._label, table)
        if self._monoid in numbers.IDEMPOTENT and made.table.size:
            flat = np.array(made.table)
            flat[..., -1] = np.minimum(flat[..., -1], 1)
            made = set_map(made.labels, flat)
        return made, slots

    def _made(self, body: Instance, placed: dict[int, BoundSlot], domains: Sequence[Binding]) -> SymbolicValue:
        """The term, with its sets in the order in which its summand uses them."""
        once = set_map((), np.ones((1, 1), np.int64))
        if len(domains) > 1 and once in domains:
            kept = [j for j, domain in enumerate(domains) if domain is not once]
            placed = {i: BoundSlot(kept.index(b.of), b.column) for i, b in placed.items()}
            domains = [domains[j] for j in kept] or [once]
        first = {
            j: min((i for i, b in placed.items() if b.of == j), default=len(body.bindings)) for j in range(len(domains))
        }
        order = sorted(range(len(domains)), key=lambda j: first[j])
        columns = {j: sorted(i for i, b in placed.items() if b.of == j) for j in order}
        bindings = list(body.bindings)
        ordered: list[tuple[str, Binding]] = []
        for new, j in enumerate(order):
            domain = domains[j]
            assert isinstance(domain, IndexMap)
            turned = [placed[i].column for i in columns[j]]
            if turned != sorted(turned):
                domain = set_map(domain.labels, domain.table[..., [*turned, domain.table.shape[-1] - 1]])
            ordered.append((SET, domain))
            for column, i in enumerate(columns[j]):
                bindings[i] = Column(0, new, column)
        whole = of_all_shares(body.term, ordered, bindings)
        if whole is not None:
            return self._values.of(whole, self._shape)
        part = self._values.terms.normal(body.term, bindings)
        instance = self._values.terms.make((SUM, self._monoid), part.term.element, [part], ordered, level=0)
        return self._values.of(instance, self._shape)


def of_all_shares(term: Term, sets: Sequence[tuple[str, Binding]], bindings: Sequence[Binding]) -> Instance | None:
    """The whole value of which a term is a share, if the sum runs over all of its shares."""
    if term.kind != SHARE or len(sets) != 1:
        return None
    each, count = sets[0][1], int(term.operation[1])  # type: ignore[call-overload]
    (own,) = term.own
    assert isinstance(each, IndexMap)
    assert isinstance(own, int)
    all_once = each is set_map([], np.stack([np.arange(count), np.ones(count, np.int64)], axis=-1))
    if not all_once or bindings[own] != Column(0, 0, 0):
        return None
    refs = term.refs[0]
    if any(isinstance(ref, int) and isinstance(bindings[ref], Column) for ref in refs):
        return None
    return Instance(term.parts[0], tuple(bindings[ref] if isinstance(ref, int) else ref for ref in refs))


def _shape(each: IndexMap, labels: Sequence[Label]) -> tuple[int, ...]:
    sizes = each.sizes()
    return tuple(sizes.get(label, 1) for label in labels)


def _slot_of(body: Instance, wanted: BoundSlot) -> int:
    return next(i for i, binding in enumerate(body.bindings) if binding == wanted)


def _bound_already(body: Instance) -> dict[int, BoundSlot]:
    return {i: binding for i, binding in enumerate(body.bindings) if isinstance(binding, BoundSlot)}
