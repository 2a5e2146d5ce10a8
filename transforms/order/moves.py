"""The senders and receivers that bring a value from one device order to another."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.ir.groups import Ids, replica_groups


class DeviceOrders:
    """Device orders, each a list of the device at every mesh position; that of the mesh is the first."""

    def __init__(self, mesh: Mesh, orders: Sequence[tuple[int, ...]]) -> None:
        self.mesh = mesh
        self.orders = orders
        self._positions = [np.argsort(np.array(order)) for order in orders]
        self.pairs = functools.cache(self._pairs)

    def renaming(self, order: int) -> Ids:
        """For each device of the mesh order: the device at its position in another order."""
        return np.array(self.orders[order], np.int64)[self._positions[0]]

    def origin(self, order: int) -> Ids:
        """For each device: the device of the mesh order whose shard it has in another order."""
        return np.array(self.orders[0], np.int64)[self._positions[order]]

    def changed(self, split: Axes, source: int, target: int) -> int:
        """The number of devices that need another shard of a value that is split over these axes."""
        return moving(self.pairs(split, source, target))

    def permuted(self, split: Axes, source: int, target: int, senders: Ids) -> Ids:
        """As `pairs`, for a value that is also permuted.

        `senders`: for each device of the mesh order, the device whose shard it gets.
        """
        shard = self._shards(split)[self._positions[0]]
        return matched(shard[self.origin(source)], shard[senders][self.origin(target)])

    def axes(self, pairs: Ids) -> Axes:
        """The mesh axes along which senders and receivers differ."""
        places = self._positions[0][pairs]
        found = []
        for axis in self.mesh.all_axes():
            along = places // self.mesh.stride(axis) % axis.size
            if (along[:, 0] != along[:, 1]).any():
                found.append(axis)
        return tuple(found)

    def _pairs(self, split: Axes, source: int, target: int) -> Ids:
        shard = self._shards(split)
        return matched(shard[self._positions[source]], shard[self._positions[target]])

    def _shards(self, split: Axes) -> Ids:
        """The number of the shard at each mesh position."""
        plain = Mesh(self.mesh.axes)
        found = np.zeros(plain.size, np.int64)
        if split:
            found[replica_groups(plain, split)] = np.arange(size_of(split))
        return found


def matched(have: Ids, need: Ids) -> Ids:
    """Source and target partitions, `[devices, 2]`, from the shards that devices have and need.

    A device that has its shard keeps it; replicas are matched one to one.
    """
    kept = np.flatnonzero(have == need)
    rest = np.flatnonzero(have != need)
    senders = rest[np.argsort(have[rest], kind="stable")]
    receivers = rest[np.argsort(need[rest], kind="stable")]
    pairs = np.stack([np.concatenate([kept, senders]), np.concatenate([kept, receivers])], axis=1)
    return pairs[np.argsort(pairs[:, 0])]


def moving(pairs: Ids) -> int:
    """The number of pairs with different devices."""
    return int((pairs[:, 0] != pairs[:, 1]).sum())
