"""The placements of values of one rank, as rows of arrays.

The axes of the mesh are cut into the finest parts of the program's shardings. A placement assigns each part to a
dimension, to none, or leaves the value partial over it; the parts of a dimension are a list, most major first.

For example, over x=2 and y=2 a matrix has 11 finished placements: [{}, {}], [{x}, {}], [{x, y}, {}], [{y, x}, {}],
[{x}, {y}], and so on.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from gspmd.dialect.axes import Axes, Axis, atoms, canonical, overlap, size_of, split_at
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import TensorSharding, replicated

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MAX_PARTS = 3
"""With more parts than this, dimensions are split only over lists in the program, and over single parts."""

MAX_ROWS = 1 << 14
"""The limit on placements of one rank; beyond it, only those of some value and similar ones are listed."""

MAX_PLACEMENTS = 1024
"""The approximate limit on unrestricted placements of one rank; beyond it, dimensions are split only as somewhere in
the program.
"""


class AxisParts:
    """The parts of a mesh's axes, and the lists of parts that may split dimensions, both by number.

    `lists` are tuples of parts' numbers, the empty one first; by number of a list, `axes` is what it is written as,
    `count` its shards, `mask` its parts as bits, and `prefix[a, b]` whether one of the two begins with the other.
    """

    def __init__(self, mesh: Mesh, shardings: Iterable[TensorSharding]) -> None:
        self.mesh = mesh
        self._given = dict.fromkeys(shardings)
        used = {axes for sharding in self._given for axes in (*sharding.dim_axes(), sharding.unreduced)}
        self._cuts: dict[str, tuple[int, ...]] = {}
        self._of_mask: dict[int, Axes] = {}
        self.parts = self._cut(used)
        self._number = {part: number for number, part in enumerate(self.parts)}
        excluded = [
            sum(1 << n for n, other in enumerate(self.parts) if part.overlaps(other) or not part.nests(other))
            for part in self.parts
        ]
        self.lists: list[tuple[int, ...]] = []
        self._lists: dict[tuple[int, ...], int] = {}
        everything = range(len(self.parts))
        self.is_limited = len(self.parts) > MAX_PARTS
        self._list_all(used, excluded)
        self.axes = [canonical(self.parts[number] for number in each) for each in self.lists]
        self.count = np.array([size_of(axes) for axes in self.axes], np.int64)
        self.mask = np.array([sum(1 << number for number in each) for each in self.lists], np.int64)
        self.excluded = np.array([_either(excluded[number] for number in each) for each in self.lists], np.int64)
        self.prefix = np.array([[_begins(a, b) or _begins(b, a) for b in self.lists] for a in self.lists])
        chosen = [each for length in range(1, MAX_PARTS + 1) for each in itertools.combinations(everything, length)]
        if self.is_limited:
            found = [tuple(sorted(each)) for each in self.lists if each]
            pairs = itertools.product(found, found) if len(found) ** 2 < MAX_PLACEMENTS else ((a, a) for a in found)
            chosen = sorted({tuple(sorted({*a, *b})) for a, b in pairs})
        sums = [sum(1 << number for number in each) for each in chosen if _go_together(each, excluded)]
        self.sums: list[int] = sums
        """The parts, as bits, over which values may be partial."""
        masks = np.arange(1 << len(self.parts))
        bits = (masks[:, None] >> np.arange(len(self.parts))) & 1
        self.size_of_mask = np.prod(np.where(bits, [part.size for part in self.parts], 1), axis=1)
        self.direct_exchanges: dict[tuple[int, int, int, int], tuple[int, float] | None] = {}
        """Those along one dimension, as `steps.py` describes them: by its size, its lists, and parts as bits."""
        self._tables: dict[tuple[int, Axes], Placements] = {}
        self._found_on: dict[tuple[int, int], set[int]] = {}  # by rank and dimension: the lists that shardings have
        for sharding in self._given:
            for dim, axes in enumerate(sharding.dim_axes()):
                self._found_on.setdefault((sharding.rank, dim), {0}).update(self.prefixes(self.list_of(axes)))

    @property
    def lists_all(self) -> bool:
        """Whether all placements are listed, whatever shardings the program has: one or two parts have few."""
        return len(self.parts) <= 2

    def content(self) -> Hashable:
        """What placements depend on, besides the shardings of the program if not all placements are listed."""
        return self.mesh, tuple(self.parts), tuple(self.lists), tuple(self.sums)

    def _cut(self, used: set[Axes]) -> list[Axis]:
        """The parts that shardings with these lists of axes have of the mesh."""
        found: list[Axis] = []
        for axis in self.mesh.all_axes():
            pieces = {piece for axes in used for piece in axes if piece.name == axis.name}
            try:
                self._cuts |= atoms([(axis,), pieces])
                found += split_at((axis,), self._cuts)
            except ValueError:  # no factoring of the axis has all of these parts: they exclude each other
                found += sorted(pieces | {axis})
        return found

    def _list_all(self, used: set[Axes], excluded: list[int]) -> None:
        """Find the lists: all, or single parts and the prefixes of lists in some sharding."""
        self._add(())
        everything = range(len(self.parts))
        for length in range(1, 2 if self.is_limited else len(self.parts) + 1):
            for each in itertools.permutations(everything, length):
                if _go_together(each, excluded):
                    self._add(each)
        for axes in sorted(used):
            listed = self.parts_of(axes)
            for length in range(1, len(listed) + 1):
                self._add(listed[:length])

    def _add(self, parts: tuple[int, ...]) -> None:
        if parts not in self._lists:
            self._lists[parts] = len(self.lists)
            self.lists.append(parts)

    def _split(self, axes: Axes) -> list[Axis]:
        return [
            part for axis in axes for part in (split_at((axis,), self._cuts) if axis.name in self._cuts else (axis,))
        ]

    def parts_of(self, axes: Axes) -> tuple[int, ...]:
        """Axes as parts."""
        return tuple(self._number[part] for part in self._split(axes))

    def list_of(self, axes: Axes) -> int:
        """The number of the list of axes."""
        return self._lists[self.parts_of(axes)]

    def excluded_by(self, mask: int) -> int:
        """The parts that exclude those in a mask."""
        return _either(int(self.excluded[n]) for n, each in enumerate(self.mask.tolist()) if each and not each & ~mask)

    def has(self, axes: Axes) -> bool:
        """Whether a dimension may be split over these axes."""
        return all(part in self._number for part in self._split(axes)) and self.parts_of(axes) in self._lists

    def prefixes(self, number: int) -> list[int]:
        """The prefixes of a list, including itself."""
        parts = self.lists[number]
        return [self._lists[parts[:length]] for length in range(len(parts) + 1)]

    def mask_of(self, axes: Axes) -> int:
        """The parts of axes as bits."""
        return sum(1 << number for number in self.parts_of(axes))

    def axes_of_mask(self, mask: int) -> Axes:
        """The parts in a mask, in the order of the mesh."""
        found = self._of_mask.get(mask)
        if found is None:
            parts = self.mesh.sorted(tuple(part for number, part in enumerate(self.parts) if mask >> number & 1))
            found = self._of_mask[mask] = canonical(parts)
        return found

    def some_behind(self, lists: Ints, parts: Ints, others: Ints) -> Bools:
        """Whether in each of these lists a part comes after one of others; both are bits."""
        found: Bools = self._behind[lists, others] & parts != 0
        return found

    @functools.cached_property
    def _behind(self) -> Ints:
        """The parts, as bits, that in a list come after some of others, by the number of the list and by the others."""
        found = np.zeros((len(self.lists), 1 << len(self.parts)), np.int64)
        others = np.arange(found.shape[1])
        for number, each in enumerate(self.lists):
            for before, behind in itertools.combinations(each, 2):
                found[number, others >> before & 1 == 1] |= 1 << behind
        return found

    def on_dimension(self, rank: int, dim: int) -> Iterable[int]:
        """The lists that may split a dimension of values of a rank: all, or if there are many, those in the program."""
        if self.lists_all or (rank + 1) ** len(self.parts) <= MAX_PLACEMENTS:
            return range(len(self.lists))
        return sorted(self._found_on.get((rank, dim), {0}))

    def all_rows(self, choices: Sequence[Sequence[int]]) -> tuple[list[tuple[int, ...]], list[int]] | None:
        """The placements with one of these lists for each dimension, and their parts as bits.

        None if there are too many.
        """
        rows: list[tuple[int, ...]] = [()]
        masks = [0]
        for lists in choices:
            grown = [
                ((*row, each), mask | int(self.mask[each]))
                for row, mask in zip(rows, masks, strict=True)
                for each in lists
                if not mask & int(self.excluded[each])
            ]
            rows, masks = [row for row, _ in grown], [mask for _, mask in grown]
            if len(rows) > MAX_ROWS:
                return None
        return rows, masks

    def found_rows(self, rank: int, free: set[int]) -> tuple[list[tuple[int, ...]], list[int]]:
        """The placements of values of a rank in the program, and these with one dimension whole."""
        found = {(0,) * rank: None}
        for sharding in self._given:
            if sharding.rank == rank:
                row = tuple(self.list_of(axes) for axes in sharding.dim_axes())
                found |= dict.fromkeys([row, *((*row[:d], 0, *row[d + 1 :]) for d in range(rank))])
        rows = [row for row in found if free.issuperset(row)]
        return rows, [_either(int(self.mask[each]) for each in row) for row in rows]

    def of(self, rank: int, manual: Axes) -> Placements:
        """The placements of values of a rank inside manual computations over these axes."""
        found = self._tables.get((rank, manual))
        if found is None:
            found = self._tables[rank, manual] = Placements(self, rank, manual)
        return found


def _go_together(parts: Iterable[int], excluded: list[int]) -> bool:
    """Whether one sharding can have all of these parts."""
    seen = 0
    for number in parts:
        if excluded[number] & seen:
            return False
        seen |= 1 << number
    return True


def _either(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _begins(parts: tuple[int, ...], prefix: tuple[int, ...]) -> bool:
    return parts[: len(prefix)] == prefix


def _open_sums(masks: list[int], sums: list[tuple[int, int]]) -> Bools:
    """Which sums may be open in placements with these parts: rows are placements, each sum has what it excludes."""
    excluded = np.array([each for _, each in sums], np.int64)
    found: Bools = np.array(masks, np.int64)[:, None] & excluded == 0
    return found


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Some placements of a table, as its own rows of arrays; `numbers` are their numbers there."""

    parts: AxisParts
    rank: int
    numbers: Ints
    lists: Ints
    partial: Ints
    mask: Ints
    count: Ints
    manual: int


