"""Symbolic values: a term, and the bindings of its slots as functions of the device and the index.

A value of the given program is the same on all devices. A value of the partitioned program may have the same term with
other bindings: those of a shard, or of a sum over fewer summands.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from gspmd.verification import index_maps
from gspmd.verification.index_maps import IndexMap, Label, Places, composed, dim
from gspmd.verification.terms import CONSTANT, INDEX, SET, Binding, Instance, Term, TermTable

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class SymbolicValue:
    """Elements of a term. They are unknown where one of `valid` (maps to 0 and 1) is not 1."""

    term: Term
    bindings: tuple[Binding, ...]
    shape: Shape
    valid: tuple[IndexMap, ...] = ()

    @property
    def element(self) -> str:
        return self.term.element

    @property
    def instance(self) -> Instance:
        return Instance(self.term, self.bindings)

    @property
    def maps(self) -> tuple[IndexMap, ...]:
        """The bindings of its slots."""
        assert all(isinstance(binding, IndexMap) for binding in self.bindings)
        return self.bindings  # type: ignore[return-value]

    @property
    def is_partial(self) -> bool:
        """Whether devices have different summands of a sum."""
        return any(
            kind == SET and any(label.kind == "digit" for label in each.labels)
            for kind, each in zip(self.term.kinds, self.maps, strict=True)
        )

    def labels(self) -> set[Label]:
        """All labels on which its slots depend."""
        return {label for each in (*self.maps, *self.valid) for label in each.labels}


class Values:
    """Makes values, in normal form."""

    def __init__(self, terms: TermTable) -> None:
        self.terms = terms

    def value(
        self, term: Term, bindings: Iterable[IndexMap], shape: Sequence[int], valid: Iterable[IndexMap] = ()
    ) -> SymbolicValue:
        """A value of a term with these bindings."""
        if 0 in shape:
            return SymbolicValue(*self.terms.make((CONSTANT, 0), term.element), tuple(shape))
        kept = _validity(valid)
        maps = list(bindings)
        for mask in kept:
            maps = [index_maps.masked(each, mask) for each in maps]
        if any(each.has_any for each in maps):
            same = index_maps.joined([m for m, kind in zip(maps, term.kinds, strict=True) if kind == INDEX])
            maps = [same.get(each, each) for each in maps]
        return SymbolicValue(*self.terms.normal(term, maps), tuple(shape), kept)

    def of(self, instance: Instance, shape: Sequence[int], valid: Iterable[IndexMap] = ()) -> SymbolicValue:
        return self.value(instance.term, instance.bindings, shape, valid)  # type: ignore[arg-type]

    def moved(self, value: SymbolicValue, shape: Sequence[int], places: Places) -> SymbolicValue:
        """Elements of a value, read at `places`: each label of the value as a function of the new labels.

        Elements at places that do not exist, below 0 or beyond the end, are unknown.
        """
        bindings = [composed(each, places) for each in value.maps]
        valid = [composed(each, places) for each in value.valid]
        valid += [_exists(place, value.shape[label.number]) for label, place in places.items() if label.kind == "dim"]
        return self.value(value.term, bindings, shape, valid)

    def relabelled(self, value: SymbolicValue, shape: Sequence[int], names: dict[int, int]) -> SymbolicValue:
        """The value with its dimensions renumbered."""
        places = {dim(old): index_maps.counted(dim(new), value.shape[old]) for old, new in names.items() if old != new}
        return self.moved(value, shape, places)


def _exists(place: IndexMap, size: int) -> IndexMap:
    return index_maps.pointwise(lambda at: ((at >= 0) & (at < size)).astype(np.int64), place)


def _validity(masks: Iterable[IndexMap]) -> tuple[IndexMap, ...]:
    """Distinct masks in a fixed order, those over the same labels merged, without those that are always 1."""
    by_labels: dict[tuple[Label, ...], IndexMap] = {}
    for mask in masks:
        known = by_labels.get(mask.labels)
        both = mask if known is None else index_maps.pointwise(lambda a, b: ((a == 1) & (b == 1)) * 1, known, mask)
        by_labels[mask.labels] = both
    found = {mask for mask in by_labels.values() if not (mask.is_constant and mask.value == 1)}
    return tuple(sorted(found, key=lambda mask: mask.number))
