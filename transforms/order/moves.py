"""What it takes to bring a value from one device order to another: who sends its shard to whom."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.support.groups import Ids, replica_groups


class Moves:
    """Orders of the devices, each a list of the device at every mesh position; the mesh's own is the first."""

    def __init__(self, mesh: Mesh, orders: Sequence[tuple[int, ...]]) -> None:
        self.mesh = mesh
        self.orders = orders
        self._positions = [np.argsort(np.array(order)) for order in orders]
        self.pairs = functools.cache(self._pairs)
        self.axes = functools.cache(self._axes)

    def renaming(self, order: int) -> Ids:
        """By device of the mesh's own order: the one that is at its position in another."""
        return np.array(self.orders[order], np.int64)[self._positions[0]]

    def origin(self, order: int) -> Ids:
        """By device: the device of the mesh's own order whose part it has in another."""
        return np.array(self.orders[0], np.int64)[self._positions[order]]

    def changed(self, split: Axes, source: int, target: int) -> int:
        """How many devices need another shard of a value that is split over these axes, and copied along all others."""
        return int((self.pairs(split, source, target)[:, 0] != self.pairs(split, source, target)[:, 1]).sum())

    def _pairs(self, split: Axes, source: int, target: int) -> Ids:
        """Source and target partitions, `[devices, 2]`; who has its shard keeps it, copies are matched one to one."""
        shard = self._shards(split)
        have, need = shard[self._positions[source]], shard[self._positions[target]]
        kept = np.flatnonzero(have == need)
        moving = np.flatnonzero(have != need)
        senders = moving[np.argsort(have[moving], kind="stable")]
        receivers = moving[np.argsort(need[moving], kind="stable")]
        pairs = np.stack([np.concatenate([kept, senders]), np.concatenate([kept, receivers])], axis=1)
        return pairs[np.argsort(pairs[:, 0])]

    def _shards(self, split: Axes) -> Ids:
        """The number of the shard at each mesh position."""
        plain = Mesh(self.mesh.axes)
        found = np.empty(plain.size, np.int64)
        if split:
            found[replica_groups(plain, split)] = np.arange(size_of(split))
        else:
            found[:] = 0
        return found

    def _axes(self, split: Axes, source: int, target: int) -> Axes:
        """The mesh axes along which senders and receivers differ."""
        pairs = self._positions[0][self.pairs(split, source, target)]
        found = []
        for axis in self.mesh.all_axes():
            places = pairs // self.mesh.stride(axis) % axis.size
            if (places[:, 0] != places[:, 1]).any():
                found.append(axis)
        return tuple(found)
