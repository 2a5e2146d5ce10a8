"""The domain of every value: the placements that are the states of its variable."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.decide.frame import Frame, Uneven
from gspmd.transforms.decide.sums import Sums
from gspmd.transforms.decide.tables import Domain, Tables
from gspmd.transforms.decide.value_table import ValueTable
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.paths.placements import AxisParts, Ints, Placements


def uneven_in(values: ValueTable, parts: AxisParts) -> Uneven:
    """The uneven shardings of propagation. No others are candidates, because padding is sent and computed, too."""
    found: set[tuple[int, int]] = set()
    seen: set[tuple[TensorType, TensorSharding]] = set()
    for type_, sharding in zip(values.program.value_type, values.sharding, strict=True):
        if (type_, sharding) in seen or sharding.rank != len(type_.shape):
            continue
        seen.add((type_, sharding))
        for size, axes, count in zip(type_.shape, sharding.dim_axes(), sharding.shard_counts(), strict=True):
            if size % count:
                found.add((size, parts.list_of(axes)))
    return frozenset(found)


class Domains:
    """The domains of a program's values; equal ones are shared.

    A value that a loop carries or reads may take only a little more memory than by propagation. With `values_stay`, a
    value keeps the sharding of propagation, or is partial.
    """

    def __init__(self, values: ValueTable, frame: Frame, sums: Sums, values_stay: bool) -> None:
        self._values, self._parts, self._sums, self._fits = values, frame.parts, sums, frame.strategies.fits
        self._types, self._values_stay = values.program.value_type, values_stay
        self._loop_bytes, self._cost_tables = frame.objective.hardware.loop_bytes, frame.tables
        self._tables: dict[int, Placements] = {}
        self._of: dict[int, Domain] = {}
        self._known: dict[Hashable, Domain] = {}

    def table(self, value: int) -> Placements:
        """The candidate placements of a value."""
        found = self._tables.get(value)
        if found is None:
            rank = self._values.sharding[self._values.carried[value]].rank
            found = self._tables[value] = self._parts.of(rank, self._values.held_around[value])
        return found

    def now(self, value: int) -> int:
        """The number of a value's placement by propagation."""
        return self.table(value).number(self._values.sharding[self._values.carried[value]])

    def of(self, value: int) -> Domain:
        """The domain of a value: one placement, if it is annotated."""
        value = self._values.carried[value]
        found = self._of.get(value)
        if found is None:
            found = self._of[value] = self._make(value)
        return found

    def copies(self, value: int) -> Domain:
        """The placements to which a value may be resharded."""
        table, shape = self.table(value), self._types[value].shape
        return self._interned(("copies", table, shape), table, lambda: self._splits(table, shape, table.finished))

    def _make(self, value: int) -> Domain:
        values, table, now = self._values, self.table(value), self.now(value)
        if not values.may_change(value):
            return self._interned(("fixed", table, now), table, lambda: np.array([now], np.int64))
        shape, is_partial, is_limited = (
            self._types[value].shape,
            self._sums.stays_partial(value),
            values.is_limited(value),
        )
        optional = len(values.optional.get(value, ()))

        def make() -> Ints:
            numbers = self._splits(table, shape, len(table.lists) if is_partial else table.finished, now)
            if is_limited:
                kept = [n for n in numbers.tolist() if n == now or self._is_expected(value, n)]
                numbers = np.array(kept, np.int64)
            return numbers[(numbers == now) | (numbers >= table.finished)] if self._values_stay else numbers

        key = "free", table, shape, now, is_partial, value if is_limited else -1
        return self._interned((key, optional), table, make, optional)

    def _is_expected(self, value: int, number: int) -> bool:
        """Whether a value with restrictions may have this placement.

        A result without an annotation is split no finer than by propagation. There are two exceptions: a sum over
        devices may be scattered, and a result may have the sharding of an argument of its type.
        """
        values, table = self._values, self.table(value)
        sharding = table.sharding(number)
        if not values.fits(value, sharding) or not self._is_held(value, number):
            return False
        is_no_finer = table.count[number] <= table.count[self.now(value)]
        if value not in values.returned_unannotated or is_no_finer or self._sums.may_be_partial(value):
            return True
        return sharding in values.argument_shardings(value)

    def _is_held(self, value: int, number: int) -> bool:
        """Whether this placement of a value that a loop carries or reads takes at most `loop_bytes` more memory."""
        if value not in self._values.aliases:
            return True
        type_, table = self._types[value], self.table(value)
        held, before = table.local(type_.shape, np.array([number, self.now(value)]))
        return bool((held - before) * element_bytes(type_.element) <= self._loop_bytes)

    def _splits(self, table: Placements, shape: tuple[int, ...], count: int, now: int = 0) -> Ints:
        """The placements, among the first `count`, whose axis lists fit all dimensions; also the placement `now`."""
        fits = np.ones(count, bool)
        for dim, size in enumerate(shape):
            fits &= self._fits(size)[table.lists[:count, dim]]
        return np.union1d(np.nonzero(fits)[0], [now])

    def _interned(self, key: Hashable, table: Placements, make: Callable[[], Ints], optional: int = 0) -> Domain:
        """The domain with this key, computed if it is new, for a value with this number of optional constraints."""
        found = self._known.get(key)
        if found is None:
            numbers, taken = make(), None
            if optional:  # none of the constraints is used, or one, or all
                masks = sorted({0, *(1 << bit for bit in range(optional)), (1 << optional) - 1})
                taken = np.repeat(np.array(masks, np.int64), len(numbers))
                numbers = np.tile(numbers, len(masks))
            found = self._known[key] = self._cost_tables.domain(table, numbers, taken)
        return found


class ChosenDomains:
    """The domains of a solved problem with the chosen states alone.

    `state_of` is the state of a value, and `copy_of` the position of its common copy among the placements of copies, -1
    without one.
    """

    def __init__(
        self, domains: Domains, tables: Tables, state_of: Callable[[int], int], copy_of: Callable[[int], int]
    ) -> None:
        self._domains, self._cost_tables, self._state_of, self._copy_of = domains, tables, state_of, copy_of
        self.table, self.now = domains.table, domains.now

    def of(self, value: int) -> Domain:
        """The placement of a value."""
        return self._part(self._domains.of(value), self._state_of(value))

    def copies(self, value: int) -> Domain:
        """The placement to which a value is resharded for several consumers, or none."""
        return self._part(self._domains.copies(value), self._copy_of(value))

    def _part(self, domain: Domain, state: int) -> Domain:
        part = slice(state, state + 1) if state >= 0 else slice(0)
        taken = None if domain.taken is None else domain.taken[part]
        return self._cost_tables.domain(domain.table, domain.numbers[part], taken)
