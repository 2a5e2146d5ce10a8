"""Interned domains and tables of costs, so that computations on equal tables run once.

Programs are repetitive: layers, heads, gradients of weights. The same function of the same tables is the same table.
So one of many equal parts of a problem is solved, and the others are looked up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable

import numpy as np

from gspmd.transforms.paths.placements import Bools, Floats, Ints, Placements


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """Placements of a table, by number: the states of a value, or those of a tensor in each strategy.

    Interned: equal ones are one object, and have one `key`. For a value with optional constraints, `taken` says which
    of them are used, as bits.
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


class Tables:
    """Vectors of unary costs and matrices of pair costs, each with a number, and the domains that they belong to."""

    def __init__(self) -> None:
        self.arrays: list[Floats] = []
        self.choices: list[Ints] = []  # the choices of eliminated variables
        self._known: dict[Hashable, int] = {}
        self._chosen: dict[Hashable, int] = {}
        self._domains: dict[Hashable, Domain] = {}

    def domain(self, table: Placements, numbers: Ints, taken: Ints | None = None) -> Domain:
        """The domain with these placements."""
        key = table, numbers.tobytes(), b"" if taken is None else taken.tobytes()
        found = self._domains.get(key)
        if found is None:
            found = self._domains[key] = Domain(len(self._domains), table, numbers, taken)
        return found

    def __getitem__(self, number: int) -> Floats:
        return self.arrays[number]

    def number(self, key: Hashable, make: Callable[[], Floats]) -> int:
        """The table with this key, computed if it is new."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._add(make())
        return found

    def _add(self, array: Floats) -> int:
        self.arrays.append(array)
        return len(self.arrays) - 1

    def new(self, array: Floats) -> int:
        """A new table that is not shared."""
        return self._add(array)

    def plus(self, a: int | None, b: int) -> int:
        """The sum of two tables; the second table if the first is None."""
        if a is None:
            return b
        key = ("plus", a, b) if a <= b else ("plus", b, a)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._add(self.arrays[a] + self.arrays[b])
        return found

    def times(self, a: int, weight: float) -> int:
        """A table times a weight."""
        if weight == 1.0:
            return a
        return self.number(("times", a, weight), lambda: self.arrays[a] * weight)

    def transposed(self, a: int) -> int:
        """The transpose of a matrix."""
        found = self._known.get(("transposed", a))
        if found is None:
            found = self._known["transposed", a] = self._add(np.ascontiguousarray(self.arrays[a].T))
            self._known["transposed", found] = a
        return found

    def column(self, a: int, column: int) -> int:
        """A column of a matrix, as a vector."""
        return self.number(("column", a, column), lambda: self.arrays[a][:, column])

    def row(self, a: int, row: int) -> int:
        """A row of a matrix, as a vector."""
        return self.number(("row", a, row), lambda: self.arrays[a][row])

    def diagonal(self, a: int) -> int:
        """The diagonal of a matrix of a variable with itself: the costs of its states."""
        return self.number(("diagonal", a), lambda: self.arrays[a].diagonal().copy())

    def row_minima(self, a: int) -> int:
        """The minimum of each row of a matrix."""
        return self.number(("least of rows", a), lambda: self.arrays[a].min(axis=1))

    def min_plus_vector(self, unary: int | None, table: int) -> tuple[int, int]:
        """Eliminate the column variable: the minimum of each row plus the columns' own cost, and its column."""
        key = ("least", unary, table)
        found = self._known.get(key)
        if found is None:
            costs = self.arrays[table] if unary is None else self.arrays[table] + self.arrays[unary]
            chosen = costs.argmin(axis=1)
            self._chosen[key] = len(self.choices)
            self.choices.append(chosen)
            found = self._known[key] = self._add(costs[np.arange(len(costs)), chosen])
        return found, self._chosen[key]

    def min_plus_product(self, left: int, unary: int | None, right: int) -> tuple[int, int]:
        """Eliminate a variable between two: the minimum over the columns of `left`, which are the rows of `right`."""
        key = ("joined", left, unary, right)
        found = self._known.get(key)
        if found is None:
            a, b = self.arrays[left], self.arrays[right]
            if unary is not None:
                a = a + self.arrays[unary]
            least, chosen = _min_plus(a, np.ascontiguousarray(b.T))
            self._chosen[key] = len(self.choices)
            self.choices.append(chosen)
            found = self._known[key] = self._add(least)
        return found, self._chosen[key]


_MAX_SUMS = 1 << 15
"""The number of sums in memory at a time, so that they stay in the cache of a core."""


def _min_plus(a: Floats, b: Floats) -> tuple[Floats, Ints]:
    """For each pair of rows, the minimum sum of two entries, and its position."""
    count, size = b.shape
    rows = min(max(_MAX_SUMS // b.size, 1), len(a))
    chosen, sums = np.empty((len(a), count), np.int64), np.empty((rows, count, size))
    for begin in range(0, len(a), rows):
        part = a[begin : begin + rows, None, :]
        np.add(part, b, out=sums[: len(part)]).argmin(axis=2, out=chosen[begin : begin + rows])
    return a[np.arange(len(a))[:, None], chosen] + b[np.arange(count), chosen], chosen
