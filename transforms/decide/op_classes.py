"""The strategies of operations and their costs, computed once for equal operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from gspmd.dialect.axes import size_of
from gspmd.dialect.placement import FactorAxes, factor_axes
from gspmd.dialect.rule import PASS_THROUGH, PERMUTATION, OpShardingRule
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.analysis.buffers import Buffers
from gspmd.transforms.decide.domains import Domains
from gspmd.transforms.decide.frame import Frame
from gspmd.transforms.decide.op_kinds import CostedKind, OpClass, OpKind
from gspmd.transforms.decide.strategies import Allowed, Strategies
from gspmd.transforms.decide.sums import Sums
from gspmd.transforms.decide.value_table import ValueTable
from gspmd.transforms.decide.work import CONTRACTIONS, WorkBook, touched_bytes, touched_parts
from gspmd.transforms.emit.partial_values import is_taking_apart, partial_sharding
from gspmd.transforms.ir.program import Op
from gspmd.transforms.ir.types import element_bytes
from gspmd.transforms.ops import traits_of
from gspmd.transforms.ops.op_definition import definition_of
from gspmd.transforms.paths.placements import Floats, Placements


class OpClasses:
    """The classes of a program's operations, with the cost of each strategy under the objective."""

    def __init__(self, values: ValueTable, work: WorkBook, domains: Domains, sums: Sums, frame: Frame) -> None:
        self._values, self._work, self._domains, self._sums = values, work, domains, sums
        self._buffers = Buffers(values.program)
        self._begin(frame)

    def _begin(self, frame: Frame) -> None:
        self._tables, self._known = frame.tables, frame.classes
        self._prices, self._strategies, self._objective = frame.prices, frame.strategies, frame.objective
        self._hardware, self._parts, self._is_open = frame.prices.hardware, frame.parts, frame.is_open

    def of(self, op: Op) -> OpClass:
        """The class of an operation."""
        values = self._values
        tensors = (*op.operands, *op.results)
        reference = tuple([-1 if values.is_splittable[value] else self._domains.now(value) for value in tensors])
        kind = OpKind(
            op.info, values.rule(op), values.held[op.index], self._sums.linear(op), reference,
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
        needs = [use.need for use in self._values.needs.get(op.results[0], ()) if use.need is not None]
        return tuple(sorted({self._domains.table(op.results[0]).number(need) for need in needs}))

    def _make(self, kind: OpKind) -> OpClass:
        found = list(self._all_strategies(kind))
        least_share = self._least_share(kind, found)
        return self._of_strategies(
            CostedKind(kind, tuple(strategies for strategies, _ in found), least_share),
            [cost_s for _, cost_s in found],
            len(self._known),
        )

    def _of_strategies(self, made_of: CostedKind, costs: list[Floats], key: int) -> OpClass:
        """The class with these strategies, whose work and communication cost `costs`."""
        kind, every, _ = made_of
        placements = [np.concatenate([each.tensors[t] for each in every]) for t in range(len(kind.types))]
        tensors = tuple(
            self._tables.domain(self._table(len(type_.shape), kind), numbers)
            for type_, numbers in zip(kind.types, placements, strict=True)
        )
        inside = np.concatenate([each.moves_inside for each in every])
        cost_s = np.concatenate(
            [each + self._repeated_s(made_of, strategies) for each, strategies in zip(costs, every, strict=True)]
        )
        for tensor, reference in zip(tensors[: len(kind.info.operands)], kind.reference, strict=False):
            if reference >= 0:
                cost_s = cost_s + np.where(tensor.numbers == reference, 0.0, self._objective.surprise_s)
        return OpClass(key, tensors, cost_s, inside, made_of)

    def _all_strategies(self, kind: OpKind) -> Iterator[tuple[Strategies, Floats]]:
        """The strategies and their costs, by every rule of the operation."""
        for rule in (kind.rule, *self._work.other_rules(kind.info)):
            if rule.inference is None:
                allowed = self._allowed(rule, kind) if self._parts.is_limited else None
                linear = kind.linear if rule is kind.rule else ()
                strategies = self._strategies.of(rule, kind.held, linear, allowed, self._is_exchanged(rule, kind))
                yield self._with_local_forms(kind, strategies, self._work_s(kind, strategies))
        listed = [kind.placed, *([*kind.placed[:-1], number] for number in kind.wanted if number != kind.placed[-1])]
        for found in (*(self._as_it_is(kind, numbers) for numbers in listed), self._split_into_summands(kind)):
            if found is not None:
                yield found

    def _is_exchanged(self, rule: OpShardingRule, kind: OpKind) -> bool:
        """Whether propagation splits a tensor along a factor whose elements devices exchange.

        Then another factor may be split instead, even unevenly.
        """
        if rule is not kind.rule or not (rule.exchanged or PERMUTATION in rule.kinds):
            return False
        return any(
            rule.kinds[factor] is PERMUTATION or factor in rule.exchanged
            for split in self._split(rule, kind)
            for factor in split
        )

    def _table(self, rank: int, kind: OpKind) -> Placements:
        return self._parts.of(rank, kind.held)

    def _shardings(self, kind: OpKind, numbers: Iterable[int]) -> tuple[TensorSharding, ...]:
        pairs = zip(kind.types, numbers, strict=True)
        return tuple(self._table(len(type_.shape), kind).sharding(number) for type_, number in pairs)

    # ---- costs of strategies ----

    def _work_s(self, kind: OpKind, strategies: Strategies) -> Floats:
        """Seconds of arithmetic or memory traffic on one device, whichever is longer."""
        if strategies.free:
            return np.zeros(len(strategies.share))
        time_s, flops = self._traffic_s(kind, strategies), self._work.flops_of(kind.info)
        if flops:
            time_s = np.maximum(
                time_s, strategies.share * (flops / self._hardware.flops_of(kind.info.operands[0].element))
            )
        return time_s

    def _traffic_s(self, kind: OpKind, strategies: Strategies) -> Floats:
        """Seconds of memory traffic on one device."""
        held = [
            self._table(len(type_.shape), kind).local(type_.shape, numbers) * element_bytes(type_.element)
            if type_.shape
            else np.zeros(len(numbers))
            for type_, numbers in zip(kind.types, strategies.tensors, strict=True)
        ]
        touched = touched_bytes(kind.info, held, kind.touched)
        found: Floats = np.zeros(len(strategies.share)) + touched / self._hardware.memory_bytes_per_s
        return found

    def _with_local_forms(self, kind: OpKind, strategies: Strategies, cost_s: Floats) -> tuple[Strategies, Floats]:
        """The strategies that have a local form, and their costs including its communication.

        Of the strategies whose local form communicates, only those over axes that already split the tensor are kept.
        """
        kept = np.ones(len(cost_s), bool)
        for n in np.nonzero(strategies.moves_inside)[0].tolist():
            numbers = [int(each[n]) for each in strategies.tensors]
            sent_s = self._sent_s(kind, strategies.rule, numbers) if self._is_along_reference(kind, numbers) else None
            if sent_s is None:
                kept[n] = False
            else:
                cost_s[n] += sent_s
        return strategies.taken(kept), cost_s[kept]

    def _is_along_reference(self, kind: OpKind, numbers: list[int]) -> bool:
        if self._is_open:
            return True
        for type_, number, reference in zip(kind.types, numbers, kind.reference, strict=True):
            lists = self._table(len(type_.shape), kind).lists
            if reference >= 0 and not set(lists[number].tolist()) <= {0, *lists[reference].tolist()}:
                return False
        return True

    def _sent_s(self, kind: OpKind, rule: OpShardingRule, numbers: list[int]) -> float | None:
        """Seconds of the local form's communication; None if there is no local form for these placements."""
        shardings, count = self._shardings(kind, numbers), len(kind.info.operands)
        local = self._work.local_form(rule, kind.info, shardings[:count], shardings[count:])
        return None if local is None else sum(sent.time_s(self._hardware) for sent in local)

    def _as_it_is(self, kind: OpKind, numbers: list[int]) -> tuple[Strategies, Floats] | None:
        """The strategy closest to the current and needed placements, for operations not limited by factors."""
        definition = definition_of(self._work.table, kind.info)
        shardings = self._shardings(kind, numbers)
        nearest = None if definition is None else definition.nearest(kind.info, shardings)
        if nearest is not None and all(self._parts.has(axes) for each in nearest for axes in each.dim_axes()):
            numbers = [self._table(each.rank, kind).number(each) for each in nearest]
        elif kind.rule.inference is None:
            return None
        takes_any = nearest is not None
        strategies = Strategies(kind.rule, tuple(np.array([n]) for n in numbers), np.ones(1), np.array([takes_any]))
        sent_s = self._sent_s(kind, kind.rule, numbers) if takes_any else 0.0
        return None if sent_s is None else (strategies, self._work_s(kind, strategies) + sent_s)

    def _split_into_summands(self, kind: OpKind) -> tuple[Strategies, Floats] | None:
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
        found = Strategies(kind.rule, tensors, np.ones(len(numbers)), np.zeros(len(numbers), bool), free=True)
        return found, self._work_s(kind, found)

    # ---- repeated work ----

    def _repeated_s(self, made_of: CostedKind, strategies: Strategies) -> Floats | float:
        """The charge for work of contractions that devices repeat beyond that of propagation."""
        if not _is_contraction(made_of.kind):
            return 0.0
        beyond = np.maximum(strategies.share - made_of.least_share, 0.0)
        charged_s: Floats = self._objective.repeated * self._whole_s(made_of.kind) * beyond
        return charged_s

    def _least_share(self, kind: OpKind, found: list[tuple[Strategies, Floats]]) -> float:
        """A device's share of the arithmetic by propagation."""
        if not _is_contraction(kind):
            return 0.0
        return min(self._share_as_it_is(kind, found), self._share_agreed(kind))

    def _whole_s(self, kind: OpKind) -> float:
        """Seconds of all of the arithmetic on one device."""
        return self._work.flops_of(kind.info) / self._hardware.flops_of(kind.info.operands[0].element)

    def _share_as_it_is(self, kind: OpKind, found: list[tuple[Strategies, Floats]]) -> float:
        """A device's share of the arithmetic with the shardings of propagation.

        Arithmetic counts even if memory traffic dominates, so that small contractions are shared, too.
        """
        best_s, share, count, whole_s = np.inf, 1.0, len(kind.info.operands), self._whole_s(kind)
        for strategies, cost_s in found:
            total_s = cost_s + whole_s * strategies.share
            for t, (type_, number) in enumerate(zip(kind.types, kind.reference, strict=True)):
                table, now = self._table(len(type_.shape), kind), np.array([number])
                if number >= 0 and t < count:
                    total_s += self._prices.moves(type_, table, now, strategies.tensors[t])[0]
                elif number >= 0:
                    total_s += self._prices.moves(type_, table, strategies.tensors[t], now)[:, 0]
            if len(total_s) and total_s.min() < best_s:
                best_s, share = float(total_s.min()), float(strategies.share[total_s.argmin()])
        return share

    def _share_agreed(self, kind: OpKind) -> float:
        """A device's share if all factors on which the tensors agree are split."""
        share = 1.0
        for factor, axes in _agreed(kind.rule, self._split(kind.rule, kind)).items():
            size = kind.rule.sizes[factor]
            share *= -(-size // size_of(axes)) / size if size else 1.0
        return share

    def _split(self, rule: OpShardingRule, kind: OpKind) -> list[FactorAxes]:
        """The axes of a rule's factors by propagation, tensor by tensor."""
        shardings = self._shardings(kind, kind.placed)
        return [factor_axes(rule, t, sharding) for t, sharding in enumerate(shardings)]

    def _allowed(self, rule: OpShardingRule, kind: OpKind) -> Allowed:
        """By factor, the axis lists that split it, and their prefixes; pass-through factors may have those of all."""
        if self._is_open:
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


def _is_contraction(kind: OpKind) -> bool:
    counted = traits_of(kind.info.name).flops
    return counted is not None and counted.kind in CONTRACTIONS


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


class ChosenClasses(OpClasses):
    """The classes of a solved problem with the chosen strategies alone, and their costs under another objective.

    `chosen` are the class and the strategy of an operation.
    """

    def __init__(self, classes: OpClasses, frame: Frame, chosen: Callable[[Op], tuple[OpClass, int]]) -> None:
        vars(self).update(vars(classes))
        self._begin(frame)
        self._chosen = chosen
        self._of_state: dict[tuple[int, int], OpClass] = {}

    def of(self, op: Op) -> OpClass:
        """The class of an operation."""
        made_of, state = self._chosen(op)
        found = self._of_state.get((made_of.key, state))
        if found is None:
            found = self._of_state[made_of.key, state] = self._alone(made_of.made_of, state)
        return found

    def _alone(self, made_of: CostedKind, state: int) -> OpClass:
        kind, strategies = made_of.kind, made_of.alone(state)
        cost_s = self._work_s(kind, strategies)
        if strategies.moves_inside[0]:
            sent_s = self._sent_s(kind, strategies.rule, [int(numbers[0]) for numbers in strategies.tensors])
            assert sent_s is not None, "strategies have local forms"
            cost_s = cost_s + sent_s
        return self._of_strategies(made_of._replace(strategies=(strategies,)), [cost_s], len(self._of_state))
