"""The single steps between the placements of a rank: their kinds, the parts that they run over, and what they send.

Most follow from the lists of parts alone. If shards do not nest, as those of 50 elements over four devices and over
two, a slice is impossible. A gather or an exchange of axes sends more, to move elements to the boundaries of even
tiles. A direct exchange sends what its plan says.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.exchange.blocks import MAX_BLOCKS, least_sent
from gspmd.transforms.exchange.direct import direct_exchange
from gspmd.transforms.exchange.halo import realignment, realignments
from gspmd.transforms.exchange.intervals import MAX_ROUNDS, Exchange, cheapest, nests
from gspmd.transforms.paths.placements import AxisParts, Bools, Floats, Ints, Rows
from gspmd.transforms.paths.prices import MAX_PLANNED_DEVICES, MAX_TILES

KINDS = ("", "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "collective_permute")
SLICE, GATHER, SCATTER, REDUCE, EXCHANGE, PERMUTE = range(len(KINDS))  # a slice sends nothing
NO_KIND = -1


class Realignments(NamedTuple):
    """What gathers and exchanges send in addition, from the placements `before` to `after`, which do not nest.

    `sent` is relative to the shard after it, over the parts of `mask`, in `messages` of `dims` dimensions.
    """

    before: Ints
    after: Ints
    mask: Ints
    sent: Floats
    messages: Ints
    dims: Ints


class TiledSteps(NamedTuple):
    """The steps of values whose dimensions have these sizes.

    `is_nested` are the steps of a kind whose shards nest, and `realigned` those that move elements after it.
    `is_direct` are direct exchanges, in so many `messages`, and what they send is relative to the shard after them.
    `shares` are the sizes of shards in each placement, relative to the value, by dimension.
    """

    is_nested: Bools
    realigned: Realignments
    is_direct: Bools
    messages: Ints
    sent: Floats
    shares: Floats

    def has(self, before: int, after: int) -> bool:
        """Whether there is a step between two placements."""
        is_moved = (self.realigned.before == before) & (self.realigned.after == after)
        return bool(self.is_nested[before, after] or self.is_direct[before, after] or is_moved.any())


class Steps:
    """The single steps between placements: of which kind, over which parts, among how many devices.

    Direct exchanges run over the parts `changed`, and `is_near` are those between neighbors. `in_several` are the steps
    that change several dimensions. The `finished` placements, which are not partial, come first.
    """

    def __init__(self, table: Rows) -> None:
        parts, lists = table.parts, table.lists
        length = np.array([len(each) for each in parts.lists])
        # Whether the second of two lists is a prefix of the first.
        begins = parts.prefix & (length[:, None] >= length[None, :])
        before, after = lists[:, None, :], lists[None, :, :]
        grown, shrunk, same = begins[after, before], begins[before, after], before == after
        mask_a, mask_b = table.mask[:, None], table.mask[None, :]
        sums_a, sums_b = table.partial[:, None], table.partial[None, :]
        is_settled, is_taken = sums_a == sums_b, (sums_b & ~sums_a == 0) & (sums_a != sums_b)
        count, changes = parts.count[lists], (~same).sum(axis=2)
        nested = (grown | shrunk).all(axis=2)
        is_alike = (count[:, None, :] == count[None, :, :]).all(axis=2)
        is_scattered = grown.all(axis=2) & (changes == 1) & (mask_b & ~mask_a == sums_a & ~sums_b)
        none, moved = np.zeros((len(lists), len(lists)), np.int64), _moved(table)
        kind, mask = np.full(none.shape, NO_KIND, np.int8), none
        for number, is_step, over in (
            (PERMUTE, is_alike & is_settled, moved),
            (EXCHANGE, nested & (mask_a == mask_b) & is_settled, moved),
            (SLICE, grown.all(axis=2) & is_settled, none),
            (GATHER, shrunk.all(axis=2) & is_settled, mask_a & ~mask_b),
            (REDUCE, same.all(axis=2) & is_taken, sums_a & ~sums_b),
            (SCATTER, is_scattered & is_taken, sums_a & ~sums_b),
        ):
            kind, mask = np.where(is_step, np.int8(number), kind), np.where(is_step, over, mask)
        # Graphs are kept for later programs, so arrays of pairs are small.
        self.kind, self.mask = kind, mask.astype(np.int32)
        self.devices = parts.size_of_mask[mask].astype(np.int32)
        self._changes, self.in_several = changes.astype(np.int8), changes > 1
        changed = np.bitwise_or.reduce(np.where(same, 0, parts.mask[before] | parts.mask[after]), axis=2)
        self.changed = changed.astype(np.int32)
        self.is_near = nested & ~self.in_several
        self._parts, self._lists, self._held = parts, lists, table.partial | table.manual
        self.finished = int(np.count_nonzero(table.partial == 0))
        self._same, self._nested, self._is_settled = same, nested, is_settled
        self._growth = np.where(grown, count[None, :, :] // count[:, None, :], 1).astype(np.int32)
        names = [sum(1 << n for n, other in enumerate(parts.parts) if other.name == part.name) for part in parts.parts]
        of_names = np.array([sum({names[number] for number in each}) for each in parts.lists], np.int64)
        over = np.bitwise_or.reduce(np.where(same, 0, of_names[before] | of_names[after]), axis=2)
        self._devices = parts.size_of_mask[over & ~self._held[:, None]].astype(np.int32)
        self._number_counts()

    def _number_counts(self) -> None:
        """Find the different counts of shards of all dimensions, and by placement and by pair, which it has."""
        self._counts, self._tile = np.unique(self._parts.count[self._lists], axis=0, return_inverse=True)
        self._pair = (self._tile[:, None] * len(self._counts) + self._tile).astype(np.int32)
        self._tiled: dict[tuple[int, ...], TiledSteps] = {}

    def among(self, positions: Ints) -> Steps:
        """The steps between some of the placements, in ascending order."""
        found, pairs = copy.copy(self), np.ix_(positions, positions)
        for name, array in vars(self).items():
            if isinstance(array, np.ndarray) and array.shape[:2] == self.kind.shape:
                setattr(found, name, array[pairs])
        found._lists, found._held = self._lists[positions], self._held[positions]
        found.finished = int(np.count_nonzero(positions < self.finished))
        found._number_counts()
        return found

    def padded(self, shard: Ints | Floats, sizes: tuple[int, ...]) -> Floats:
        """The elements of each shard `[n, d]`, padded to a multiple of the shard after the step where it gets finer.

        Dimensions that are split evenly have no padding; `sizes` are those of the others, as from `sizes`.
        """
        found = shard.prod(axis=1, dtype=np.float64)[:, None]
        for dim in np.flatnonzero(sizes).tolist():
            before, after = shard[:, dim, None], shard[None, :, dim]
            found = found * np.where(self._growth[:, :, dim] > 1, after * self._growth[:, :, dim] / before, 1.0)
        return np.broadcast_to(found, self.kind.shape)

    def sizes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The sizes of the dimensions that some placement splits unevenly, 0 for the others."""
        is_uneven = (np.array(shape, np.int64) % self._counts != 0).any(axis=0)
        return tuple(np.where(is_uneven, shape, 0).tolist())

    def tiled(self, sizes: tuple[int, ...]) -> TiledSteps:
        """The steps for these sizes of dimensions, as from `sizes`."""
        found = self._tiled.get(sizes)
        if found is None:
            found = self._tiled[sizes] = self._of_sizes(sizes)
        return found

    def _of_sizes(self, sizes: tuple[int, ...]) -> TiledSteps:
        shape = tuple(n or math.lcm(*counts) for n, counts in zip(sizes, self._counts.T.tolist(), strict=True))
        tiles = _between_counts(shape, self._counts)
        number: Ints = tiles.crossed.sum(axis=2).take(self._pair)
        pieces, kept = tiles.pieces.take(self._pair), tiles.kept.take(self._pair)
        messages = pieces - np.where(self._nested & (number == 0), kept, 0)  # else some device keeps nothing
        if (tiles.turns > 1).any():  # shards without elements send nothing
            turns = np.where(self._same, 1.0, tiles.turns[self._tile][:, None, :]).prod(axis=2)
            messages = np.ceil(messages * turns).astype(np.int64)
        sent = messages * tiles.part.take(self._pair)
        is_planned = (np.maximum(pieces, messages) <= MAX_ROUNDS) & (self._devices * pieces <= MAX_BLOCKS)
        # Along one dimension, blocks of the same sender are one message.
        rows, columns = np.nonzero((number == 1) & self._is_settled & (self._changes == 1))
        dim = _first(~self._same[rows, columns])
        asked = dim, self._lists[rows, dim], self._lists[columns, dim], self._held[rows]
        for (d, before, after, held), at in _groups(*asked):
            key = shape[d], before, after, held
            if key not in self._parts.direct_exchanges:
                self._parts.direct_exchanges[key] = _of_one_dimension(self._parts, *key)
            found, pairs = self._parts.direct_exchanges[key], (rows[at], columns[at])
            is_planned[pairs] = found is not None
            messages[pairs], sent[pairs] = found or (0, 0.0)
        return TiledSteps(
            (self.kind != NO_KIND) & (number == 0),
            self._realigned(shape, tiles.crossed, number),
            is_planned & self._is_settled & ((self.kind == NO_KIND) | (number > 0)),
            messages,
            sent,
            tiles.shares[self._tile],
        )

    def _realigned(self, shape: tuple[int, ...], crossed: Bools, number: Ints) -> Realignments:
        """The gathers that cross tiles in one dimension, and the exchanges of axes between two dimensions that do."""
        count, lists, masks = self._parts.count, self._lists, self._parts.mask
        found: list[tuple[Ints, Ints]] = []
        sent: list[tuple[int, float, int, int]] = []

        def add(rows: Ints, columns: Ints, mask: int, exchanges: list[tuple[Exchange, int]]) -> None:
            """Pairs of placements with exchanges of dimensions, of which a device has so many elements afterwards."""
            ways = [(cheapest(exchange), size) for exchange, size in exchanges]
            sending = [way.messages for way, _ in ways if way.sent]
            found.append((rows, columns))
            sent.append((mask, sum((way.sent / size for way, size in ways), 0.0), sum(sending), len(sending)))

        rows, columns = np.nonzero((self.kind == GATHER) & (number == 1))
        dim = _first(crossed[self._tile[rows], self._tile[columns]])
        for (d, before, after), at in _groups(dim, lists[rows, dim], lists[columns, dim]):
            many, few = int(count[before]), int(count[after])
            if few <= MAX_TILES:
                exchange = realignment(shape[d], many, many // few)
                add(rows[at], columns[at], int(masks[after]), [(exchange, -(-shape[d] // few))])
        rows, columns = np.nonzero((self.kind == EXCHANGE) & (number > 0) & (self._changes == 2))
        is_finer = count[lists[columns]] > count[lists[rows]]
        source, target = _first(~self._same[rows, columns] & ~is_finer), _first(is_finer)
        ends = (each[at, dim] for dim in (source, target) for each, at in ((lists, rows), (lists, columns)))
        for (s, t, left, kept, joined, grown), at in _groups(source, target, *ends):
            leaves, stays, joins, has = (self._parts.lists[each] for each in (left, kept, joined, grown))
            if (*stays, *has[len(joins) :]) == leaves and max(count[left], count[grown]) <= MAX_TILES:
                counts = int(count[left]), int(count[joined])
                exchanges = realignments((shape[s], shape[t]), counts, int(count[grown]) // counts[1])
                shards = (-(-shape[d] // int(count[each])) for d, each in ((s, kept), (t, grown)))
                add(rows[at], columns[at], int(masks[left] | masks[joined]), list(zip(exchanges, shards, strict=True)))
        none = np.zeros(0, np.int64)
        both = [np.concatenate([none, *(pair[end] for pair in found)]) for end in (0, 1)]
        of_pair = np.repeat(np.arange(len(found)), [len(rows) for rows, _ in found])
        values = np.array(sent, np.float64).reshape(-1, 4)[of_pair]
        mask, messages, dims = (values[:, column].astype(np.int64) for column in (0, 2, 3))
        return Realignments(both[0], both[1], mask, values[:, 1], messages, dims)


def _first(marked: Bools) -> Ints:
    """The first marked dimension in each row."""
    return marked.argmax(axis=1) if len(marked) else np.zeros(0, np.int64)


def _groups(*columns: Ints) -> Iterator[tuple[list[int], Ints]]:
    """The different rows of a table with these columns, and where each is."""
    if len(columns[0]):
        different, number = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        order = np.argsort(number, kind="stable")
        starts = np.searchsorted(number[order], np.arange(1, len(different)))
        yield from zip(different.tolist(), np.split(order, starts), strict=True)


class _Tiles(NamedTuple):
    """Direct exchanges of blocks, by the counts of shards before and after it.

    `crossed[a, b, d]` says whether shards of a dimension on neither side are unions of those on the other side. A shard
    after it has so many `pieces`, each a `part` of it. If lists nest, a device has `kept` of these. By counts alone,
    `shares[a, d]` is the size of a shard relative to the dimension, and `turns` the shards for each one with elements.
    """

    crossed: Bools
    pieces: Ints
    kept: Ints
    part: Floats
    shares: Floats
    turns: Floats


def _between_counts(shape: tuple[int, ...], counts: Ints) -> _Tiles:
    size, many = np.array(shape, np.int64), len(counts)
    shard = -(-size // counts)
    turns = counts / -(-size // shard)
    before, after = shard[:, None, :], shard[None, :, :]
    is_whole = np.minimum(counts[:, None, :], counts[None, :, :]) == 1
    block = np.where(is_whole, np.minimum(before, after), np.gcd(before, after))
    pieces = np.minimum(-(-after // block), MAX_ROUNDS + 1)  # more are not planned
    # If a dimension gets coarser and some shards have no elements, their devices keep nothing.
    is_idle = (turns > 1)[:, None, :] & (counts[:, None, :] > counts[None, :, :])
    kept = np.where(is_idle, 0, np.minimum(pieces, -(-before // block)))
    crossed = np.zeros((many, many, len(shape)), bool)
    for dim, n in enumerate(shape):
        of, at = np.unique(counts[:, dim], return_inverse=True)
        nest = np.array([[nests(n, min(a, b), max(a, b)) for b in of.tolist()] for a in of.tolist()])
        crossed[:, :, dim] = ~nest[np.ix_(at, at)]
    part = (block / after).prod(axis=2)
    return _Tiles(crossed, pieces.prod(axis=2), kept.prod(axis=2), part, shard / size, turns)


def _of_one_dimension(
    parts: AxisParts, size: int, list_before: int, list_after: int, mask_held: int
) -> tuple[int, float] | None:
    """The messages of a direct exchange of one dimension, and what it sends relative to the shard after it.

    None if it is not planned, or gathers the whole dimension.
    """
    mesh, before, after = parts.mesh, parts.axes[list_before], parts.axes[list_after]
    held = parts.axes_of_mask(mask_held)
    axes = tuple(dict.fromkeys((*before, *after)))
    if all(map(mesh.is_full, axes)):  # which axes they are does not matter
        mesh = Mesh(tuple((str(number), axis.size) for number, axis in enumerate(axes)))
        before, after = (tuple(mesh.axis(str(axes.index(axis))) for axis in listed) for listed in (before, after))
        held = ()
    return _planned(mesh, size, before, after, held)


@functools.lru_cache(maxsize=4096)
def _planned(mesh: Mesh, size: int, before: Axes, after: Axes, held: Axes) -> tuple[int, float] | None:
    asked = mesh, (size,), (before,), (after,), held
    if least_sent(*asked) is None and size_of((*before, *after)) > MAX_PLANNED_DEVICES:
        return None
    found = direct_exchange(*asked)
    return None if found is None or found.gathered else (found.messages, found.sent / -(-size // size_of(after)))


def _moved(table: Rows) -> Ints:
    """The parts whose position differs between two placements, as bits."""
    most = len(table.parts.parts)
    found = np.zeros((len(table.lists), len(table.lists)), np.int64)
    index = np.full((len(table.parts.lists), most), -1, np.int64)
    for number, each in enumerate(table.parts.lists):
        index[number, list(each)] = np.arange(len(each))
    for part in range(most):
        place = (index[table.lists, part] + 1) @ (most + 1) ** np.arange(table.rank)
        found |= np.where(place[:, None] != place[None, :], 1 << part, 0)
    return found
