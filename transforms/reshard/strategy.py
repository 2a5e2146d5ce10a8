"""Which axes split which factor of an operation, where its tensors disagree: the cheapest assignment.

Source: arXiv 2105.04663, section 4 (the partitioner's choice per operator), as one cost comparison.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, canonical, overlap, size_of, starts_with
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.placement import FactorAxes, factor_axes, tensor_axes
from gspmd.dialect.rule import PASS_THROUGH, PERMUTATION, REDUCTION, OpShardingRule
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.transforms.emit.counting import Sent
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.ops import traits_of
from gspmd.transforms.ops.local_form import sent_by
from gspmd.transforms.ops.op_definition import OpTable, Shardings, definition_of
from gspmd.transforms.reshard.assignments import agreed, assignments, valid
from gspmd.transforms.reshard.path import MoveBudget
from gspmd.transforms.reshard.planner import Planner
from gspmd.transforms.reshard.traffic import least_bytes, sent_bytes

# What an operation's tensors agree on (the batch of activations and of what is made of them, a contraction that
# both sides are split over) is given up only for something this many times cheaper: taken alone the operation may
# gain, but its neighbours, computed alike, would not, and gathered operands are computed with again on every device.
AGREEMENT_WORTH = 8
# Devices along axes that no tensor uses would all do the same. They do a part each, which another collective puts
# together, where something is more than this many times cheaper by it, as they send and gather less.
SHARING_WORTH = 1.5
# The kinds of arithmetic of which no device is given more than it has, to save bytes.
CONTRACTIONS = ("dot", "convolution")
# Sums of the same times in another order differ by less.
_ROUNDING = 1e-9
# Where elements are only looked up or put into place nothing is computed again, so that less suffices.
LOOKUP_WORTH = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Situation:
    """An operation with the shardings that its operands have and its results are wanted with.

    `free` operands are constants, which cost nothing to move. `held` are the manual axes that the operation is inside
    of. `moved` are the shardings that each operand has been moved to for earlier users, which may serve again. `runs`
    is how often the operation runs each time that an operand is moved, where that is before a loop. `alike` has for
    each operand the number of the first that is the same value, where some are.
    """

    info: OpInfo
    operands: tuple[TensorSharding, ...]
    results: tuple[TensorSharding, ...]
    free: tuple[bool, ...]
    held: Axes = ()
    moved: tuple[tuple[TensorSharding, ...], ...] = ()
    runs: tuple[int, ...] = ()
    alike: tuple[int, ...] = ()
    _hash: int = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        key = (self.info, self.operands, self.results, self.free, self.held, self.moved, self.runs, self.alike)
        object.__setattr__(self, "_hash", hash(key))

    def __hash__(self) -> int:
        return self._hash

    def runs_with(self, index: int) -> int:
        """How often the operation runs with an operand that was moved once."""
        return self.runs[index] if self.runs else 1

    def sources(self, index: int) -> tuple[TensorSharding, ...]:
        """What an operand is at hand as: what it is, and what it has been moved to for others."""
        return (self.operands[index], *(self.moved[index] if self.moved else ()))

    def moves(self, needs: Sequence[TensorSharding]) -> Iterator[tuple[int, TensorSharding]]:
        """The operands that have to be moved to what the operation needs, each value once to each sharding."""
        for index, (have, need) in enumerate(zip(self.operands, needs, strict=False)):
            if have != need and not self.free[index] and not self._is_moved_before(index, needs):
                yield index, need

    def _is_moved_before(self, index: int, needs: Sequence[TensorSharding]) -> bool:
        """Whether an operand is the same value as an earlier one, and needed as that is."""
        if not self.alike or self.alike[index] == index:
            return False
        return any(self.alike[i] == self.alike[index] and needs[i] == needs[index] for i in range(index))

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


class _Assigned(NamedTuple):
    """An assignment of axes to the factors of a rule, and the shardings under it.

    With idle axes, `alone` is the assignment without them. `compute_s` are the seconds of arithmetic and memory
    traffic.
    """

    axes: FactorAxes
    alone: FactorAxes
    made: tuple[TensorSharding, ...]
    compute_s: float

    @property
    def weight(self) -> float:
        """How many times its seconds count in a comparison."""
        return 1 if self.axes is self.alone else SHARING_WORTH


class _Way(NamedTuple):
    """An assignment in a situation: `least_s` are the fewest seconds that it takes, `weighed_s` what they count as.

    Moving operands and results adds to the seconds of arithmetic what devices lack, at least.
    """

    assigned: _Assigned
    least_s: float
    weighed_s: float


_Counted: TypeAlias = tuple[float, tuple[bool, int], Strategy]
"""A strategy behind what it counts as: seconds, and of those that take the same, which is to come first."""


class Chooser:
    """Chooses strategies; equal situations are decided once."""

    def __init__(self, planner: Planner, table: OpTable, context: ir.Context) -> None:
        self.planner = planner
        self.table = table
        self.hardware = planner.hardware
        self._context = context
        self._chosen: dict[tuple[OpShardingRule, Situation], Strategy] = {}
        self._flops: dict[OpInfo, float] = {}
        self._evenly_s: dict[OpInfo, float] = {}
        self._sent: dict[tuple[OpShardingRule, OpInfo, Shardings, Shardings], tuple[Sent, ...] | None] = {}
        self._assigned: dict[tuple[OpShardingRule, OpInfo, Shardings, Shardings, Axes], list[_Assigned]] = {}
        self._ways: dict[tuple[OpShardingRule, Situation], list[_Way]] = {}
        self._lacked: dict[tuple[TensorType, TensorSharding, TensorSharding], float] = {}
        self._held: dict[tuple[TensorType, TensorSharding], float] = {}

    def choose(self, rule: OpShardingRule, situation: Situation) -> Strategy:
        """The cheapest strategy by any of the operation's rules."""
        key = rule, situation
        found = self._chosen.get(key)
        if found is None:
            found = self._chosen[key] = self._choose(rule, situation)
        return found

    def _choose(self, rule: OpShardingRule, situation: Situation) -> Strategy:
        as_it_is: Strategy | None = None
        if self._agree(rule, situation.split(rule), situation.shardings):
            if not self.local_form(rule, situation.info, situation.operands, situation.results):
                return Strategy(rule, situation.operands, situation.results, 0.0)
            axes = _axes_of(rule, situation.shardings)
            as_it_is = self._price(rule, self._way(rule, axes, situation), situation)
        with self.planner.choosing() as budget:
            ways = [self._best(way, situation, budget) for way in (rule, *self.other_rules(situation.info))]
        best = ways[0]
        for way in ways[1:]:
            if _is_less(way.time_s, best.time_s):
                best = way
        if as_it_is is not None and self.sent_bytes(situation, as_it_is) <= self.sent_bytes(situation, best):
            best = as_it_is  # fewer collectives alone are not worth doing it otherwise
        return dataclasses.replace(best, complete=False) if budget.used_up else best

    def takes_more(self, rule: OpShardingRule, situation: Situation, than_s: float) -> bool:
        """Whether all ways to run an operation take more seconds, as far as is known before moves are planned."""
        rules = (rule, *self.other_rules(situation.info))
        return all(way.least_s > than_s for each in rules for way in self._possible(each, situation))

    def other_rules(self, info: OpInfo) -> tuple[OpShardingRule, ...]:
        definition = definition_of(self.table, info)
        return definition.others(info) if definition is not None and definition.others is not None else ()

    def _best(self, rule: OpShardingRule, situation: Situation, budget: MoveBudget) -> Strategy:
        """The cheapest strategy by one rule."""
        common = agreed(rule, situation.split(rule))
        worth = LOOKUP_WORTH if _puts_or_takes(situation.info) else AGREEMENT_WORTH
        # The best of those that keep what is agreed on, and of all, with what counts for the comparison.
        kept: _Counted | None = None
        best: _Counted | None = None
        # Those that may take least come first, so that few of the others are planned. Of those that take the same, the
        # one is taken that moves operands, which may serve other operations, and no results; then the one that is
        # listed first: what it runs with is more like what the tensors have.
        listed = enumerate(self._possible(rule, situation))
        for number, way in sorted(listed, key=lambda entry: entry[1].weighed_s):
            if budget.used_up and best is not None:
                break
            axes, weight = way.assigned.axes, way.assigned.weight
            keeps = all(starts_with(axes.get(factor, ()), mine) for factor, mine in common.items())
            bound = kept if keeps else best
            bound_s = bound[0] * (1 + _ROUNDING) / weight if bound else math.inf
            found = self._price(rule, way, situation, bound_s)
            if found is None:
                continue
            counted = (weight * found.time_s, (_moves_results(found, situation), number), found)
            if keeps and (kept is None or _is_before(counted, kept)):
                kept = counted
            if best is None or _is_before(counted, best):
                best = counted
        if best is None:
            whole = self._price(rule, self._way(rule, {}, situation), situation)
            assert whole is not None, "computing everything whole is always possible"
            return whole
        return best[2] if kept is None or best[0] * worth < kept[0] else kept[2]

    def candidates(self, rule: OpShardingRule, situation: Situation) -> list[tuple[Strategy, float]]:
        """The strategies that `choose` compares, the cheapest first, each with the bytes that a device sends for it.

        They are fewer where the planner's budget is used up.
        """
        return [(way, self.sent_bytes(situation, way)) for way in self.ways(rule, situation)]

    def ways(self, rule: OpShardingRule, situation: Situation) -> list[Strategy]:
        """The strategies that `choose` compares, the cheapest first."""
        with self.planner.choosing() as budget:
            return self._candidates(rule, situation, budget)

    def possible(self, rule: OpShardingRule, situation: Situation) -> list[tuple[TensorSharding, ...]]:
        """The shardings of operands and results of all ways that `choose` compares, those that may take least first.

        Nothing is planned for them.
        """
        rules = (rule, *self.other_rules(situation.info))
        ways = [way for each in rules for way in self._possible(each, situation)]
        return list(dict.fromkeys([way.assigned.made for way in sorted(ways, key=lambda way: way.weighed_s)]))

    def _candidates(self, rule: OpShardingRule, situation: Situation, budget: MoveBudget) -> list[Strategy]:
        found: dict[tuple[TensorSharding, ...], Strategy] = {}
        for way in (rule, *self.other_rules(situation.info)):
            for each in (*self._possible(way, situation), self._way(way, {}, situation)):
                if budget.used_up and found:
                    break
                priced = self._price(way, each, situation)
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

    def _possible(self, rule: OpShardingRule, situation: Situation) -> list[_Way]:
        """The assignments that can be written, in the order in which they are found."""
        key = rule, situation
        found = self._ways.get(key)
        if found is None:
            found = self._ways[key] = [
                self._in_situation(each, situation) for each in self._assignments(rule, situation)
            ]
        return found

    def _assignments(self, rule: OpShardingRule, situation: Situation) -> list[_Assigned]:
        """The same without what depends on where operands are moved from."""
        key = rule, situation.info, situation.operands, situation.results, situation.held
        found = self._assigned.get(key)
        if found is None:
            pairs = assignments(rule, situation.split(rule), situation.idle(self.planner.mesh))
            assigned = [self._assign(rule, axes, alone, situation) for axes, alone in pairs]
            found = self._assigned[key] = [
                each for each in (self._as_wanted(rule, situation), *assigned) if each is not None
            ]
        return found

    def _as_wanted(self, rule: OpShardingRule, situation: Situation) -> _Assigned | None:
        """To make the results as they are wanted of the operands nearly as they are, where the local form has that."""
        definition = definition_of(self.table, situation.info)
        made = None if definition is None else definition.nearest(situation.info, situation.shardings)
        if made is None:
            return None
        axes = _axes_of(rule, made)
        return _Assigned(axes, axes, made, self._compute_time(rule, situation.info, axes, made))

    def _way(self, rule: OpShardingRule, axes: FactorAxes, situation: Situation) -> _Way | None:
        """The way that leaves idle axes idle and splits factors over these; None where it cannot be written."""
        assigned = self._assign(rule, axes, axes, situation)
        return None if assigned is None else self._in_situation(assigned, situation)

    def _assign(
        self, rule: OpShardingRule, axes: FactorAxes, alone: FactorAxes, situation: Situation
    ) -> _Assigned | None:
        """An assignment with what follows from it; None where it cannot be written.

        Arithmetic is counted as `alone` has it: that devices along idle axes repeat it is what was asked for.
        """
        made = self._shardings(rule, axes, situation.shardings)
        if made is None:
            return None
        return _Assigned(axes, alone, made, self._compute_time(rule, situation.info, alone, made))

    def _in_situation(self, assigned: _Assigned, situation: Situation) -> _Way:
        least_s = assigned.compute_s + self._least_time(situation, assigned.made)
        return _Way(assigned, least_s, least_s * assigned.weight)

    def _price(
        self, rule: OpShardingRule, way: _Way | None, situation: Situation, bound_s: float = math.inf
    ) -> Strategy | None:
        """The strategy with its cost, None when it cannot be written or costs more than `bound_s`.

        What is not planned yet counts with the least that it takes.
        """
        if way is None or way.least_s >= bound_s:
            return None
        info, count, made = situation.info, len(situation.operands), way.assigned.made
        time_s, slack_s = way.assigned.compute_s, bound_s - way.least_s
        for index, need in situation.moves(made):
            sources, runs = situation.sources(index), situation.runs_with(index)
            _, path = self.planner.nearest(info.operands[index], sources, need)
            time_s += path.time_s / runs
            slack_s -= (path.time_s - self._lacks_s(info.operands[index], sources, need)) / runs
            if slack_s <= 0:
                return None
        for type_, have, need in zip(info.results, made[count:], situation.results, strict=True):
            if have != need:
                path = self.planner.plan(type_, have, need)
                time_s += path.time_s
                slack_s -= path.time_s - self._lacks_s(type_, (have,), need)
                if slack_s <= 0:
                    return None
        local = self.local_form(rule, info, made[:count], made[count:])
        if local is None:
            return None
        time_s += sum(collective.time_s(self.hardware) for collective in local)
        return Strategy(rule, made[:count], made[count:], time_s)

    def _least_time(self, situation: Situation, made: tuple[TensorSharding, ...]) -> float:
        """Seconds that moving operands and results takes at least: to send every device what it lacks."""
        if self.hardware.axes:
            return 0.0
        time_s, info, count = 0.0, situation.info, len(situation.operands)
        for index, need in situation.moves(made):
            lacks_s = self._lacks_s(info.operands[index], situation.sources(index), need)
            time_s += lacks_s / situation.runs_with(index)
        for type_, have, need in zip(info.results, made[count:], situation.results, strict=True):
            if have != need:
                time_s += self._lacks_s(type_, (have,), need)
        return time_s

    def _lacks_s(self, type_: TensorType, sources: tuple[TensorSharding, ...], need: TensorSharding) -> float:
        """Seconds that it takes at least to send devices what they lack of a value, from the best of its sources.

        Where links differ, it is not known through which of them that goes, and 0.
        """
        if self.hardware.axes:
            return 0.0
        least_s = math.inf
        for source in sources:
            key = type_, source, need
            found = self._lacked.get(key)
            if found is None:
                found = self._lacked[key] = least_bytes(*key) / self.hardware.link_bytes_per_s
            least_s = min(least_s, found)
        return least_s

    def local_bytes(self, type_: TensorType, sharding: TensorSharding) -> float:
        """Bytes of a device's part of a value."""
        key = type_, sharding
        found = self._held.get(key)
        if found is None:
            elements = math.prod(sharding.local_shape(type_.shape))
            found = self._held[key] = elements * element_bytes(type_.element)
        return found

    def sent_bytes(self, situation: Situation, strategy: Strategy) -> float:
        """Bytes that a device sends for a strategy in one run: before the operation, in it, and after it."""
        info, total = situation.info, 0.0
        for index, need in situation.moves(strategy.operands):
            type_ = info.operands[index]
            source, path = self.planner.nearest(type_, situation.sources(index), need)
            total += sent_bytes(type_, source, path.steps) / situation.runs_with(index)
        for type_, have, need in zip(info.results, strategy.results, situation.results, strict=True):
            if have != need:
                total += sent_bytes(type_, have, self.planner.plan(type_, have, need).steps)
        local = self.local_form(strategy.rule, info, strategy.operands, strategy.results)
        return total + sum(collective.bytes for collective in local or ())

    def _compute_time(
        self, rule: OpShardingRule, info: OpInfo, axes: FactorAxes, made: tuple[TensorSharding, ...]
    ) -> float:
        """Seconds of arithmetic and memory traffic on one device."""
        time_s = self._touched_bytes(info, made) / self.hardware.memory_bytes_per_s
        flops = self.flops_of(info)
        if flops:
            flops *= self._share(rule, axes)
            time_s += flops / self.hardware.flops_of(info.operands[0].element)
        return time_s

    def evenly_s(self, info: OpInfo) -> float:
        """Seconds of arithmetic and memory traffic if all devices do an equal part of an operation, and no more."""
        found = self._evenly_s.get(info)
        if found is None:
            mesh = self.planner.mesh
            whole = tuple([replicated(mesh, len(type_.shape)) for type_ in (*info.operands, *info.results)])
            time_s = self._touched_bytes(info, whole) / self.hardware.memory_bytes_per_s
            if flops := self.flops_of(info):
                time_s += flops / self.hardware.flops_of(info.operands[0].element)
            found = self._evenly_s[info] = time_s / mesh.size
        return found

    def _touched_bytes(self, info: OpInfo, made: tuple[TensorSharding, ...]) -> float:
        """Bytes that a device reads and writes."""
        pairs = zip(info.operands + info.results, made, strict=True)
        return float(touched_bytes(info, [self.local_bytes(t, sharding) if t.shape else 0.0 for t, sharding in pairs]))

    def work_of(self, situation: Situation, strategy: Strategy) -> tuple[float, float]:
        """The seconds that a strategy takes, also where nothing is sent, and a device's operations in contractions."""
        info, made = situation.info, strategy.operands + strategy.results
        axes = _axes_of(strategy.rule, made)
        counted = traits_of(info.name).flops
        contracts = counted is not None and counted.kind in CONTRACTIONS and _sums(strategy.rule)
        work = self._share(strategy.rule, axes) * self.flops_of(info) if contracts else 0.0
        return strategy.time_s or self._compute_time(strategy.rule, info, axes, made), work

    @staticmethod
    def _share(rule: OpShardingRule, axes: FactorAxes) -> float:
        """The part of an operation's arithmetic that one device does."""
        parts = ((n, size_of(axes.get(factor, ()))) for factor, n in enumerate(rule.sizes))
        return math.prod(-(-n // count) / n for n, count in parts if n and count > 1)

    def flops_of(self, info: OpInfo) -> float:
        found = self._flops.get(info)
        if found is None:
            counted = traits_of(info.name).flops
            found = self._flops[info] = counted.count(info) if counted is not None else 0.0
        return found

    def local_form(
        self,
        rule: OpShardingRule,
        info: OpInfo,
        operands: tuple[TensorSharding, ...],
        results: tuple[TensorSharding, ...],
    ) -> tuple[Sent, ...] | None:
        """The collectives within the local form, as halos are; None where there is no local form for the shardings."""
        definition = definition_of(self.table, info)
        if definition is None or definition.localize is None:
            return ()
        as_they_are = operands != results and definition.takes_any(info, operands + results)
        if not (_is_moved(rule, operands) or as_they_are):
            return ()
        key = rule, info, operands, results
        if key not in self._sent:
            try:
                self._sent[key] = sent_by(definition.localize, info, rule, operands, results, self._context)
            except Unsupported:
                self._sent[key] = None
        return self._sent[key]


_Bytes = TypeVar("_Bytes", float, npt.NDArray[np.float64])


def touched_bytes(info: OpInfo, held: list[_Bytes]) -> _Bytes | float:
    """Bytes that are read and written of what is held of operands and results, each a number or one for every way.

    Of what is looked up in, or updated, that is only the part that is.
    """
    count, traits = len(info.operands), traits_of(info.name)
    if traits.looks_up:
        held[0] = np.minimum(held[0], sum(held[count:]))
    if traits.update is not None:
        part = held[:count][traits.update]
        held[0], held[count] = np.minimum(held[0], part), np.minimum(held[count], part)
    return sum(held)


def same_values(operands: Sequence[int]) -> tuple[int, ...]:
    """For each operand the number of the first that is the same value; empty where all are different."""
    if len(set(operands)) == len(operands):
        return ()
    first = dict[int, int]()
    return tuple([first.setdefault(value, number) for number, value in enumerate(operands)])


def _axes_of(rule: OpShardingRule, shardings: tuple[TensorSharding, ...]) -> FactorAxes:
    """The axes of the factors where all tensors agree on them."""
    found: FactorAxes = {}
    for tensor, sharding in enumerate(shardings):
        found.update(factor_axes(rule, tensor, sharding))
    return found


def _sums(rule: OpShardingRule) -> bool:
    """Whether elements are summed up: an outer product only multiplies each by each."""
    return any(kind is REDUCTION and size > 1 for kind, size in zip(rule.kinds, rule.sizes, strict=True))


def _moves_results(strategy: Strategy, situation: Situation) -> bool:
    """Whether results are moved behind the operation, sums that are left apart excepted."""
    return any(
        made != wanted and not made.unreduced for made, wanted in zip(strategy.results, situation.results, strict=True)
    )


def _is_before(new: _Counted, old: _Counted) -> bool:
    """Whether it takes less, or as much and is to come first."""
    return _is_less(new[0], old[0]) or (new[1] < old[1] and not _is_less(old[0], new[0]))


def _is_less(time_s: float, than_s: float) -> bool:
    """Whether a time is less by more than rounding; of equal ways the first is taken."""
    return time_s < than_s * (1 - _ROUNDING)


def _puts_or_takes(info: OpInfo) -> bool:
    """Whether elements are only looked up, or put into place."""
    traits = traits_of(info.name)
    return traits.looks_up or traits.update is not None


def _is_moved(rule: OpShardingRule, operands: tuple[TensorSharding, ...]) -> bool:
    """Whether an operand is split along a factor of which devices need what others hold."""
    return any(rule.kinds[factor] is PERMUTATION for t, s in enumerate(operands) for factor in factor_axes(rule, t, s))
