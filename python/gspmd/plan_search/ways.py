"""The ways to split values and steps over a mesh, and what they take by the machine's own prices.

A way to split a value gives each axis to one dimension that it divides, or to none. A way to run a step gives each axis
to a factor of its rule. From one way to another a value gets by slicing, exchanging and gathering, in this order. The
number of ways grows exponentially with the axes, so that axes may be grouped: those of a group are given together.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from gspmd.dialect.axes import Axis, size_of
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.rule import NEED_REPLICATION, PERMUTATION, REDUCTION, OpShardingRule
from gspmd.plan_search.value_kinds import Step, StepUse
from gspmd.transforms.machine.cost import Hardware, collective_time

Way: TypeAlias = tuple[int, ...]
"""For each group of axes the dimension, or the factor, that it splits; -1 for none."""

NONE = -1

Group: TypeAlias = tuple[Axis, ...]
"""Axes that are given together, mostly a single one."""


class Ways:
    """Ways and prices over the axes of a mesh that split something, all or those `without` one.

    They are in at most `most` groups of axes that are neighbors in the mesh, of which the smallest are joined first.
    """

    def __init__(self, mesh: Mesh, hardware: Hardware, without: str = "", most: int | None = None) -> None:
        self.mesh, self.hardware = mesh, hardware
        axes = [mesh.axis(name) for name, size in mesh.axes if size > 1 and name != without]
        self.groups = _grouped(axes, len(axes) if most is None else most)
        self.is_grouped = len(self.groups) < len(axes)
        self.move_s = functools.lru_cache(maxsize=None)(self._move_s)

    def of_value(self, shape: Sequence[int]) -> list[Way]:
        """All ways to split a value evenly."""
        return list(self._assignments(shape, range(len(shape))))

    def of_step(self, step: Step) -> list[Way]:
        """All ways to split the factors of a step: evenly, where they lead the dimensions that have them."""
        rule = step.rule
        return list(self._assignments(rule.sizes, leading_factors(rule)))

    def _assignments(self, sizes: Sequence[int], places: Sequence[int]) -> Iterator[Way]:
        for way in itertools.product((NONE, *places), repeat=len(self.groups)):
            if all(sizes[p] % self.shards(way, p) == 0 and sizes[p] > 1 for p in set(way) if p != NONE):
                yield way

    def shards(self, way: Way, place: int) -> int:
        """Into how many parts a dimension, or a factor, is split."""
        return math.prod(size_of(group) for group, at in zip(self.groups, way, strict=True) if at == place)

    def split(self, way: Way) -> int:
        """Into how many parts all of it is split."""
        return math.prod(size_of(group) for group, at in zip(self.groups, way, strict=True) if at != NONE)

    def dims(self, way: Way, rank: int) -> tuple[tuple[str, ...], ...]:
        """The names of the axes of each dimension."""
        return tuple(
            tuple(axis.name for group, at in zip(self.groups, way, strict=True) if at == dimension for axis in group)
            for dimension in range(rank)
        )

    def way_of(self, dims: Sequence[Sequence[str]]) -> Way | None:
        """The way that has these axes; None where there is none, as for parts of axes or of groups."""
        at = {name: dimension for dimension, names in enumerate(dims) for name in names}
        places = [{at.pop(axis.name, NONE) for axis in group} for group in self.groups]
        return None if at or any(len(place) > 1 for place in places) else tuple(min(place) for place in places)

    # ---- steps ----

    def needed(self, step: Step, use: StepUse, way: Way) -> tuple[Way, tuple[bool, ...]]:
        """How a step that runs so takes or makes one of its tensors, and over which axes that is a partial sum."""
        mapping = step.rule.tensors[use.position]
        of_factor = {factor: dimension for dimension, factors in enumerate(mapping) for factor in factors}
        partial = tuple(
            use.is_result and at != NONE and step.rule.kinds[at] is REDUCTION and at not in of_factor for at in way
        )
        return tuple(of_factor.get(at, NONE) for at in way), partial

    def run_s(self, step: Step, way: Way) -> float:
        """The seconds of a step's arithmetic on one device, or of reading and writing what takes part in it."""
        touched = sum(
            use.runs * use.bytes / self.split(self.needed(step, use, way)[0]) for use in step.uses
        )  # fmt: skip
        return max(step.compute_s / self.split(way), touched / self.hardware.memory_bytes_per_s)

    def halo_s(self, step: Step, way: Way) -> float:
        """The seconds of what a step sends within itself, where windows reach into the shards of others."""
        total_s = 0.0
        for group, at in zip(self.groups, way, strict=True):
            if at != NONE and step.rule.kinds[at] is PERMUTATION:
                use = max(step.uses, key=lambda use: use.bytes)
                local = use.bytes / self.split(self.needed(step, use, way)[0])
                part = 1.0 if at in step.rule.exchanged else min(2 * self.shards(way, at) / step.rule.sizes[at], 1.0)
                total_s += use.runs * collective_time(
                    "collective_permute", local * part, size_of(group), self.hardware, group
                )
        return total_s

    # ---- moving ----

    def _move_s(self, bytes_: float, have: Way, partial: tuple[bool, ...], want: Way) -> float:
        """The seconds of bringing a value from one way to another; `partial` are axes over which it is to be summed.

        A collective is about one dimension: what is summed into several of them, or gathered from several, takes one
        for each, those that leave least first.
        """
        local, total_s = bytes_ / self.split(have), 0.0
        scattered = tuple(p and w != NONE for p, w in zip(partial, want, strict=True))
        reduced = tuple(p and not s for p, s in zip(partial, scattered, strict=True))
        now = tuple(w if s else h for s, h, w in zip(scattered, have, want, strict=True))
        for over in sorted(self._by_dimension(scattered, want), key=self._size, reverse=True):
            total_s += self._collective_s("reduce_scatter", local, over)
            local /= self._size(over)
        total_s += self._collective_s("all_reduce", local, reduced)
        local /= self._size(tuple(n == NONE and w != NONE for n, w in zip(now, want, strict=True)))
        moved = tuple(NONE not in (n, w) and n != w for n, w in zip(now, want, strict=True))
        for over in self._by_dimension(moved, now):
            total_s += self._collective_s("all_to_all", local, over)
        gathered = tuple(n != NONE and w == NONE for n, w in zip(now, want, strict=True))
        for over in sorted(self._by_dimension(gathered, now), key=self._size):
            total_s += self._collective_s("all_gather", local, over)
            local *= self._size(over)
        return total_s

    def _by_dimension(self, over: tuple[bool, ...], way: Way) -> list[tuple[bool, ...]]:
        """The axes of each dimension that a way gives them to."""
        dimensions = dict.fromkeys(at for at, is_in in zip(way, over, strict=True) if is_in)
        return [tuple(is_in and at == d for is_in, at in zip(over, way, strict=True)) for d in dimensions]

    def _size(self, over: tuple[bool, ...]) -> int:
        return math.prod(size_of(group) for group, is_in in zip(self.groups, over, strict=True) if is_in)

    def _collective_s(self, kind: str, local: float, over: tuple[bool, ...]) -> float:
        axes = tuple(axis for group, is_in in zip(self.groups, over, strict=True) if is_in for axis in group)
        return collective_time(kind, local, self._size(over), self.hardware, axes) if axes else 0.0


def _grouped(axes: Sequence[Axis], most: int) -> tuple[Group, ...]:
    groups: list[Group] = [(axis,) for axis in axes]
    while len(groups) > most:
        at = min(range(len(groups) - 1), key=lambda number: size_of(groups[number] + groups[number + 1]))
        groups[at : at + 2] = [groups[at] + groups[at + 1]]
    return tuple(groups)


def leading_factors(rule: OpShardingRule) -> list[int]:
    """The factors that may be split, and of no dimension are behind another one."""
    behind = set()
    for mapping in rule.tensors:
        for factors in mapping:
            large = [factor for factor in factors if rule.sizes[factor] > 1]
            behind.update(large[1:])
    return [f for f, kind in enumerate(rule.kinds) if kind is not NEED_REPLICATION and f not in behind]
