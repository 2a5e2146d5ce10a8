"""Devices as digits, and the sources and members of collectives."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from gspmd.dialect.axes import Axes
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.primes import prime_factors
from gspmd.verification.index_maps import IndexMap, Integers, Label, counted, digit, integer_map


class DeviceDigits:
    """The devices of a mesh, by the digits of their positions in it."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.radices = tuple(p for _, size in mesh.axes for p in _primes(size))
        self.count = mesh.size
        self.ids = np.array(mesh.device_ids or range(mesh.size), np.int64)
        self._positions = np.empty_like(self.ids)
        self._positions[self.ids] = np.arange(self.count)

    @property
    def digits(self) -> list[Label]:
        return [digit(i) for i in range(len(self.radices))]

    def by_position(self, table: Integers) -> IndexMap:
        """A map of one integer for each position."""
        return integer_map(self.digits, table.reshape(self.radices))

    @functools.cached_property
    def partition_id(self) -> IndexMap:
        return self.by_position(self.ids)

    def shard(self, mesh: Mesh, axes: Axes) -> IndexMap:
        """The index of the shard that each device has over these axes; the mesh may have its own device order."""
        own = np.array(mesh.device_ids or range(mesh.size), np.int64)
        position = np.empty_like(own)
        position[own] = np.arange(mesh.size)
        there = position[self.ids]
        index = np.zeros_like(there)
        for axis in axes:
            index = index * axis.size + there // mesh.stride(axis) % axis.size
        return self.by_position(index)

    def position(self, at: dict[Label, int]) -> int:
        """A position with these digits, all others 0."""
        index = 0
        for i, radix in enumerate(self.radices):
            index = index * radix + at.get(digit(i), 0)
        return index

    def _digits_of(self, positions: Integers) -> list[Integers]:
        return list(np.unravel_index(positions, self.radices)) if self.radices else []

    # ---- collectives ----

    def members(self, groups: Integers, label: Label) -> dict[Label, IndexMap]:
        """For each digit, its value at member number `label` of the device's group; groups are [groups, members]."""
        places = self._positions[groups]
        first, offsets = places[:, :1], places[0] - places[0, 0]
        moving = [i for i, table in enumerate(self._digits_of(np.abs(offsets))) if table.any()]
        aligned = bool((places - first == offsets).all()) and not any(self._digits_of(first)[i].any() for i in moving)
        if aligned and int(np.prod([self.radices[i] for i in moving], dtype=np.int64)) == len(offsets):
            tables = self._digits_of(offsets)
            return {digit(i): integer_map([label], tables[i]) for i in moving}
        of_device = np.zeros((self.count, places.shape[1]), np.int64)
        of_device[places] = places[:, None, :]
        return self._moves(of_device, [*self.digits, label], (*self.radices, places.shape[1]))

    def rank(self, groups: Integers) -> IndexMap:
        """The index of every device within its group."""
        ranks = np.zeros(self.count, np.int64)
        ranks[self._positions[groups]] = np.arange(groups.shape[1])
        return self.by_position(ranks)

    def sources(self, pairs: Integers) -> tuple[dict[Label, IndexMap], IndexMap]:
        """The source of every device in a permute with pairs [pairs, 2], and a mask of the devices that receive."""
        source = np.arange(self.count)
        targets = self._positions[pairs[:, 1]]
        source[targets] = self._positions[pairs[:, 0]]
        reached = np.zeros(self.count, np.int64)
        reached[targets] = 1
        return self._moves(source, self.digits, self.radices), self.by_position(reached)

    def _moves(self, positions: Integers, labels: Sequence[Label], shape: Sequence[int]) -> dict[Label, IndexMap]:
        found = {}
        for i, table in enumerate(self._digits_of(positions)):
            place = integer_map(labels, table.reshape(shape))
            if place is not counted(digit(i), self.radices[i]):
                found[digit(i)] = place
        return found


def _primes(size: int) -> list[int]:
    return sorted(prime_factors(size))
