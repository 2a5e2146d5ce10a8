"""The strategies of an operation: the axis parts that split each factor, and the resulting placements of its tensors.

For example, a product of matrices has the factors i, j and k. Over x=2 it can run unsplit, with i or j over x, or with
k over x: then operands are needed as [{}, {x}] and [{x}, {}], and the result is partial over x.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TypeAlias

import numpy as np

from gspmd.dialect.axes import Axes
from gspmd.dialect.rule import NEED_REPLICATION, PASS_THROUGH, PERMUTATION, REDUCTION, OpShardingRule
from gspmd.transforms.paths.placements import AxisParts, Bools, Floats, Ints

Allowed: TypeAlias = tuple[tuple[int, ...], ...]
"""By factor, the numbers of the axis lists that may split it."""

MAX_STRATEGIES = 512
"""The largest number of strategies of an operation if the mesh has many parts."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Strategies:
    """The strategies of an operation under a rule: `tensors[t]` are the placements of a tensor, `share` is a device's
    share of the arithmetic, `moves_inside` whether the local form communicates. Those that are `free` compute nothing.
    """

    rule: OpShardingRule
    tensors: tuple[Ints, ...]
    share: Floats
    moves_inside: Bools
    free: bool = False

    def taken(self, kept: Bools | Ints) -> Strategies:
        """A subset of them."""
        tensors = tuple(each[kept] for each in self.tensors)
        return Strategies(self.rule, tensors, self.share[kept], self.moves_inside[kept], self.free)


class StrategyBook:
    """The strategies of rules, memoized. `uneven` are sizes with the axis lists that may split them unevenly."""

    def __init__(self, parts: AxisParts, uneven: frozenset[tuple[int, int]]) -> None:
        self.parts, self._uneven = parts, uneven
        self._fits: dict[int, Bools] = {}
        self._evens: dict[int, Bools] = {}
        self._shares: dict[int, Floats] = {}
        self._known: dict[tuple[OpShardingRule, Axes, tuple[int, ...], Allowed | None, bool], Strategies] = {}
        lists = {each: number for number, each in enumerate(parts.lists)}
        self._joined = np.array([[lists.get(a + b, -1) for b in parts.lists] for a in parts.lists], np.int64)

    def fits(self, size: int) -> Bools:
        """The axis lists that may split a dimension or factor of a size."""
        found = self._fits.get(size)
        if found is None:
            found = self._even(size).copy()
            for each, number in self._uneven:
                if each == size:
                    found[number] = True
            self._fits[size] = found
        return found

    def _even(self, size: int) -> Bools:
        found = self._evens.get(size)
        if found is None:
            found = self._evens[size] = size % self.parts.count == 0 if size else self.parts.count == 1
        return found

    def _padded(self, size: int) -> Bools:
        """The axis lists that may split a factor of a size with less padding than elements."""
        found: Bools = -(-size // self.parts.count) * self.parts.count < 2 * max(size, 1)
        return found

    def _share(self, size: int) -> Floats:
        """A device's share of a factor, by axis list."""
        found = self._shares.get(size)
        if found is None:
            found = self._shares[size] = -(-size // self.parts.count) / max(size, 1)
        return found

    def of(
        self, rule: OpShardingRule, manual: Axes, linear: tuple[int, ...] = (), allowed: Allowed | None = None,
        may_pad: bool = False,
    ) -> Strategies:  # fmt: skip
        """All strategies; for partial `linear` operands, also those that keep the result partial.

        If the mesh has many parts, factors are split only over their `allowed` lists. With `may_pad`, factors may be
        split unevenly, with less padding than elements.
        """
        key = rule, manual, linear, allowed, may_pad
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._make(*key)
        return found

    def _make(
        self, rule: OpShardingRule, manual: Axes, linear: tuple[int, ...], allowed: Allowed | None, may_pad: bool
    ) -> Strategies:  # fmt: skip
        parts, kinds = self.parts, rule.kinds
        factors = [f for f, (kind, n) in enumerate(zip(kinds, rule.sizes, strict=True)) if kind is not NEED_REPLICATION]
        factors = [f for f in factors if rule.sizes[f] > 1]
        if allowed is None:
            table = parts.of(len(factors), manual)
            split = np.zeros((len(table.lists) if linear else table.finished, len(rule.sizes)), np.int64)
            split[:, factors] = table.lists[: len(split)]
            left = table.partial[: len(split)]
        else:
            split, left = self._listed(len(rule.sizes), factors, allowed, bool(linear))
        valid, share = np.ones(len(split), bool), np.ones(len(split))
        sums = np.zeros(len(split), np.int64)
        moves_inside = np.zeros(len(split), bool)
        for f in factors:
            n, lists, kind = rule.sizes[f], split[:, f], kinds[f]
            fits = self._even(n) if f in rule.even else self._padded(n) if may_pad else self.fits(n)
            valid &= fits[lists]
            share *= self._share(n)[lists]
            if kind is not PASS_THROUGH:
                if linear:
                    valid &= (left == 0) | (lists == 0)
                if kind is REDUCTION:
                    sums |= parts.mask[lists]
            if kind is PERMUTATION or f in rule.exchanged:
                moves_inside |= lists != 0
        if linear:
            sums |= left
        tensors = []
        for t, mapping in enumerate(rule.tensors):
            rows = self._rows(rule, split, mapping, manual)
            partial = sums if t >= len(rule.operands) else left if t in linear else None
            numbers = rows if partial is None else parts.of(len(mapping), manual).with_sums(rows, partial)
            valid &= numbers >= 0
            tensors.append(numbers)
        return Strategies(rule, tuple(tensors), share, moves_inside).taken(valid)

    def _listed(self, count: int, factors: list[int], allowed: Allowed, is_linear: bool) -> tuple[Ints, Ints]:
        """The axis lists of all factors in every strategy, and the partial axes, as bits."""
        rows, masks = [(0,) * count], [0]
        for factor in factors:
            grown = [
                ((*row[:factor], each, *row[factor + 1 :]), mask | int(self.parts.mask[each]))
                for row, mask in zip(rows, masks, strict=True)
                for each in allowed[factor]
                if not mask & int(self.parts.excluded[each])
            ]
            rows, masks = [row for row, _ in grown[:MAX_STRATEGIES]], [mask for _, mask in grown[:MAX_STRATEGIES]]
        left = [0] * len(rows)
        for row, mask in list(zip(rows, masks, strict=True)) if is_linear else ():
            for sums in self.parts.sums:
                if not mask & self.parts.excluded_by(sums):
                    rows.append(row)
                    left.append(sums)
        return np.array(rows, np.int64).reshape(len(rows), count), np.array(left, np.int64)

    def _rows(self, rule: OpShardingRule, split: Ints, mapping: tuple[tuple[int, ...], ...], manual: Axes) -> Ints:
        """The placement of a tensor with this mapping in every strategy; -1 if there is none."""
        lists = np.zeros((len(split), len(mapping)), np.int64)
        for dim, factors in enumerate(mapping):
            joined, complete = split[:, factors[0]], None
            for before, factor in itertools.pairwise(factors):
                whole = self.parts.count[split[:, before]] == rule.sizes[before]
                complete = whole if complete is None else complete & whole
                more = split[:, factor]
                joined = np.where(more == 0, joined, np.where(complete & (joined >= 0), self._joined[joined, more], -1))
            lists[:, dim] = joined
        return self.parts.of(len(mapping), manual).rows(lists)