class Placements:
    """The placements of one rank: `lists[n, d]` is the list of dimension d, `partial[n]` the partial axes, as bits.

    `mask` are the parts that split dimensions, `where[n, part]` the dimension of a part, -1 for none; `count` the
    shards. Finished ones come first, `finished` of them; the first splits nothing. `manual` are parts of manual axes.
    """

    def __init__(self, parts: AxisParts, rank: int, manual: Axes) -> None:
        self.parts, self.rank = parts, rank
        self._form = replicated(parts.mesh, rank)
        free = {n for n, axes in enumerate(parts.axes) if not overlap(axes, manual)}
        choices = [[each for each in parts.on_dimension(rank, dim) if each in free] for dim in range(rank)]
        self.manual = sum(1 << n for n, part in enumerate(parts.parts) if overlap([part], manual))
        sums = [(each, parts.excluded_by(each)) for each in parts.sums if not each & self.manual]
        rows, masks = parts.all_rows(choices) or parts.found_rows(rank, free)
        may_be_open = _open_sums(masks, sums)
        if len(rows) + np.count_nonzero(may_be_open) > MAX_ROWS:
            rows, masks = parts.found_rows(rank, free)
            may_be_open = _open_sums(masks, sums)
        self.finished = len(rows)
        pairs = np.argwhere(may_be_open).tolist()
        partial = [0] * len(rows) + [sums[number][0] for _, number in pairs]
        rows += [rows[n] for n, _ in pairs]
        masks += [masks[n] for n, _ in pairs]
        self.lists: Ints = np.array(rows, np.int64).reshape(len(rows), rank)
        self.partial: Ints = np.array(partial, np.int64)
        self.mask: Ints = np.array(masks, np.int64)
        self.count: Ints = parts.size_of_mask[self.mask]
        self.where: Ints = np.full((len(rows), len(parts.parts)), -1, np.int64)
        for number in range(len(parts.parts)):
            for dim in range(rank):
                self.where[parts.mask[self.lists[:, dim]] >> number & 1 == 1, number] = dim
        self._number = {(row, left): n for n, (row, left) in enumerate(zip(rows, partial, strict=True))}
        self._shardings: dict[int, TensorSharding] = {}
        self._numbers: dict[TensorSharding, int] = {}
        self._local: dict[tuple[int, ...], Floats] = {}
        # The finished ones by their lists as digits of one number, ascending.
        self._strides: Ints = np.array([len(parts.lists) ** d for d in range(rank)], np.int64)
        digits = self.lists[: self.finished] @ self._strides
        self._order: Ints = np.argsort(digits)
        self._digits: Ints = digits[self._order]
        # All of them by the finished one and the parts of sums, as one number, ascending.
        keys = (self.rows(self.lists) << len(parts.parts)) + self.partial
        self._by_key: Ints = np.argsort(keys)
        self._keys: Ints = keys[self._by_key]

    def among(self, numbers: Ints) -> Rows:
        """Some of the placements."""
        lists, partial, mask, count = (each[numbers] for each in (self.lists, self.partial, self.mask, self.count))
        return Rows(self.parts, self.rank, numbers, lists, partial, mask, count, self.manual)

    def rows(self, lists: Ints) -> Ints:
        """The finished placements with these lists of dimensions, -1 if there is none."""
        if not self._digits.size:
            return np.full(len(lists), -1, np.int64)
        digits = lists @ self._strides
        found = np.minimum(np.searchsorted(self._digits, digits), len(self._digits) - 1)
        is_known = (self._digits[found] == digits) & (lists >= 0).all(axis=1)
        return np.where(is_known, self._order[found], -1)

    def with_sums(self, rows: Ints, partial: Ints) -> Ints:
        """The same placements, partial over these parts; -1 if there is none."""
        keys = (rows << len(self.parts.parts)) + partial
        found = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where((rows >= 0) & (self._keys[found] == keys), self._by_key[found], -1)

    def number(self, sharding: TensorSharding) -> int:
        """The number of a sharding's placement."""
        found = self._numbers.get(sharding)
        if found is None:
            row = tuple(self.parts.list_of(axes) for axes in sharding.dim_axes())
            found = self._number[row, self.parts.mask_of(sharding.unreduced)]
            self._numbers[sharding] = found
        return found

    def sharding(self, number: int) -> TensorSharding:
        """The closed sharding of a placement."""
        found = self._shardings.get(number)
        if found is None:
            dims = tuple(self.parts.axes[each] for each in self.lists[number])
            unreduced = self.parts.axes_of_mask(int(self.partial[number]))
            found = self._shardings[number] = self._form.with_axes(dims, unreduced)
        return found

    def is_even(self, shape: tuple[int, ...], numbers: Ints) -> Bools:
        """The placements with even shards."""
        found: Bools = (self.uneven_lists(shape, numbers) == 0).all(axis=-1)
        return found

    def uneven_lists(self, shape: tuple[int, ...], numbers: Ints) -> Ints:
        """The list of each dimension that it splits unevenly, 0 for the others."""
        lists: Ints = self.lists[numbers]
        return np.where(np.array(shape, np.int64) % self.parts.count[lists] != 0, lists, 0)

    def local(self, shape: tuple[int, ...], numbers: Ints) -> Floats:
        """The elements of a shard, including padding."""
        found = self._local.get(shape)
        if found is None:
            parts = -(-np.array(shape, np.int64) // self.parts.count[self.lists])
            found = self._local[shape] = np.prod(parts, axis=1, dtype=np.float64)
        return found[numbers]
