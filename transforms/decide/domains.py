"""The domain of every value: the placements that are the states of its variable."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable

import numpy as np

from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.decide.sums import Sums
from gspmd.transforms.decide.value_table import ValueTable
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.paths.placements import AxisParts, Bools, Ints, Placements

Uneven = frozenset[tuple[int, int]]
"""Sizes, with the numbers of axis lists by which propagation splits them unevenly somewhere."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """Placements of a table, by number; `key` identifies the domain.

    For a value with optional constraints, `taken` says which of them are used, as bits.
    """

    key: int
    table: Placements
    numbers: Ints
    taken: Ints | None = None

    def is_taken(self, constraint: int) -> Bools:
        """The states in which an optional constraint, given by its position among these, is used."""
        assert self.taken is not None, "it has optional constraints"
        found: Bools = (self.taken >> constraint) & 1 == 1
        return found


def uneven_in(places: ValueTable, parts: AxisParts) -> Uneven:
    """The uneven shardings of propagation; no others are candidates, because padding is sent and computed with."""
    found: set[tuple[int, int]] = set()
    seen: set[tuple[TensorType, TensorSharding]] = set()
    for type_, sharding in zip(places.program.value_type, places.sharding, strict=True):
        if (type_, sharding) in seen or sharding.rank != len(type_.shape):
            continue
        seen.add((type_, sharding))
        for size, axes, count in zip(type_.shape, sharding.dim_axes(), sharding.shard_counts(), strict=True):
            if size % count:
                found.add((size, parts.list_of(axes)))
    return frozenset(found)


class Domains:
    """The domains of a program's values; equal ones are shared. `fits` maps a size to the axis lists that may split it.

    A value that a loop carries or reads may take at most `loop_bytes` more memory than by propagation. With
    `values_stay`, a value keeps the sharding of propagation, or is partial.
    """

    def __init__(
        self, places: ValueTable, parts: AxisParts, sums: Sums, fits: Callable[[int], Bools], loop_bytes: float,
        values_stay: bool,
    ) -> None:  # fmt: skip
        self._places, self._parts, self._sums, self._fits = places, parts, sums, fits
        self._types, self._loop_bytes, self._values_stay = places.program.value_type, loop_bytes, values_stay
        self._tables: dict[int, Placements] = {}
        self._of: dict[int, Domain] = {}
        self._known: dict[Hashable, Domain] = {}

    def table(self, value: int) -> Placements:
        """The candidate placements of a value."""
        found = self._tables.get(value)
        if found is None:
            rank = self._places.sharding[self._places.carried[value]].rank
            found = self._tables[value] = self._parts.of(rank, self._places.held_around[value])
        return found

    def now(self, value: int) -> int:
        """The number of a value's placement by propagation."""
        return self.table(value).number(self._places.sharding[self._places.carried[value]])

    def of(self, value: int) -> Domain:
        """The domain of a value: one placement, if it is annotated."""
        value = self._places.carried[value]
        found = self._of.get(value)
        if found is None:
            found = self._of[value] = self._make(value)
        return found

    def copies(self, value: int) -> Domain:
        """The placements to which a value may be resharded."""
        table, shape = self.table(value), self._types[value].shape
        return self._interned(("copies", table, shape), table, lambda: self._splits(table, shape, table.finished))

    def _make(self, value: int) -> Domain:
        places, table, now = self._places, self.table(value), self.now(value)
        if not places.may_change(value):
            return self._interned(("fixed", table, now), table, lambda: np.array([now], np.int64))
        shape, is_apart, is_limited = self._types[value].shape, self._sums.stays_apart(value), places.is_limited(value)
        optional = len(places.optional.get(value, ()))

        def make() -> Ints:
            numbers = self._splits(table, shape, len(table.lists) if is_apart else table.finished, now)
            if is_limited:
                kept = [n for n in numbers.tolist() if n == now or self._is_expected(value, n)]
                numbers = np.array(kept, np.int64)
            return numbers[(numbers == now) | (numbers >= table.finished)] if self._values_stay else numbers

        key = "free", table, shape, now, is_apart, value if is_limited else -1
        return self._interned((key, optional), table, make, optional)

    def _is_expected(self, value: int, number: int) -> bool:
        """Whether a value of which users see something may lie so.

        A result that nothing is said of is split no finer than propagation has it, unless it is a sum over devices, of
        which each then takes a part, or lies as an argument of its type.
        """
        places, table = self._places, self.table(value)
        sharding = table.sharding(number)
        if not places.fits(value, sharding) or not self._is_held(value, number):
            return False
        is_no_finer = table.count[number] <= table.count[self.now(value)]
        if value not in places.free_ends or is_no_finer or self._sums.comes_apart(value):
            return True
        return sharding in places.ends_like(value)

    def _is_held(self, value: int, number: int) -> bool:
        """Whether a device may use so much more memory for a value that a loop carries or reads."""
        if value not in self._places.names:
            return True
        type_, table = self._types[value], self.table(value)
        held, before = table.local(type_.shape, np.array([number, self.now(value)]))
        return bool((held - before) * element_bytes(type_.element) <= self._loop_bytes)

    def _splits(self, table: Placements, shape: tuple[int, ...], count: int, now: int = 0) -> Ints:
        """Those of the first placements that split each dimension as may be, and the one that is."""
        fits = np.ones(count, bool)
        for dim, size in enumerate(shape):
            fits &= self._fits(size)[table.lists[:count, dim]]
        return np.union1d(np.nonzero(fits)[0], [now])

    def _interned(self, key: Hashable, table: Placements, make: Callable[[], Ints], optional: int = 0) -> Domain:
        """The domain with this key, made if it is new: with so many constraints that a value may be taken as."""
        found = self._known.get(key)
        if found is None:
            numbers, taken = make(), None
            content = table, numbers.tobytes(), optional
            if optional:  # none of the constraints is used, or one, or all
                masks = sorted({0, *(1 << bit for bit in range(optional)), (1 << optional) - 1})
                taken = np.repeat(np.array(masks, np.int64), len(numbers))
                numbers = np.tile(numbers, len(masks))
            found = self._known.setdefault(content, Domain(len(self._known), table, numbers, taken))
            self._known[key] = found
        return found
