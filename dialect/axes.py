"""Mesh axes and their parts, and the algebra of ordered axis lists.

An axis of size n may be factored row-major as `pre x size x rest`; the middle factor is the
sub-axis `"x":(pre)size`. A full axis is the sub-axis with `pre == 1` and `size == n`, so one value
covers both. A list of axes splits a dimension into the product of their sizes, first axis most
major. Lists are canonical: adjacent parts that form one larger part are merged.

Source: Shardy's sub-axis notation; the partial tiling of arXiv 2105.04663, section 3.1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self


class _AxisPart(NamedTuple):
    name: str
    pre: int
    size: int


class Axis(_AxisPart):
    """The part of mesh axis `name` between the products `pre` and `pre * size`; ordered by these three.

    A tuple, because axes key the memo tables of every stage.
    """

    __slots__ = ()

    def __new__(cls, name: str, pre: int, size: int) -> Self:
        if pre < 1 or size < 1:
            raise ValueError(f'axis "{name}":({pre}){size} needs sizes of at least 1')
        return super().__new__(cls, name, pre, size)

    @property
    def end(self) -> int:
        """The product of this part and all more major ones: `pre * size`."""
        return self.pre * self.size

    def overlaps(self, other: Axis) -> bool:
        """Whether the two parts overlap."""
        return self.name == other.name and self.pre < other.end and other.pre < self.end

    def nests(self, other: Axis) -> bool:
        """Whether one factoring of the axis has both parts as (products of) its factors.

        `:(1)4` and `:(6)2` of an axis of 12 share no coordinate, but no factoring has cuts at 4 and 6.
        """
        if self.name != other.name:
            return True
        cuts = sorted((self.pre, self.end, other.pre, other.end))
        return all(b % a == 0 for a, b in itertools.pairwise(cuts))

    def split(self, size: int) -> tuple[Axis, Axis]:
        """The most major part of `size`, and the rest; `size` must properly divide this part."""
        return Axis(self.name, self.pre, size), Axis(self.name, self.pre * size, self.size // size)


Axes = tuple[Axis, ...]


def size_of(axes: Iterable[Axis]) -> int:
    """The number of shards that the list makes."""
    count = 1
    for axis in axes:
        count *= axis.size
    return count


def canonical(axes: Iterable[Axis]) -> Axes:
    """The list without parts of size 1, and with mergeable adjacent parts merged."""
    merged: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        if merged and merged[-1].name == axis.name and merged[-1].end == axis.pre:
            merged[-1] = Axis(axis.name, merged[-1].pre, merged[-1].size * axis.size)
        else:
            merged.append(axis)
    return tuple(merged)


def overlap(left: Iterable[Axis], right: Sequence[Axis]) -> bool:
    """Whether any part of `left` is also used by `right`."""
    return any(a.overlaps(b) for a in left for b in right)


def is_within(part: Axis, axes: Iterable[Axis]) -> bool:
    """Whether one of the axes contains the whole part."""
    return any(part.name == axis.name and axis.pre <= part.pre and part.end <= axis.end for axis in axes)


def common_prefix(left: Sequence[Axis], right: Sequence[Axis]) -> Axes:
    """The longest list of major parts that both lists begin with."""
    taken: list[Axis] = []
    for a, b in zip(left, right, strict=False):
        if a == b:
            taken.append(a)
            continue
        if a.name == b.name and a.pre == b.pre:
            size = math.gcd(a.size, b.size)
            if size > 1 and size in (a.size, b.size):
                taken.append(Axis(a.name, a.pre, size))
        break
    return tuple(taken)


def starts_with(axes: Sequence[Axis], prefix: Sequence[Axis]) -> bool:
    """Whether `prefix` is a major prefix of `axes`."""
    return tuple(axes[: len(prefix)]) == tuple(prefix) or common_prefix(axes, prefix) == tuple(prefix)


def remove_prefix(axes: Sequence[Axis], prefix: Sequence[Axis]) -> Axes:
    """The rest of `axes` after its major prefix `prefix`."""
    count = len(prefix)
    if not count:
        return tuple(axes)
    last, cut = axes[count - 1], prefix[-1]
    if last == cut:
        return tuple(axes[count:])
    return (Axis(last.name, cut.end, last.size // cut.size), *axes[count:])


def take(axes: Sequence[Axis], size: int) -> tuple[Axes, Axes]:
    """Split a list at a number of shards: the longest prefix whose size divides `size`, and the rest.

    An axis that is too large contributes the sub-axis that still fits.
    """
    taken: list[Axis] = []
    for index, axis in enumerate(axes):
        part = math.gcd(size, axis.size)
        if part == axis.size:
            taken.append(axis)
            size //= part
            continue
        if part > 1:
            major, minor = axis.split(part)
            return (*taken, major), (minor, *axes[index + 1 :])
        return tuple(taken), tuple(axes[index:])
    return tuple(taken), ()


def without(axes: Iterable[Axis], used: Sequence[Axis]) -> Axes:
    """The parts of `axes` that `used` does not cover, in order, canonical. Errors: as `subtract`."""
    return canonical(piece for axis in axes for piece in subtract(axis, used))


def subtract(axis: Axis, used: Iterable[Axis]) -> Axes:
    """The parts of one axis that none of `used` covers, major to minor.

    Raises ValueError if the rest is not a part of the axis, as for `:(1)6` without `:(1)4`.
    """
    start, pieces = axis.pre, []

    def keep_until(end: int) -> None:
        if end % start:
            raise ValueError(f'"{axis.name}":({axis.pre}){axis.size} cannot be cut at {start} and {end}')
        pieces.append(Axis(axis.name, start, end // start))

    for other in sorted((u for u in used if u.overlaps(axis)), key=lambda u: u.pre):
        if other.pre > start:
            keep_until(other.pre)
        start = max(start, other.end)
    if start < axis.end:
        keep_until(axis.end)
    return tuple(pieces)


def atoms(lists: Iterable[Iterable[Axis]]) -> dict[str, tuple[int, ...]]:
    """The cut points of every axis that occurs, between the coarsest parts of which all lists consist.

    Returns for each name the ascending products at which some list cuts the axis. Raises ValueError if two cuts do not
    nest, e.g. `:(1)2` and `:(1)3`.
    """
    cuts: dict[str, set[int]] = {}
    for axes in lists:
        for axis in axes:
            cuts.setdefault(axis.name, set()).update((axis.pre, axis.end))
    result = {}
    for name, points in cuts.items():
        ordered = tuple(sorted(points))
        if any(b % a for a, b in itertools.pairwise(ordered)):
            raise ValueError(f'sub-axes of "{name}" cut at {ordered}, which do not nest')
        result[name] = ordered
    return result


def split_at(axes: Iterable[Axis], cuts: dict[str, tuple[int, ...]]) -> Axes:
    """The list with every axis cut at the given points (see `atoms`)."""
    pieces: list[Axis] = []
    for axis in axes:
        start = axis.pre
        for cut in cuts[axis.name]:
            if start < cut <= axis.end:
                pieces.append(Axis(axis.name, start, cut // start))
                start = cut
    return tuple(pieces)
