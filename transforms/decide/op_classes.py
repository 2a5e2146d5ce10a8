"""What operations may be run as, and what each way costs, once for all that are alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.placement import FactorAxes, factor_axes
from gspmd.dialect.rule import PASS_THROUGH, OpShardingRule
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.decide.domains import Domains
from gspmd.transforms.decide.placements import Bools, Floats, Ints, Placements
from gspmd.transforms.decide.prices import PriceBook
from gspmd.transforms.decide.sums import Sums
from gspmd.transforms.decide.ways import Allowed, RuleWays, WaysBook
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.program import Op
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.ops import traits_of
from gspmd.transforms.ops.op_definition import definition_of
from gspmd.transforms.refine.places import ValuePlaces
from gspmd.transforms.reshard.assignments import agreed
from gspmd.transforms.reshard.strategy import CONTRACTIONS, Chooser, touched_bytes


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class OpClass:
    """The ways to run operations that are alike, by any of their rules: the placement of each tensor, the seconds of
    the work and of what is sent inside, and whether the local form communicates. `key` tells classes apart.
    """

    key: int
    tensors: tuple[Ints, ...]
    cost_s: Floats
    moves_inside: Bools


class _OpKind(NamedTuple):
    """What the ways of an operation depend on: `reference` are the placements that propagation has found, -1 for
    constants; `linear` are the operands that may be summands, and `held` the manual axes around it.
    """

    info: OpInfo
    rule: OpShardingRule
    held: Axes
    linear: tuple[int, ...]
    reference: tuple[int, ...]

    @property
    def types(self) -> tuple[TensorType, ...]:
        return self.info.operands + self.info.results

    @property
    def placed(self) -> list[int]:
        """The same with constants whole."""
        return [max(number, 0) for number in self.reference]


class OpClasses:
    """The classes of a program's operations. Repeated arithmetic counts `repeated` times its seconds."""

    def __init__(
        self, places: ValuePlaces, chooser: Chooser, domains: Domains, sums: Sums, prices: PriceBook, ways: WaysBook,
        repeated: float,
    ) -> None:  # fmt: skip
        self._places, self._chooser, self._domains, self._sums = places, chooser, domains, sums
        self._prices, self._ways, self._repeated = prices, ways, repeated
        self._hardware, self._parts = prices.hardware, prices.parts
        self._known: dict[_OpKind, OpClass] = {}

    def of(self, op: Op) -> OpClass:
        """The class of an operation."""
        places = self._places
        values = (*op.operands, *op.results)
        reference = tuple([-1 if places.is_free[value] else self._domains.now(value) for value in values])
        kind = _OpKind(op.info, places.rule(op), places.held[op.index], self._sums.linear(op), reference)
        found = self._known.get(kind)
        if found is None:
            found = self._known[kind] = self._make(kind)
        return found

    def _make(self, kind: _OpKind) -> OpClass:
        found = list(self._all_ways(kind))
        self._add_repeated(kind, found)
        tensors = tuple(np.concatenate([ways.tensors[t] for ways, _ in found]) for t in range(len(kind.types)))
        inside = np.concatenate([ways.moves_inside for ways, _ in found])
        return OpClass(len(self._known), tensors, np.concatenate([cost_s for _, cost_s in found]), inside)

    def _all_ways(self, kind: _OpKind) -> Iterator[tuple[RuleWays, Floats]]:
        """By every rule of the operation, the ways and what they cost."""
        for rule in (kind.rule, *self._chooser.other_rules(kind.info)):
            if rule.inference is None:
                allowed = self._allowed(rule, kind) if self._parts.is_limited else None
                ways = self._ways.of(rule, kind.held, kind.linear if rule is kind.rule else (), allowed)
                yield self._with_local_forms(kind, ways, self._work_s(kind, ways))
        as_it_is = self._as_it_is(kind)
        if as_it_is is not None:
            yield as_it_is

    def _table(self, rank: int, kind: _OpKind) -> Placements:
        return self._parts.of(rank, kind.held)

    def _shardings(self, kind: _OpKind, numbers: Iterable[int]) -> tuple[TensorSharding, ...]:
        pairs = zip(kind.types, numbers, strict=True)
        return tuple(self._table(len(type_.shape), kind).sharding(number) for type_, number in pairs)

    # ---- what ways cost ----

    def _work_s(self, kind: _OpKind, ways: RuleWays) -> Floats:
        """Seconds of arithmetic and memory traffic on one device."""
        info = kind.info
        held = [
            self._table(len(type_.shape), kind).local(type_.shape, numbers) * element_bytes(type_.element)
            if type_.shape
            else np.zeros(len(numbers))
            for type_, numbers in zip(kind.types, ways.tensors, strict=True)
        ]
        time_s: Floats = np.zeros(len(ways.share)) + touched_bytes(info, held) / self._hardware.memory_bytes_per_s
        flops = self._chooser.flops_of(info)
        if flops:
            time_s = time_s + ways.share * (flops / self._hardware.flops_of(info.operands[0].element))
        return time_s

    def _with_local_forms(self, kind: _OpKind, ways: RuleWays, cost_s: Floats) -> tuple[RuleWays, Floats]:
        """The ways that have a local form, with the seconds of what that sends.

        Where it communicates, only ways along what some tensor is split over already.
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
        for type_, number, reference in zip(kind.types, numbers, kind.reference, strict=True):
            lists = self._table(len(type_.shape), kind).lists
            if reference >= 0 and not set(lists[number].tolist()) <= {0, *lists[reference].tolist()}:
                return False
        return True

    def _sent_s(self, kind: _OpKind, rule: OpShardingRule, numbers: list[int]) -> float | None:
        """Seconds of what the local form sends; None where there is none for these placements."""
        shardings, count = self._shardings(kind, numbers), len(kind.info.operands)
        local = self._chooser.local_form(rule, kind.info, shardings[:count], shardings[count:])
        return None if local is None else sum(sent.time_s(self._hardware) for sent in local)

    def _as_it_is(self, kind: _OpKind) -> tuple[RuleWays, Floats] | None:
        """The way that takes and makes all as propagation has it, where factors do not say what can be run."""
        numbers = kind.placed
        definition = definition_of(self._chooser.table, kind.info)
        takes_any = definition is not None and definition.takes_any(kind.info, self._shardings(kind, numbers))
        if kind.rule.inference is None and not takes_any:
            return None
        ways = RuleWays(kind.rule, tuple(np.array([n]) for n in numbers), np.ones(1), np.array([takes_any]))
        sent_s = self._sent_s(kind, kind.rule, numbers) if takes_any else 0.0
        return None if sent_s is None else (ways, self._work_s(kind, ways) + sent_s)

    # ---- what devices are to share ----

    def _add_repeated(self, kind: _OpKind, found: list[tuple[RuleWays, Floats]]) -> None:
        """Let ways of contractions cost what devices compute more than if values stay as they are."""
        counted = traits_of(kind.info.name).flops
        if counted is None or counted.kind not in CONTRACTIONS:
            return
        whole_s = self._chooser.flops_of(kind.info) / self._hardware.flops_of(kind.info.operands[0].element)
        least = min(self._share_as_it_is(kind, found), self._share_agreed(kind))
        for ways, cost_s in found:
            cost_s += self._repeated * whole_s * np.maximum(ways.share - least, 0.0)

    def _share_as_it_is(self, kind: _OpKind, found: list[tuple[RuleWays, Floats]]) -> float:
        """The part of the arithmetic that a device does if values stay as propagation has them."""
        best_s, share, count = np.inf, 1.0, len(kind.info.operands)
        for ways, cost_s in found:
            total_s = cost_s.copy()
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
        """The part that a device does if all is shared that tensors agree on."""
        share = 1.0
        for factor, axes in agreed(kind.rule, self._split(kind.rule, kind)).items():
            size = kind.rule.sizes[factor]
            share *= -(-size // size_of(axes)) / size if size else 1.0
        return share

    def _split(self, rule: OpShardingRule, kind: _OpKind) -> list[FactorAxes]:
        """The axes of a rule's factors as propagation has them, tensor by tensor."""
        shardings = self._shardings(kind, kind.placed)
        return [factor_axes(rule, t, sharding) for t, sharding in enumerate(shardings)]

    def _allowed(self, rule: OpShardingRule, kind: _OpKind) -> Allowed:
        """What factors are split over in some tensor, in whole or in part; any of it, if results carry the factor."""
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
