"""The strategies of operations and their costs, computed once for equal operations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.placement import FactorAxes, factor_axes
from gspmd.dialect.rule import PASS_THROUGH, PERMUTATION, OpShardingRule
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.analysis.buffers import Buffers
from gspmd.transforms.decide.domains import Domains
from gspmd.transforms.decide.objective import Objective
from gspmd.transforms.decide.prices import PriceBook
from gspmd.transforms.decide.strategies import Allowed, Strategies, StrategyBook
from gspmd.transforms.decide.sums import Sums
from gspmd.transforms.decide.value_table import ValueTable
from gspmd.transforms.decide.work import CONTRACTIONS, WorkBook, touched_bytes, touched_parts
from gspmd.transforms.emit.partial_values import is_taking_apart, partial_sharding
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.program import Op
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.ops import traits_of
from gspmd.transforms.ops.op_definition import definition_of
from gspmd.transforms.paths.placements import Bools, Floats, Ints, Placements


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class OpClass:
    """The strategies of a class of equal operations, by any of their rules: the placement of each tensor, the seconds
    of the work and of communication inside, and whether the local form communicates. `key` identifies the class.
    """

    key: int
    tensors: tuple[Ints, ...]
    cost_s: Floats
    moves_inside: Bools


class _OpKind(NamedTuple):
    """The key of a class: `reference` are the placements by propagation, -1 for constants; `linear` are the operands
    that may be partial, and `held` the manual axes around the operation. `wanted` are the placements in which consumers
    need a single result, if the local form can produce these. `touched` is the memory that it reads and writes for each
    byte of its tensors.
    """

    info: OpInfo
    rule: OpShardingRule
    held: Axes
    linear: tuple[int, ...]
    reference: tuple[int, ...]
    touched: tuple[float, ...]
    wanted: tuple[int, ...] = ()

    @property
    def types(self) -> tuple[TensorType, ...]:
        return self.info.operands + self.info.results

    @property
    def placed(self) -> list[int]:
        """The same with replicated constants."""
        return [max(number, 0) for number in self.reference]


class OpClasses:
    """The classes of a program's operations, with the cost of each strategy under the objective."""

    def __init__(
        self, places: ValueTable, work: WorkBook, domains: Domains, sums: Sums, prices: PriceBook, ways: StrategyBook,
        objective: Objective,
    ) -> None:  # fmt: skip
        self._places, self._work, self._domains, self._sums = places, work, domains, sums
        self._prices, self._ways, self._objective = prices, ways, objective
        self._hardware, self._parts = prices.hardware, prices.parts
        self._buffers = Buffers(places.program)
        self._known: dict[_OpKind, OpClass] = {}

    def of(self, op: Op) -> OpClass:
        """The class of an operation."""
        places = self._places
        values = (*op.operands, *op.results)
        reference = tuple([-1 if places.is_free[value] else self._domains.now(value) for value in values])
        kind = _OpKind(
            op.info, places.rule(op), places.held[op.index], self._sums.linear(op), reference,
            touched_parts(op, self._buffers), self._wanted(op),
        )  # fmt: skip
        found = self._known.get(kind)
        if found is None:
            found = self._known[kind] = self._make(kind)
        return found

    def _wanted(self, op: Op) -> tuple[int, ...]:
        definition = definition_of(self._work.table, op.info)
        if definition is None or not definition.any_shards or len(op.results) > 1:
            return ()
        needs = [use.need for use in self._places.needs.get(op.results[0], ()) if use.need is not None]
        return tuple(sorted({self._domains.table(op.results[0]).number(need) for need in needs}))

    def _make(self, kind: _OpKind) -> OpClass:
        found = list(self._all_ways(kind))
        self._add_repeated(kind, found)
        tensors = tuple(np.concatenate([ways.tensors[t] for ways, _ in found]) for t in range(len(kind.types)))
        inside = np.concatenate([ways.moves_inside for ways, _ in found])
        cost_s = np.concatenate([cost_s for _, cost_s in found])
        for numbers, reference in zip(tensors[: len(kind.info.operands)], kind.reference, strict=False):
            if reference >= 0:
                cost_s = cost_s + np.where(numbers == reference, 0.0, self._objective.surprise_s)
        return OpClass(len(self._known), tensors, cost_s, inside)

    def _all_ways(self, kind: _OpKind) -> Iterator[tuple[Strategies, Floats]]:
        """The strategies and their costs, by every rule of the operation."""
        for rule in (kind.rule, *self._work.other_rules(kind.info)):
            if rule.inference is None:
                allowed = self._allowed(rule, kind) if self._parts.is_limited else None
                linear = kind.linear if rule is kind.rule else ()
                ways = self._ways.of(rule, kind.held, linear, allowed, self._is_exchanged(rule, kind))
                yield self._with_local_forms(kind, ways, self._work_s(kind, ways))
        listed = [kind.placed, *([*kind.placed[:-1], number] for number in kind.wanted if number != kind.placed[-1])]
        for found in (*(self._as_it_is(kind, numbers) for numbers in listed), self._taken_apart(kind)):
            if found is not None:
                yield found

    def _is_exchanged(self, rule: OpShardingRule, kind: _OpKind) -> bool:
        """Whether propagation splits a tensor along a factor of which every device needs all.

        Then another factor may be split instead, even if it does not divide evenly.
        """
        if rule is not kind.rule or not (rule.exchanged or PERMUTATION in rule.kinds):
            return False
        return any(
            rule.kinds[factor] is PERMUTATION or factor in rule.exchanged
            for split in self._split(rule, kind)
            for factor in split
        )

    def _table(self, rank: int, kind: _OpKind) -> Placements:
        return self._parts.of(rank, kind.held)

    def _shardings(self, kind: _OpKind, numbers: Iterable[int]) -> tuple[TensorSharding, ...]:
        pairs = zip(kind.types, numbers, strict=True)
        return tuple(self._table(len(type_.shape), kind).sharding(number) for type_, number in pairs)

    # ---- costs of strategies ----

    def _work_s(self, kind: _OpKind, ways: Strategies) -> Floats:
        """Seconds of arithmetic or memory traffic on one device, whichever is longer."""
        time_s, flops = self._traffic_s(kind, ways), self._work.flops_of(kind.info)
        if flops:
            time_s = np.maximum(time_s, ways.share * (flops / self._hardware.flops_of(kind.info.operands[0].element)))
        return time_s

    def _traffic_s(self, kind: _OpKind, ways: Strategies) -> Floats:
        """Seconds of memory traffic on one device."""
        held = [
            self._table(len(type_.shape), kind).local(type_.shape, numbers) * element_bytes(type_.element)
            if type_.shape
            else np.zeros(len(numbers))
            for type_, numbers in zip(kind.types, ways.tensors, strict=True)
        ]
        touched = touched_bytes(kind.info, held, kind.touched)
        found: Floats = np.zeros(len(ways.share)) + touched / self._hardware.memory_bytes_per_s
        return found

    def _with_local_forms(self, kind: _OpKind, ways: Strategies, cost_s: Floats) -> tuple[Strategies, Floats]:
        """The strategies with a local form, and the seconds of its communication.

        If it communicates, only strategies along axes that already split some tensor.
        """
        kept = np.ones(len(cost_s), bool)
        for n in np.nonzero(ways.moves_inside)[0].tolist():
            numbers = [int(each[n]) for each in ways.tensors]
            sent_s = self._sent_s(kind, ways.rule, numbers) if self._is_along_reference(kind, numbers) else None
            if sent_s is None:
                kept[n] = False
            else:
                cost_s[n] += sent_s
        return ways.taken(kept), cost_s[kept]

    def _is_along_reference(self, kind: _OpKind, numbers: list[int]) -> bool:
        if self._places.is_open:
            return True
        for type_, number, reference in zip(kind.types, numbers, kind.reference, strict=True):
            lists = self._table(len(type_.shape), kind).lists
            if reference >= 0 and not set(lists[number].tolist()) <= {0, *lists[reference].tolist()}:
                return False
        return True

    def _sent_s(self, kind: _OpKind, rule: OpShardingRule, numbers: list[int]) -> float | None:
        """Seconds of the local form's communication; None if there is no local form for these placements."""
        shardings, count = self._shardings(kind, numbers), len(kind.info.operands)
        local = self._work.local_form(rule, kind.info, shardings[:count], shardings[count:])
        return None if local is None else sum(sent.time_s(self._hardware) for sent in local)

    def _as_it_is(self, kind: _OpKind, numbers: list[int]) -> tuple[Strategies, Floats] | None:
        """The strategy closest to the current and needed placements, for operations not limited by factors."""
        definition = definition_of(self._work.table, kind.info)
        shardings = self._shardings(kind, numbers)
        nearest = None if definition is None else definition.nearest(kind.info, shardings)
        if nearest is not None and all(self._parts.has(axes) for each in nearest for axes in each.dim_axes()):
            numbers = [self._table(each.rank, kind).number(each) for each in nearest]
        elif kind.rule.inference is None:
            return None
        takes_any = nearest is not None
        ways = Strategies(kind.rule, tuple(np.array([n]) for n in numbers), np.ones(1), np.array([takes_any]))
        sent_s = self._sent_s(kind, kind.rule, numbers) if takes_any else 0.0
        return None if sent_s is None else (ways, self._work_s(kind, ways) + sent_s)

    def _taken_apart(self, kind: _OpKind) -> tuple[Strategies, Floats] | None:
        """The strategies that keep summands partial along some axes, for a value that is split into summands."""
        if not is_taking_apart(kind.info) or kind.reference[0] < 0:  # a constant is computed on every device
            return None
        value, goal = kind.types[0], self._shardings(kind, kind.placed)[1]
        table, wanted = self._table(len(value.shape), kind), partial_sharding(goal)
        mask = self._parts.mask_of(wanted.unreduced)
        masks = np.array([each for each in self._parts.sums if not each & ~mask], np.int64)
        (row,) = table.rows(np.array([[self._parts.list_of(axes) for axes in wanted.dim_axes()]]))
        numbers = table.with_sums(np.full(len(masks), row), masks)
        numbers = numbers[numbers >= 0]
        tensors = numbers, np.full(len(numbers), kind.placed[1])
        found = Strategies(kind.rule, tensors, np.ones(len(numbers)), np.zeros(len(numbers), bool))
        return found, np.zeros(len(numbers))

    # ---- repeated work ----

    def _add_repeated(self, kind: _OpKind, found: list[tuple[Strategies, Floats]]) -> None:
        """Charge strategies of contractions for work that devices repeat beyond that of propagation."""
        counted = traits_of(kind.info.name).flops
        if counted is None or counted.kind not in CONTRACTIONS:
            return
        whole_s = self._work.flops_of(kind.info) / self._hardware.flops_of(kind.info.operands[0].element)
        least = min(self._share_as_it_is(kind, found, whole_s), self._share_agreed(kind))
        for ways, cost_s in found:
            cost_s += self._objective.repeated * whole_s * np.maximum(ways.share - least, 0.0)

    def _share_as_it_is(self, kind: _OpKind, found: list[tuple[Strategies, Floats]], whole_s: float) -> float:
        """A device's share of the arithmetic with the shardings of propagation.

        Arithmetic counts even if memory traffic dominates, so that small contractions are shared, too.
        """
        best_s, share, count = np.inf, 1.0, len(kind.info.operands)
        for ways, cost_s in found:
            total_s = cost_s + whole_s * ways.share
            for t, (type_, number) in enumerate(zip(kind.types, kind.reference, strict=True)):
                table, now = self._table(len(type_.shape), kind), np.array([number])
                if number >= 0 and t < count:
                    total_s += self._prices.moves(type_, table, now, ways.tensors[t])[0]
                elif number >= 0:
                    total_s += self._prices.moves(type_, table, ways.tensors[t], now)[:, 0]
            if len(total_s) and total_s.min() < best_s:
                best_s, share = float(total_s.min()), float(ways.share[total_s.argmin()])
        return share

    def _share_agreed(self, kind: _OpKind) -> float:
        """A device's share if all factors on which the tensors agree are split."""
        share = 1.0
        for factor, axes in _agreed(kind.rule, self._split(kind.rule, kind)).items():
            size = kind.rule.sizes[factor]
            share *= -(-size // size_of(axes)) / size if size else 1.0
        return share

    def _split(self, rule: OpShardingRule, kind: _OpKind) -> list[FactorAxes]:
        """The axes of a rule's factors by propagation, tensor by tensor."""
        shardings = self._shardings(kind, kind.placed)
        return [factor_axes(rule, t, sharding) for t, sharding in enumerate(shardings)]

    def _allowed(self, rule: OpShardingRule, kind: _OpKind) -> Allowed:
        """The axes that split a factor in a tensor, wholly or partly; any part of them if results carry the factor."""
        if self._places.is_open:
            return (tuple(range(len(self._parts.lists))),) * len(rule.sizes)
        found: list[set[int]] = [{0} for _ in rule.sizes]
        everywhere: set[int] = set()
        for split in self._split(rule, kind):
            for factor, axes in split.items():
                if self._parts.has(axes):
                    lists = self._parts.prefixes(self._parts.list_of(axes))
                    found[factor].update(lists)
                    everywhere.update(lists)
        for factor, factor_kind in enumerate(rule.kinds):
            if factor_kind is PASS_THROUGH:
                found[factor] |= everywhere
        return tuple(tuple(sorted(each)) for each in found)


def _agreed(rule: OpShardingRule, split: list[FactorAxes]) -> FactorAxes:
    """The factors of several tensors that all of these split over the same axes."""
    found: FactorAxes = {}
    for factor in range(len(rule.sizes)):
        carriers = [
            axes.get(factor, ())
            for mapping, axes in zip(rule.tensors, split, strict=True)
            if any(factor in dim for dim in mapping)
        ]
        if factor in rule.exchanged:
            continue  # all elements move in any case
        if len(carriers) > 1 and carriers[0] and len(set(carriers)) == 1:
            found[factor] = carriers[0]
    return found
