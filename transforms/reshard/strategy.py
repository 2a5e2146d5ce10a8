"""Which axes split which factor of an operation, where its tensors disagree: the cheapest assignment.

Source: arXiv 2105.04663, section 4 (the partitioner's choice per operator), as one cost comparison.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator

from gspmd.dialect.axes import Axes, Axis, canonical, common_prefix, overlap, size_of
from gspmd.dialect.placement import FactorAxes, factor_axes, tensor_axes
from gspmd.dialect.rule import NEED_REPLICATION, PASS_THROUGH, PERMUTATION, REDUCTION, OpShardingRule
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.reshard.planner import Planner
from gspmd.transforms.support.cost import collective_time
from gspmd.transforms.support.op_definition import OpTable
from gspmd.transforms.support.op_info import OpInfo, TensorType, element_bytes

MOST_CANDIDATES = 512

# What an operation's tensors agree on (the batch of activations and of what is made of them, a contraction that
# both sides are split over) is given up only for something this many times cheaper: taken alone the operation may
# gain, but its neighbours, computed alike, would not, and gathered operands are computed with again on every device.
AGREEMENT_WORTH = 8
# Where elements are only looked up or put into place nothing is computed again, so that less suffices.
LOOKUP_WORTH = 4
_LOOKUPS = frozenset(
    {"stablehlo.gather", "stablehlo.scatter", "stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"}
)

# How many times its shards a device sends where the local form moves everything, at most.
_EXCHANGED_SHARDS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Strategy:
    """The operation runs by `rule`, with its operands as `operands`, and makes `results` (possibly unreduced)."""

    rule: OpShardingRule
    operands: tuple[TensorSharding, ...]
    results: tuple[TensorSharding, ...]
    time_s: float


class Chooser:
    """Chooses strategies; equal situations are decided once by the caller's memo."""

    def __init__(self, planner: Planner, table: OpTable) -> None:
        self.planner = planner
        self.table = table
        self.hardware = planner.hardware

    def choose(
        self,
        rule: OpShardingRule,
        info: OpInfo,
        operands: tuple[TensorSharding, ...],
        results: tuple[TensorSharding, ...],
        free: tuple[bool, ...],
    ) -> Strategy:
        """The cheapest way to get `results` from `operands`; `free` ones, constants, cost nothing to move."""
        shardings = operands + results
        if self._agree(rule, [factor_axes(rule, t, s) for t, s in enumerate(shardings)], shardings):
            return Strategy(rule, operands, results, 0.0)
        ways = [self._best(way, info, operands, results, free) for way in (rule, *self._others(info))]
        return min(ways, key=lambda strategy: strategy.time_s)

    def _others(self, info: OpInfo) -> tuple[OpShardingRule, ...]:
        definition = self.table.get(info.name)
        return definition.others(info) if definition is not None and definition.others is not None else ()

    def _best(
        self,
        rule: OpShardingRule,
        info: OpInfo,
        operands: tuple[TensorSharding, ...],
        results: tuple[TensorSharding, ...],
        free: tuple[bool, ...],
    ) -> Strategy:
        """The cheapest way by one rule."""
        split = [factor_axes(rule, t, s) for t, s in enumerate(operands + results)]
        agreed = self._agreed(rule, split)
        worth = LOOKUP_WORTH if info.name in _LOOKUPS else AGREEMENT_WORTH
        kept: Strategy | None = None
        best: Strategy | None = None
        for axes in self._candidates(rule, split):
            keeps = all(axes.get(factor, ()) == mine for factor, mine in agreed.items())
            bound = kept if keeps else best
            found = self._price(rule, info, axes, operands, results, free, bound.time_s if bound else math.inf)
            if found is None:
                continue
            if keeps and (kept is None or found.time_s < kept.time_s):
                kept = found
            if best is None or found.time_s < best.time_s:
                best = found
        best = best or self._price(rule, info, {}, operands, results, free, math.inf)
        assert best is not None, "computing everything whole is always possible"
        return best if kept is None or best.time_s * worth < kept.time_s else kept

    def candidates(
        self,
        rule: OpShardingRule,
        info: OpInfo,
        operands: tuple[TensorSharding, ...],
        results: tuple[TensorSharding, ...],
        free: tuple[bool, ...],
    ) -> list[Strategy]:
        """All the ways to get `results` from `operands` that `choose` compares, the cheapest first."""
        found: dict[tuple[TensorSharding, ...], Strategy] = {}
        for way in (rule, *self._others(info)):
            split = [factor_axes(way, t, s) for t, s in enumerate(operands + results)]
            for axes in itertools.chain(self._candidates(way, split), [{}]):
                priced = self._price(way, info, axes, operands, results, free, math.inf)
                if priced is not None:
                    found.setdefault(priced.operands + priced.results, priced)
        return sorted(found.values(), key=lambda strategy: strategy.time_s)

    def follow(
        self, rule: OpShardingRule, partial: tuple[int, ...], given: TensorSharding
    ) -> tuple[TensorSharding, ...] | None:
        """The shardings of operands and result when the operands `partial` have this one and nothing else is split;

        None if that cannot be.
        """
        axes = factor_axes(rule, partial[0], given)
        if not self._valid(rule, axes) or any(rule.kinds[f] is not PASS_THROUGH for f in axes):
            return None
        made = []
        for tensor in range(len(rule.operands) + 1):
            dims = tensor_axes(rule, tensor, axes)
            if dims is None or (tensor in partial and dims != given.dim_axes()):
                return None
            is_partial = tensor in partial or tensor == len(rule.operands)
            made.append(given.with_axes(dims, given.unreduced if is_partial else ()))
        return tuple(made)

    def _agree(self, rule: OpShardingRule, split: list[FactorAxes], shardings: tuple[TensorSharding, ...]) -> bool:
        """Whether all tensors fit one assignment as they are, and nothing is left to reduce."""
        merged: FactorAxes = {}
        for axes in split:
            for factor, mine in axes.items():
                if merged.setdefault(factor, mine) != mine:
                    return False
        if not self._valid(rule, merged) or any(rule.kinds[f] is REDUCTION or f in rule.exchanged for f in merged):
            return False
        return all(tensor_axes(rule, t, merged) == s.dim_axes() for t, s in enumerate(shardings))

    @staticmethod
    def _valid(rule: OpShardingRule, axes: FactorAxes) -> bool:
        seen: list[Axis] = []
        for factor, mine in axes.items():
            if rule.kinds[factor] is NEED_REPLICATION or overlap(mine, seen):
                return False
            if not all(a.nests(b) for a in mine for b in (*seen, *mine)):
                return False
            if factor in rule.even and rule.sizes[factor] % size_of(mine):
                return False
            seen.extend(mine)
        return True

    def _candidates(self, rule: OpShardingRule, split: list[FactorAxes]) -> Iterator[FactorAxes]:
        """Assignments worth pricing: each factor as one of its tensors has it, in part, or whole; and axes of

        dimensions that cannot be split moved to one that can.
        """
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
            seen.discard(())
            if kind is PASS_THROUGH:
                seen.update(self._with_displaced(rule, factor, seen, displaced))
            if seen:
                ordered = sorted(seen, key=lambda a: (-size_of(a), a))
                options.append([(factor, axes) for axes in ordered] + [(factor, ())])
        yielded = 0
        for combination in itertools.product(*options):
            chosen = {factor: axes for factor, axes in combination if axes}
            if self._valid(rule, chosen):
                yield chosen
                yielded += 1
                if yielded >= MOST_CANDIDATES:
                    return

    @staticmethod
    def _agreed(rule: OpShardingRule, split: list[FactorAxes]) -> FactorAxes:
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

    @staticmethod
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

    def _shardings(
        self, rule: OpShardingRule, axes: FactorAxes, shardings: tuple[TensorSharding, ...]
    ) -> tuple[TensorSharding, ...] | None:
        """Every tensor's sharding under an assignment; results are unreduced over reduction factors."""
        partial: Axes = ()
        for factor, mine in axes.items():
            if rule.kinds[factor] is REDUCTION:
                partial += mine
        mesh = self.planner.mesh
        partial = canonical(mesh.sorted(partial))
        made = []
        for tensor, sharding in enumerate(shardings):
            dims = tensor_axes(rule, tensor, axes)
            if dims is None:
                return None
            made.append(sharding.with_axes(dims, partial if tensor >= len(rule.operands) else ()))
        return tuple(made)

    def _price(
        self,
        rule: OpShardingRule,
        info: OpInfo,
        axes: FactorAxes,
        operands: tuple[TensorSharding, ...],
        results: tuple[TensorSharding, ...],
        free: tuple[bool, ...],
        bound_s: float,
    ) -> Strategy | None:
        """The strategy with its cost, None when it cannot be written or is dearer than `bound_s`."""
        made = self._shardings(rule, axes, operands + results)
        if made is None:
            return None
        count = len(operands)
        time_s = self._compute_time(rule, info, axes, made)
        for type_, have, need, is_free in zip(info.operands, operands, made[:count], free, strict=True):
            if time_s >= bound_s:
                return None
            if have != need and not is_free:
                time_s += self.planner.plan(type_, have, need).time_s
        for type_, have, need in zip(info.results, made[count:], results, strict=True):
            if time_s >= bound_s:
                return None
            if have != need:
                time_s += self.planner.plan(type_, have, need).time_s
        return Strategy(rule, made[:count], made[count:], time_s)

    def _compute_time(
        self, rule: OpShardingRule, info: OpInfo, axes: FactorAxes, made: tuple[TensorSharding, ...]
    ) -> float:
        """Seconds of arithmetic, memory traffic and what the local form itself sends, on one device."""
        touched = sum(local_bytes(t, s) for t, s in zip(info.operands + info.results, made, strict=True) if t.shape)
        time_s = touched / self.hardware.memory_bytes_per_s
        if info.name == "stablehlo.dot_general":
            work = math.prod(-(-n // size_of(axes.get(f, ()))) for f, n in enumerate(rule.sizes))
            time_s += 2 * work / self.hardware.flops_of(info.operands[0].element)
        if any(rule.kinds[factor] is PERMUTATION for factor in axes):
            sent = self._sent(info, made[: len(info.operands)], made[len(info.operands) :])
            time_s += collective_time("collective_permute", sent, 2, self.hardware) if sent else 0.0
        for factor in rule.exchanged & axes.keys():
            shards = min(size_of(axes[factor]) - 1, _EXCHANGED_SHARDS)
            held = sum(local_bytes(t, s) for t, s in zip(info.operands, made, strict=False) if t.shape)
            time_s += collective_time("collective_permute", shards * held, 2, self.hardware)
            # There and back, with every operand.
            time_s += (2 * len(info.operands) - 1) * self.hardware.collective_latency_s
        return time_s

    def _sent(self, info: OpInfo, operands: tuple[TensorSharding, ...], results: tuple[TensorSharding, ...]) -> float:
        """Bytes that a device sends within the local form: halos, partial results."""
        definition = self.table.get(info.name)
        if definition is not None and definition.sends is not None:
            return definition.sends(info, operands, results)
        return max(local_bytes(t, s) for t, s in zip(info.results, results, strict=True))


def local_bytes(type_: TensorType, sharding: TensorSharding) -> float:
    """Bytes of a device's part of a value."""
    return math.prod(sharding.local_shape(type_.shape)) * element_bytes(type_.element)
