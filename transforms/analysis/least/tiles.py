"""The elements of a value on every device, as a range of each atom of an image, for all devices at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gspmd.dialect.axes import Axes
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.analysis.least.image import Dims, Image

Ints = npt.NDArray[np.int64]
Box = dict[int, tuple[Ints, Ints]]
"""The range that each device holds of an atom: where it begins, and where it ends.

`UNIT` stands for all dimensions of one element, of which a device with another shard than the first holds nothing.
"""

UNIT = -1


def coordinate(mesh: Mesh, axes: Axes) -> Ints:
    """The number of the shard that each device has of a dimension that is split over axes."""
    position = np.arange(mesh.size)
    found = np.zeros(mesh.size, np.int64)
    for axis in axes:
        found = found * axis.size + position // mesh.stride(axis) % axis.size
    return found


def held(image: Image, dims: Dims, axes: tuple[Axes, ...], mesh: Mesh, more: bool) -> Box:
    """The tiles of devices in the atoms of a value's or argument's dimensions, each of which is split over axes.

    A shard that is no range of every atom of its dimension counts as all of it if `more`, or else as nothing.
    """
    none = np.zeros(mesh.size, np.int64)
    box: Box = {UNIT: (none, none + 1)}
    for atoms, over in zip(dims, axes, strict=True):
        size = image.count(atoms)
        shards = int(np.prod([axis.size for axis in over], dtype=np.int64))
        local = -(-size // shards)
        low = np.minimum(coordinate(mesh, over) * local, size)
        if size == 1:
            box[UNIT] = none, box[UNIT][1] * (low < size)
        _split(image, atoms, low, np.minimum(low + local, size), local, more, box)
    return box


def _split(image: Image, atoms: tuple[int, ...], low: Ints, high: Ints, local: int, more: bool, box: Box) -> None:
    """Take ranges of a dimension, `local` long but for the last ones, apart into ranges of its atoms."""
    if not atoms:
        return
    (first, *rest) = atoms
    inner, none = image.count(rest), np.zeros_like(low)
    if local % inner == 0:
        box[first] = low // inner, high // inner
        for atom in rest:
            box[atom] = none, np.full_like(low, image.sizes[atom])
    elif inner % local == 0:
        begin = low // inner
        box[first] = begin, np.where(high > low, begin + 1, begin)
        _split(image, tuple(rest), low - begin * inner, high - begin * inner, local, more, box)
    else:
        for atom in atoms:
            box[atom] = none, (np.full_like(low, image.sizes[atom]) if more else none)


def lengths(box: Box, atom: int) -> Ints:
    low, high = box[atom]
    return high - low


def count(box: Box, atoms: tuple[int, ...], devices: int) -> Ints:
    """The elements that each device holds of atoms together."""
    found = np.ones(devices, np.int64)
    for atom in atoms:
        found = found * lengths(box, atom)
    return found
