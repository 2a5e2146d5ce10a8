"""Which axes split which factor of an operation, where its tensors disagree: the cheapest assignment.

Source: arXiv 2105.04663, section 4 (the partitioner's choice per operator), as one cost comparison.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

from gspmd.dialect.axes import Axes, canonical, overlap, size_of, starts_with
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.placement import FactorAxes, factor_axes, tensor_axes
from gspmd.dialect.rule import PASS_THROUGH, PERMUTATION, REDUCTION, OpShardingRule
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.machine.cost import collective_time
from gspmd.transforms.ops import traits_of
from gspmd.transforms.ops.op_definition import OpTable
from gspmd.transforms.reshard.assignments import agreed, assignments, valid
from gspmd.transforms.reshard.path import MoveBudget
from gspmd.transforms.reshard.planner import Path, Planner
from gspmd.transforms.reshard.traffic import sent_by_step

# What an operation's tensors agree on (the batch of activations and of what is made of them, a contraction that
# both sides are split over) is given up only for something this many times cheaper: taken alone the operation may
# gain, but its neighbours, computed alike, would not, and gathered operands are computed with again on every device.
AGREEMENT_WORTH = 8
# Devices along axes that no tensor uses would all do the same. They do a part each, which another collective puts
# together, where something is more than this many times cheaper by it, as they send and gather less.
SHARING_WORTH = 1.5
# Where elements are only looked up or put into place nothing is computed again, so that less suffices.
LOOKUP_WORTH = 4

# If the local form moves everything, a device sends at most this many times its shards.
_EXCHANGED_SHARDS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Situation:
    """An operation with the shardings that its operands have and its results are wanted with.

    `free` operands are constants, which cost nothing to move. `held` are the manual axes that the operation is inside
    of. `moved` are the shardings that each operand has been moved to for earlier users, which may serve again.
    """

    info: OpInfo
    operands: tuple[TensorSharding, ...]
    results: tuple[TensorSharding, ...]
    free: tuple[bool, ...]
    held: Axes = ()
    moved: tuple[tuple[TensorSharding, ...], ...] = ()

    @property
    def shardings(self) -> tuple[TensorSharding, ...]:
        return self.operands + self.results

    def split(self, rule: OpShardingRule) -> list[FactorAxes]:
        """The axes of the factors, tensor by tensor."""
        return [factor_axes(rule, t, s) for t, s in enumerate(self.shardings)]

    def idle(self, mesh: Mesh) -> Axes:
        """The axes of the mesh that no tensor uses."""
        busy = [*self.held, *(axis for s in self.shardings for axis in (*s.used_axes(), *s.replicated))]
        return tuple(axis for axis in mesh.all_axes() if not overlap([axis], busy))


@dataclasses.dataclass(frozen=True, slots=True)
class Strategy:
    """A way to run an operation: by `rule`, from `operands` to `results`, which may be unreduced.

    If it is not `complete`, the planner's budget was used up before all ways were compared.
    """

    rule: OpShardingRule
    operands: tuple[TensorSharding, ...]
    results: tuple[TensorSharding, ...]
    time_s: float
    complete: bool = True


class Chooser:
    """Chooses strategies; equal situations are decided once by the caller's memo."""

    def __init__(self, planner: Planner, table: OpTable) -> None:
        self.planner = planner
        self.table = table
        self.hardware = planner.hardware

    def choose(self, rule: OpShardingRule, situation: Situation) -> Strategy:
        """The cheapest strategy by any of the operation's rules."""
        if self._agree(rule, situation.split(rule), situation.shardings):
            return Strategy(rule, situation.operands, situation.results, 0.0)
        with self.planner.choosing() as budget:
            ways = [self._best(way, situation, budget) for way in (rule, *self._others(situation.info))]
        best = min(ways, key=lambda strategy: strategy.time_s)
        return dataclasses.replace(best, complete=False) if budget.used_up else best

    def _others(self, info: OpInfo) -> tuple[OpShardingRule, ...]:
        definition = self.table.get(info.name)
        return definition.others(info) if definition is not None and definition.others is not None else ()

    def _best(self, rule: OpShardingRule, situation: Situation, budget: MoveBudget) -> Strategy:
        """The cheapest strategy by one rule."""
        split = situation.split(rule)
        common = agreed(rule, split)
        worth = LOOKUP_WORTH if _puts_or_takes(situation.info) else AGREEMENT_WORTH
        # The best of those that keep what is agreed on, and of all, with what counts for the comparison.
        kept: tuple[float, Strategy] | None = None
        best: tuple[float, Strategy] | None = None
        for axes, alone in assignments(rule, split, situation.idle(self.planner.mesh)):
            if budget.used_up and best is not None:
                break
            keeps = all(starts_with(axes.get(factor, ()), mine) for factor, mine in common.items())
            bound, weight = kept if keeps else best, 1 if axes is alone else SHARING_WORTH
            found = self._price(rule, axes, alone, situation, bound[0] / weight if bound else math.inf)
            if found is None:
                continue
            counted = (weight * found.time_s, found)
            if keeps and (kept is None or counted[0] < kept[0]):
                kept = counted
            if best is None or counted[0] < best[0]:
                best = counted
        if best is None:
            whole = self._price(rule, {}, {}, situation, math.inf)
            assert whole is not None, "computing everything whole is always possible"
            return whole
        return best[1] if kept is None or best[0] * worth < kept[0] else kept[1]

    def candidates(self, rule: OpShardingRule, situation: Situation) -> list[tuple[Strategy, float]]:
        """The strategies that `choose` compares, the cheapest first, each with the bytes that a device sends for it.

        They are fewer where the planner's budget is used up.
        """
        with self.planner.choosing() as budget:
            ways = self._candidates(rule, situation, budget)
            return [(way, self.sent_bytes(situation, way)) for way in ways]

    def _candidates(self, rule: OpShardingRule, situation: Situation, budget: MoveBudget) -> list[Strategy]:
        found: dict[tuple[TensorSharding, ...], Strategy] = {}
        for way in (rule, *self._others(situation.info)):
            ways = assignments(way, situation.split(way), situation.idle(self.planner.mesh))
            for axes, alone in itertools.chain(ways, [({}, {})]):
                if budget.used_up and found:
                    break
                priced = self._price(way, axes, alone, situation, math.inf)
                if priced is not None:
                    found.setdefault(priced.operands + priced.results, priced)
        return sorted(found.values(), key=lambda strategy: strategy.time_s)

    def follow(
        self, rule: OpShardingRule, partial: tuple[int, ...], given: TensorSharding
    ) -> tuple[TensorSharding, ...] | None:
        """The shardings of operands and result if the operands `partial` are as `given` and nothing else is split.

        None if the rule does not allow that.
        """
        axes = factor_axes(rule, partial[0], given)
        if not valid(rule, axes) or any(rule.kinds[f] is not PASS_THROUGH for f in axes):
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
        if not valid(rule, merged) or any(rule.kinds[f] is REDUCTION or f in rule.exchanged for f in merged):
            return False
        return all(not s.unreduced and tensor_axes(rule, t, merged) == s.dim_axes() for t, s in enumerate(shardings))

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
        self, rule: OpShardingRule, axes: FactorAxes, alone: FactorAxes, situation: Situation, bound_s: float
    ) -> Strategy | None:
        """The strategy with its cost, None when it cannot be written or costs more than `bound_s`.

        Arithmetic is counted as `alone` has it: that devices along idle axes repeat it is what was asked for.
        """
        made = self._shardings(rule, axes, situation.shardings)
        if made is None:
            return None
        info, count = situation.info, len(situation.operands)
        time_s = self._compute_time(rule, info, alone, made)
        for index, need in enumerate(made[:count]):
            if time_s >= bound_s:
                return None
            if situation.operands[index] != need and not situation.free[index]:
                time_s += self._operand_path(situation, index, need).time_s
        for type_, have, need in zip(info.results, made[count:], situation.results, strict=True):
            if time_s >= bound_s:
                return None
            if have != need:
                time_s += self.planner.plan(type_, have, need).time_s
        return Strategy(rule, made[:count], made[count:], time_s)

    def _operand_path(self, situation: Situation, index: int, need: TensorSharding) -> Path:
        """How an operand is moved: from what it is, or from what it has been moved to for others."""
        moved = situation.moved[index] if situation.moved else ()
        return self.planner.nearest(situation.info.operands[index], (situation.operands[index], *moved), need)[1]

    def sent_bytes(self, situation: Situation, strategy: Strategy) -> float:
        """Bytes that a device sends for a strategy: before the operation, within its local form, and after it."""
        info, total = situation.info, 0.0
        for index, need in enumerate(strategy.operands):
            if situation.operands[index] != need and not situation.free[index]:
                sources = (situation.operands[index], *(situation.moved[index] if situation.moved else ()))
                source, path = self.planner.nearest(info.operands[index], sources, need)
                total += sum(sent for _, sent in sent_by_step(info.operands[index], source, path.steps))
        for type_, have, need in zip(info.results, strategy.results, situation.results, strict=True):
            if have != need:
                path = self.planner.plan(type_, have, need)
                total += sum(sent for _, sent in sent_by_step(type_, have, path.steps))
        axes = {
            f: mine for t, s in enumerate(strategy.operands) for f, mine in factor_axes(strategy.rule, t, s).items()
        }
        if any(strategy.rule.kinds[factor] is PERMUTATION for factor in axes):
            total += self._sent(info, strategy.operands, strategy.results)
        exchanged = strategy.rule.exchanged & axes.keys()
        return total + sum(_exchanged(info, axes[factor], strategy.operands) for factor in exchanged)

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
            sent = _exchanged(info, axes[factor], made)
            time_s += collective_time("collective_permute", sent, 2, self.hardware)
            # There and back, with every operand.
            time_s += (2 * len(info.operands) - 1) * self.hardware.collective_latency_s
        return time_s

    def _sent(self, info: OpInfo, operands: tuple[TensorSharding, ...], results: tuple[TensorSharding, ...]) -> float:
        """Bytes that a device sends within the local form: halos, partial results."""
        definition = self.table.get(info.name)
        if definition is not None and definition.sends is not None:
            return definition.sends(info, operands, results)
        return max(local_bytes(t, s) for t, s in zip(info.results, results, strict=True))


def _puts_or_takes(info: OpInfo) -> bool:
    """Whether elements are only looked up, or put into place."""
    traits = traits_of(info.name)
    return traits.looks_up or traits.update is not None


def _exchanged(info: OpInfo, axes: Axes, operands: tuple[TensorSharding, ...]) -> float:
    """Bytes that a device sends if the local form moves everything along a dimension split over `axes`."""
    shards = min(size_of(axes) - 1, _EXCHANGED_SHARDS)
    return shards * sum(local_bytes(t, s) for t, s in zip(info.operands, operands, strict=False) if t.shape)


def local_bytes(type_: TensorType, sharding: TensorSharding) -> float:
    """Bytes of a device's part of a value."""
    return math.prod(sharding.local_shape(type_.shape)) * element_bytes(type_.element)
