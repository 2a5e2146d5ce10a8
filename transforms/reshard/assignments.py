"""Assignments of axes to the factors of an operation: the ways to run it that are worth pricing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from gspmd.dialect.axes import Axes, canonical, common_prefix, overlap, size_of
from gspmd.dialect.placement import FactorAxes
from gspmd.dialect.rule import NEED_REPLICATION, PASS_THROUGH, REDUCTION, OpShardingRule

MOST_ASSIGNMENTS = 512


def assignments(rule: OpShardingRule, split: list[FactorAxes], idle: Axes) -> Iterator[tuple[FactorAxes, FactorAxes]]:
    """Ways to split the factors of a rule, in pairs: with idle axes, and without.

    Each factor is split as one of the tensors has it in `split`, in part, or not at all. Idle axes are those that no
    tensor uses: all devices along them would compute the same. A way that leaves them idle is in both places of its
    pair.
    """
    for axes in _as_tensors(rule, split):
        yield axes, axes
        if idle:
            for shared in _sharing(rule, axes, idle):
                yield shared, axes


def _sharing(rule: OpShardingRule, axes: FactorAxes, idle: Axes) -> Iterator[FactorAxes]:
    """The same assignments with one factor split over idle axes as well.

    That takes at most a slice of the operands.
    """
    for factor, kind in enumerate(rule.kinds):
        if kind not in (PASS_THROUGH, REDUCTION) or factor in rule.exchanged:
            continue
        chosen = {**axes, factor: canonical(axes.get(factor, ()) + idle)}
        if rule.sizes[factor] % size_of(chosen[factor]) == 0 and valid(rule, chosen):
            yield chosen


def valid(rule: OpShardingRule, axes: FactorAxes) -> bool:
    """Whether one sharding per tensor can have all these factors split so."""
    seen: Axes = ()
    for factor, mine in axes.items():
        if not _valid_beside(rule, factor, mine, seen):
            return False
        seen += mine
    return True


def _valid_beside(rule: OpShardingRule, factor: int, mine: Axes, seen: Axes) -> bool:
    """Whether a factor can be split over `mine` while others are split over the axes `seen`."""
    if rule.kinds[factor] is NEED_REPLICATION or overlap(mine, seen):
        return False
    if not all(a.nests(b) for a in mine for b in (*seen, *mine)):
        return False
    return factor not in rule.even or rule.sizes[factor] % size_of(mine) == 0


def _as_tensors(rule: OpShardingRule, split: list[FactorAxes]) -> Iterator[FactorAxes]:
    """The ways to split factors without idle axes, at most `MOST_ASSIGNMENTS` of them.

    Each factor is split as one of its tensors has it, in part, or not at all; axes of dimensions that cannot be split
    may move to a factor that can. A part is a prefix, or what is left by a factor that all tensors agree on: a batch
    over x with weights over x and y contracts over y.
    """
    settled = agreed(rule, split)
    displaced = {
        axes
        for mine in split
        for factor, axes in mine.items()
        if rule.kinds[factor] is NEED_REPLICATION or factor in rule.exchanged
    }
    options: list[list[tuple[int, Axes]]] = []
    for factor, kind in enumerate(rule.kinds):
        if kind is NEED_REPLICATION:
            continue
        seen: set[Axes] = set()
        for axes in split:
            mine = axes.get(factor, ())
            seen.update(mine[:count] for count in range(1, len(mine) + 1))
        for a, b in itertools.combinations(sorted(seen), 2):
            seen.add(common_prefix(a, b))
        if factor not in settled:
            seen.update([_apart_from(axes, other) for axes in seen for other in settled.values()])
        seen.discard(())
        if kind is PASS_THROUGH:
            seen.update(_with_displaced(rule, factor, seen, displaced))
        if seen:
            ordered = sorted(seen, key=lambda a: (-size_of(a), a))
            options.append([(factor, axes) for axes in ordered] + [(factor, ())])
    yield from itertools.islice(_combinations(rule, options), MOST_ASSIGNMENTS)


def _apart_from(axes: Axes, others: Axes) -> Axes:
    """The axes that overlap none of the others; `without` cuts those that do, which not all sub-axes allow."""
    return canonical(tuple([axis for axis in axes if not overlap((axis,), others)]))


def _combinations(rule: OpShardingRule, options: list[list[tuple[int, Axes]]]) -> Iterator[FactorAxes]:
    """Every valid way to take one of each of the options, in their order.

    What is not valid is dropped before more is added to it, so that few of very many are tried.
    """
    pending: list[tuple[tuple[tuple[int, Axes], ...], Axes]] = [((), ())]
    while pending:
        taken, seen = pending.pop()
        if len(taken) == len(options):
            yield {factor: axes for factor, axes in taken if axes}
            continue
        for factor, axes in reversed(options[len(taken)]):
            if not axes or _valid_beside(rule, factor, axes, seen):
                pending.append(((*taken, (factor, axes)), seen + axes))


def agreed(rule: OpShardingRule, split: list[FactorAxes]) -> FactorAxes:
    """The factors that several tensors carry and all of these have over the same axes."""
    found: FactorAxes = {}
    for factor in range(len(rule.sizes)):
        carriers = [
            axes.get(factor, ())
            for mapping, axes in zip(rule.tensors, split, strict=True)
            if any(factor in dim for dim in mapping)
        ]
        if factor in rule.exchanged:
            continue  # everything moves, one way or the other
        if len(carriers) > 1 and carriers[0] and len(set(carriers)) == 1:
            found[factor] = carriers[0]
    return found


def _with_displaced(rule: OpShardingRule, factor: int, seen: set[Axes], displaced: set[Axes]) -> set[Axes]:
    """What a factor can take over from dimensions that cannot be split, or not cheaply.

    A factor that was split before must divide, as uneven shards do not nest.
    """
    size = rule.sizes[factor]
    return {
        canonical(axes + more)
        for axes in [*seen, ()]
        for more in displaced
        if not overlap(axes, more)
        and (size % size_of(axes + more) == 0 or (not axes and size > 1 and factor not in rule.even))
    }
