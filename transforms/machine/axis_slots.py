"""The placement of mesh axes on a torus for a given device order."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.primes import divisors
from gspmd.transforms.machine.device_order import Order, order_text
from gspmd.transforms.machine.torus import Placement, Slot, Torus

Coordinates = np.ndarray[Any, np.dtype[np.int64]]  # [device, dimension of a torus]


def order_of(coordinates: Coordinates, sizes: Sequence[int]) -> Order:
    """The device order for known positions, in the digits of a mesh of these sizes."""
    return tuple(slot for slots in slots_of_axes(coordinates, sizes) for slot in slots)


@functools.lru_cache(maxsize=256)
def ordered_placement(mesh: Mesh, torus: Torus, order: Order) -> Placement:
    """The placement of the axes of a mesh for a device order.

    Errors: UsageError for a mesh of another size.
    """
    count = math.prod(slot.size for slot in order)
    if mesh.size != count:
        raise UsageError(
            f"the target has the order of {count} devices ({order_text(order, torus)}), the mesh has {mesh.size}",
            hint="leave out the part after '@', or give it for as many devices",
            code=Code.TOPOLOGY,
        )
    places = _places(order, len(torus.lengths))
    if mesh.device_ids:
        places = places[np.array(mesh.device_ids)]
    slots = slots_of_axes(places, [size for _, size in mesh.axes])
    return Placement(torus, tuple((name, each) for (name, _), each in zip(mesh.axes, slots, strict=True)))


def _places(order: Order, dims: int) -> Coordinates:
    """The coordinates of every device of an order."""
    found = np.zeros((1, dims), np.int64)
    for slot in order:
        steps = np.zeros((slot.size, dims), np.int64)
        steps[:, slot.dim] = np.arange(slot.size) * slot.stride
        found = (found[:, None, :] + steps[None, :, :]).reshape(-1, dims)
    return found


def slots_of_axes(coordinates: Coordinates, sizes: Sequence[int]) -> list[tuple[Slot, ...]]:
    """For each axis of a mesh, its slots along the dimensions, the most major first.

    `coordinates` are those of the devices in the order of the mesh. Libraries place axes around rings: only the set of
    devices along an axis matters, so a part of it may have different directions. If it crosses several dimensions
    irregularly, it gets the rest of these.
    """
    grid = coordinates.reshape(*sizes, coordinates.shape[-1])
    found = [
        [*_digits(np.moveaxis(grid, axis, 0).reshape(size, -1, grid.shape[-1]))] for axis, size in enumerate(sizes)
    ]
    left = _UnusedPositions.of(coordinates, [digit for digits in found for digit in digits if isinstance(digit, Slot)])
    return [tuple(itertools.chain.from_iterable(map(left.slots_of, reversed(digits)))) for digits in found]


def _digits(along: Coordinates) -> Iterator[Slot | int]:
    """The digits of one axis, the most minor first: their slots, or their number if irregular.

    `along` is [position, position along other axes, dimension].
    """
    while len(along) > 1:
        slot = _last_digit(along)
        if slot is not None:
            yield slot
            along = _corners(along, slot.size)
            continue
        size = next(n for n in divisors(len(along))[1:] if n == len(along) or _last_digit(_corners(along, n)))
        yield size
        along = _corners(along, size)


def _corners(along: Coordinates, size: int) -> Coordinates:
    """The starts of blocks of so many positions in every dimension."""
    return np.asarray(along.reshape(-1, size, *along.shape[1:]).min(axis=1), np.int64)


def _last_digit(along: Coordinates) -> Slot | None:
    """The largest part whose positions are equidistant in one dimension everywhere; None if there is none."""
    for size in reversed(divisors(len(along))[1:]):
        blocks = along.reshape(-1, size, *along.shape[1:])
        steps = blocks[:, 1] - blocks[:, 0]
        apart = np.abs(steps)
        changed = np.flatnonzero(apart[0, 0])
        if len(changed) != 1 or (apart != apart[0, 0]).any():
            continue
        if (blocks == blocks[:, :1] + np.arange(size).reshape(1, size, 1, 1) * steps[:, None]).all():
            return Slot(int(changed[0]), size, int(apart[0, 0, changed[0]]))
    return None


@dataclasses.dataclass(slots=True)
class _UnusedPositions:
    """The unused positions in each dimension, and their distance."""

    counts: list[int]
    strides: list[int]

    @staticmethod
    def of(coordinates: Coordinates, taken: Sequence[Slot]) -> _UnusedPositions:
        counts, strides = [len({*column.tolist()}) for column in coordinates.T], []
        for dim, count in enumerate(counts):
            used = math.prod(slot.size for slot in taken if slot.dim == dim)
            counts[dim] = max(1, count // used)
            strides.append(used)
        return _UnusedPositions(counts, strides)

    def slots_of(self, digit: Slot | int) -> Iterator[Slot]:
        """The slots of a digit; irregular positions take the rest, in as many dimensions as needed."""
        if isinstance(digit, Slot):
            yield digit
            return
        size = digit
        for dim in range(len(self.counts)):
            part = math.gcd(size, self.counts[dim])
            if part > 1:
                yield self._slot(dim, part)
                size //= part
        if size > 1:  # of no box
            yield self._slot(max(range(len(self.counts)), key=self.counts.__getitem__), size)

    def _slot(self, dim: int, size: int) -> Slot:
        slot = Slot(dim, size, self.strides[dim])
        self.counts[dim], self.strides[dim] = max(1, self.counts[dim] // size), self.strides[dim] * size
        return slot
