"""The bytes that devices must receive, given the shardings of one argument and one result: see docs/least.md."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator

import numpy as np

from gspmd.dialect.axes import Axes
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.analysis.least.image import Image, Mixer
from gspmd.transforms.analysis.least.tiles import UNIT, Box, Ints, coordinate, count, held, lengths

_MAX_CUTS = 4  # dimensions of an argument that are summed, of which all choices are tried


@dataclasses.dataclass(frozen=True, slots=True)
class RequiredElements:
    """Elements that have to be sent so that a result is where it is wanted: `by_device` is what each receives.

    `sums` are those of all devices together where the devices along some axes, the key, each have a part of the sum.
    `width` are the bytes that each element takes.
    """

    result: int
    argument: int
    by_device: Ints
    sums: dict[Axes, float]
    width: float

    @property
    def most(self) -> float:
        """Bytes of all devices together."""
        return self.width * max(float(self.by_device.sum()), *self.sums.values(), 0.0)


def need_of(
    result: int, image: Image, source: tuple[Axes, ...], target: tuple[Axes, ...] | None, mesh: Mesh
) -> RequiredElements:
    """The part of an argument that a result needs, with the axes over which their dimensions are split.

    Without `target` the result may be anywhere, as long as each of its elements is somewhere.
    """
    has = held(image, image.source, source, mesh, more=True)
    if target is None:
        received = np.zeros(mesh.size, np.int64)
        wants = None
    else:
        wants = held(image, image.value, target, mesh, more=False)
        received = _received(image, has, wants, mesh)
    sums = dict(_sums(image, source, wants, mesh))
    return RequiredElements(result, image.argument, received, sums, image.width)


def _received(image: Image, has: Box, wants: Box, mesh: Mesh) -> Ints:
    """The rank, for each device, of what it wants by what it does not have."""
    wanted, both = lengths(wants, UNIT), lengths(wants, UNIT) * lengths(has, UNIT)
    for atom in image.shared:
        low, high = (pick(wants[atom][i], has[atom][i]) for i, pick in ((0, np.maximum), (1, np.minimum)))
        wanted, both = wanted * (wants[atom][1] - wants[atom][0]), both * np.maximum(high - low, 0)
    ranks = [_ranks(image, mixer, has, wants, mesh) for mixer in image.mixers]
    full = np.ones(mesh.size, np.int64)
    for whole, _ in ranks:
        full = full * whole
    lacking = np.zeros(mesh.size, np.int64)
    for index, (_, part) in enumerate(ranks):
        others = np.ones(mesh.size, np.int64)
        for other, (whole, _) in enumerate(ranks):
            others = others * whole if other != index else others
        lacking = np.maximum(lacking, part * others)
    return wanted * full - both * (full - lacking)


def _ranks(image: Image, mixer: Mixer, has: Box, wants: Box, mesh: Mesh) -> tuple[Ints, Ints]:
    """For the rows that each device wants, the rank of all columns, and of those that it does not have."""
    rows, columns = count(wants, mixer.rows, mesh.size), image.count(mixer.columns)
    missing = columns - count(has, mixer.columns, mesh.size)
    most = np.minimum(rows, mixer.rank)
    return np.minimum(most, columns), np.minimum(most, missing)


def _sums(image: Image, source: tuple[Axes, ...], wants: Box | None, mesh: Mesh) -> Iterator[tuple[Axes, float]]:
    """The elements sent to all devices together if those along some axes have one part of the summands each."""
    shared = set(image.shared)
    summed = [dim for dim, atoms in enumerate(image.source) if source[dim] and atoms and not shared.intersection(atoms)]
    for many in range(1, min(len(summed), _MAX_CUTS) + 1):
        for dims in itertools.combinations(summed[:_MAX_CUTS], many):
            cut = tuple(axes if dim in dims else () for dim, axes in enumerate(source))
            has = held(image, image.source, cut, mesh, more=True)
            over = tuple(axis for dim in dims for axis in source[dim])
            total = _sum(image, has, wants, coordinate(mesh, over), mesh)
            if total is not None:
                yield mesh.sorted(over), total


def _sum(image: Image, has: Box, wants: Box | None, part: Ints, mesh: Mesh) -> float | None:
    """A sum of `h` parts that `m` devices want takes `m + h - 2` elements; None where no sum has several parts."""
    columns = [count(has, mixer.columns, mesh.size) for mixer in image.mixers]
    there = np.ones(mesh.size, bool)
    for each in columns:
        there &= each > 0
    parts = len(np.unique(part[there]))
    if parts < 2:
        return None
    each_has = [min(int(c[there].min()), mixer.rank) for c, mixer in zip(columns, image.mixers, strict=True)]
    rows = [image.count(mixer.rows) if mixer.rank > 1 else 1 for mixer in image.mixers]
    chosen = [min(pair) for pair in zip(each_has, rows, strict=True)]
    elements = image.count(image.shared) * math.prod(chosen)
    if wants is None:
        return float(elements * (parts - 1))
    wanted = count(wants, (UNIT, *image.shared), mesh.size).astype(float)
    for mixer, most, all_rows in zip(image.mixers, chosen, rows, strict=True):
        held_rows = count(wants, mixer.rows, mesh.size)
        wanted *= held_rows * (most / all_rows) if mixer.rank > 1 else np.minimum(held_rows, 1)
    return float(wanted.sum()) + elements * (parts - 2)
