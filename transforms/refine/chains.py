"""Values between operations that run otherwise: the sharding that is cheapest for all of them together.

Propagation completes shardings from what is annotated, one operation at a time. Where operations cannot run as that
has it, each brings its operands and results from there and back again, and what several of them do in a row is undone
between them. Here such values, and those that follow from them through operations that need nothing, are given the
sharding that costs least in all the operations that they touch. Annotated values stay as they are.

For example, `f32[64,256] [{}, {"x"}]` over x=4 goes through a Fourier transform along its split dimension, a scaling
and the inverse transform. Each transform runs with whole rows, so that four all-to-alls are needed if the values
between have the sharding of the operand, and two if they have that of whole rows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from gspmd.dialect.axes import Axes
from gspmd.dialect.own_attributes import ANNOTATED
from gspmd.dialect.placement import FactorAxes, factor_axes, tensor_axes
from gspmd.dialect.rule import OpShardingRule
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.program import BARRIER, CONSTRAINT, MANUAL, WHILE, Body, Op
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.reshard.assignments import valid
from gspmd.transforms.reshard.rewrite import summed_only
from gspmd.transforms.reshard.strategy import Chooser, Situation, Strategy, local_bytes

MOST_VALUES = 24
"""How many values change together."""

MOST_SWEEPS = 3
"""How often all values are gone through."""

_WORTH = 1 - 1e-6  # what is cheaper by less is equal
_ROUNDED = 1.05  # padding may be another


@dataclasses.dataclass(frozen=True, slots=True)
class _ValuePlace:
    """A place that takes values: an operation, or one that wants a value as `need` whatever it is."""

    order: int
    op: Op | None = None
    value: int = -1
    need: TensorSharding | None = None


@dataclasses.dataclass(slots=True)
class _Cost:
    """Seconds, what a device holds at most in one of the places, and what it computes in all of them.

    `partial` are the sums that are left apart for operations to come, by operation: what that saves is not known here.
    """

    time_s: float = 0.0
    held_bytes: float = 0.0
    flops: float = 0.0
    partial: list[tuple[int, TensorSharding]] = dataclasses.field(default_factory=list)

    def is_less(self, other: _Cost) -> bool:
        return (
            self.partial == other.partial
            and self.time_s < other.time_s * _WORTH
            and self.held_bytes <= other.held_bytes * _ROUNDED
            and self.flops <= other.flops * (1 + 1e-9)
        )


class _ValuesMoved:
    """What values are moved to by places that are looked at together, beside what the others have moved them to.

    `kept` has these of every value, by the order of the place. Of a value that is `chosen` anew they do not hold.
    """

    def __init__(self, kept: list[dict[int, TensorSharding]], places: set[int], chosen: Choice) -> None:
        self._kept, self._places, self._chosen = kept, places, chosen
        self._here: dict[int, dict[int, TensorSharding]] = {}

    def before(self, value: int, order: int) -> tuple[TensorSharding, ...]:
        """What a value has been moved to before a place."""
        others = () if value in self._chosen else self._kept[value].items()
        here = self._here.get(value, {}).values()
        return (*(need for at, need in others if at < order and at not in self._places), *here)

    def add(self, value: int, order: int, need: TensorSharding) -> None:
        self._here.setdefault(value, {})[order] = need

    def keep(self, values: set[int]) -> None:
        """Let these be what the places do, which take these values."""
        for value in values:
            for order in self._places & self._kept[value].keys():
                del self._kept[value][order]
        for value, moved in self._here.items():
            self._kept[value].update(moved)


@dataclasses.dataclass(frozen=True, slots=True)
class _Weighed:
    """A strategy: its seconds, arithmetic included also where nothing is sent, and a device's operations and bytes."""

    strategy: Strategy
    time_s: float
    flops: float
    held_bytes: float


@dataclasses.dataclass(frozen=True, slots=True)
class Refinement:
    """The result `index` of an operation, which is given another sharding than propagation has found."""

    op: Operation
    index: int
    before: TensorSharding
    after: TensorSharding


Choice: TypeAlias = dict[int, TensorSharding]
"""Shardings of values."""


class Chains:
    """Goes through a program whose shardings are complete. `sharding` is that of each value, as it is decided here."""

    def __init__(self, annotated: AnnotatedProgram, rules: RuleBook, chooser: Chooser) -> None:
        self.annotated, self.rules, self.chooser = annotated, rules, chooser
        self.program = annotated.program
        count = len(self.program.value_type)
        self.sharding: list[TensorSharding] = [replicated(annotated.mesh, 0)] * count
        self._before: Choice = {}  # what has changed was this
        self._is_free = [False] * count
        self._uses: list[list[_ValuePlace]] = [[] for _ in range(count)]
        self._maker: dict[int, Op] = {}
        self._held: dict[int, Axes] = {}  # by operation: the manual axes around it
        self._number: dict[int, int] = {}  # by operation: its rule
        self._place: dict[int, _ValuePlace] = {}  # by operation
        self._order = 0
        self._weighed: dict[Situation, _Weighed] = {}
        # What other operations than those looked at have moved a value to, by the order of these.
        self._moved: list[dict[int, TensorSharding]] = [{} for _ in range(count)]
        # Surroundings of values in which nothing was better, as layers that repeat have them.
        self._right: set[Any] = set()

    def run(self) -> list[Refinement]:
        """Decide, and write what has changed to the module."""
        body = self.program.body
        for value, sharding in zip(body.arguments, self.annotated.arguments, strict=True):
            self.sharding[value] = sharding or self._whole(value)
        self._read(body, ())
        wanted = [
            sharding or self._whole(value)
            for value, sharding in zip(body.returned, self.annotated.results, strict=True)
        ]
        self._want(body.returned, wanted)
        self._cost(list(self._place.values()), {}, is_kept=True)
        for _ in range(MOST_SWEEPS):
            improved = [self._improve(value) for value in self._disputed()]
            if not any(improved):
                break
        refined = [value for value, before in sorted(self._before.items()) if before != self.sharding[value]]
        for op in {self._maker[value].index: self._maker[value] for value in refined}.values():
            shardings = tuple([self.sharding[value] for value in op.results])
            if all(sharding.is_replicated() for sharding in shardings):
                op.ir.attributes.pop("sdy.sharding", None)
            else:
                op.ir.attributes["sdy.sharding"] = self.annotated.codec.write_list(shardings)
        return [self._refinement(value) for value in refined]

    def _refinement(self, value: int) -> Refinement:
        maker = self._maker[value]
        return Refinement(maker.ir, maker.results.index(value), self._before[value], self.sharding[value])

    # ---- reading ----

    def _whole(self, value: int) -> TensorSharding:
        return replicated(self.annotated.mesh, len(self.program.value_type[value].shape))

    def _read(self, block: Body, held: Axes) -> None:
        for op in block.ops:
            self._order += 1
            given = self.annotated.of_op(op) or tuple([self._whole(value) for value in op.results])
            for value, sharding in zip(op.results, given, strict=True):
                self.sharding[value] = sharding
                self._is_free[value] = op.splittable
            if op.info.name in (CONSTRAINT, BARRIER):
                self._want(op.operands, given)
            elif op.info.name == MANUAL:
                self._read_manual(op, held)
            elif op.regions:
                self._read_regions(op, given, held)
            elif not op.splittable:
                self._read_compute(op, held)

    def _read_compute(self, op: Op, held: Axes) -> None:
        self._held[op.index] = held
        self._number[op.index] = self.rules.of_op(op.info, op.ir)
        use = self._place[op.index] = _ValuePlace(self._order, op)
        for value in dict.fromkeys(op.operands):
            self._uses[value].append(use)
        if ANNOTATED not in op.ir.attributes:
            for value in op.results:
                self._maker[value] = op

    def _read_regions(self, op: Op, given: tuple[TensorSharding, ...], held: Axes) -> None:
        if op.info.name == WHILE:
            self._want(op.operands, given)
        for index, region in enumerate(op.regions):
            for argument, sharding in zip(region.arguments, given, strict=False):
                self.sharding[argument] = sharding
            self._read(region, held)
            if not (op.info.name == WHILE and index == 0):
                self._want(region.returned, given)

    def _read_manual(self, op: Op, held: Axes) -> None:
        region, block = self.annotated.region(op), op.regions[0]
        self._want(op.operands, region.in_shardings)
        for argument, sharding in zip(block.arguments, region.in_shardings, strict=True):
            self.sharding[argument] = region.inside(sharding)
        self._read(block, held + region.axes)
        self._want(block.returned, [region.inside(sharding) for sharding in region.out_shardings])

    def _want(self, values: Iterable[int], needs: Iterable[TensorSharding]) -> None:
        self._order += 1
        for value, need in zip(values, needs, strict=True):
            self._uses[value].append(_ValuePlace(self._order, None, value, need))

    # ---- what operations cost ----

    def _rule(self, op: Op) -> OpShardingRule:
        return self.rules.rules[self._number[op.index]]

    def _situation(self, op: Op, choice: Choice, moved: Sequence[tuple[TensorSharding, ...]] = ()) -> Situation:
        return Situation(
            op.info,
            tuple([choice.get(value) or self.sharding[value] for value in op.operands]),
            tuple([choice.get(value) or self.sharding[value] for value in op.results]),
            tuple([self._is_free[value] for value in op.operands]),
            self._held[op.index],
            tuple(moved) if any(moved) else (),
        )

    def _weigh(self, op: Op, situation: Situation) -> _Weighed:
        found = self._weighed.get(situation)
        if found is None:
            strategy = self.chooser.choose(self._rule(op), situation)
            types = op.info.operands + op.info.results
            ends = strategy.operands + strategy.results, situation.shardings
            held = max((local_bytes(t, s) for end in ends for t, s in zip(types, end, strict=True)), default=0.0)
            found = self._weighed[situation] = _Weighed(strategy, *self.chooser.work_of(situation, strategy), held)
        return found

    def _cost(
        self, uses: list[_ValuePlace], choice: Choice, is_kept: bool = False, most_s: float = math.inf
    ) -> _Cost | None:
        """What places cost together, in order: what a value has been moved to for one serves the next.

        If it `is_kept`, that is how they are from now on. None where it is more than `most_s`.
        """
        cost = _Cost()
        moves = _ValuesMoved(self._moved, {use.order for use in uses}, choice)
        for use in uses:
            if cost.time_s > most_s:
                return None
            if use.op is None:
                self._add_need(use, choice, moves, cost)
            else:
                self._add_operation(use.order, use.op, choice, moves, cost)
        if is_kept:
            moves.keep({value for use in uses for value in (use.op.operands if use.op else [use.value])})
        return cost

    def _add_need(self, use: _ValuePlace, choice: Choice, moves: _ValuesMoved, cost: _Cost) -> None:
        assert use.need is not None
        have, type_ = choice.get(use.value) or self.sharding[use.value], self.program.value_type[use.value]
        if have != use.need and not self._is_free[use.value]:
            known = (have, *moves.before(use.value, use.order))
            cost.time_s += self.chooser.planner.nearest(type_, known, use.need)[1].time_s
            moves.add(use.value, use.order, use.need)
        cost.held_bytes = max(cost.held_bytes, local_bytes(type_, use.need))

    def _add_operation(self, order: int, op: Op, choice: Choice, moves: _ValuesMoved, cost: _Cost) -> None:
        situation = self._situation(op, choice, [moves.before(value, order) for value in op.operands])
        work = self._weigh(op, situation)
        cost.time_s += work.time_s
        cost.flops += work.flops
        cost.held_bytes = max(cost.held_bytes, work.held_bytes)
        for value, have, need in zip(op.operands, situation.operands, work.strategy.operands, strict=True):
            if have != need and not self._is_free[value]:
                moves.add(value, order, need)
        for value, made in zip(op.results, work.strategy.results, strict=True):
            if made.unreduced and summed_only(self.program.value_ir[value]):
                cost.partial.append((op.index, made))

    # ---- other shardings ----

    def _disputed(self) -> list[int]:
        """Values that an operation makes or takes otherwise than they are, and that are not annotated; in order.

        Also those of operations that communicate by themselves.
        """
        found: set[int] = set()
        for use in self._place.values():
            assert use.op is not None
            op, situation = use.op, self._situation(use.op, {})
            strategy = self._weigh(op, situation).strategy
            if not strategy.time_s:
                continue
            shardings = strategy.operands + strategy.results
            alike = shardings == situation.shardings
            pairs = zip((*op.operands, *op.results), shardings, situation.shardings, strict=True)
            found.update(value for value, runs, have in pairs if (alike or runs != have) and value in self._maker)
        for value in self._maker:
            if any(use.op is None and use.need != self.sharding[value] for use in self._uses[value]):
                found.add(value)
        return sorted(found)

    def _improve(self, value: int) -> bool:
        """Give a value, and what follows from it, the best of the shardings that others want of it."""
        around = self._surroundings(value)
        if around in self._right:
            return False
        best: tuple[float, Choice] = 0.0, {}
        as_it_is: dict[frozenset[int], _Cost] = {}  # by the values that change, which are often the same
        for offer in self._offers(value):
            for choice in self._choices(value, offer) if offer != self.sharding[value] else ():
                uses = self._places(choice)
                values = frozenset(choice)
                old = as_it_is.get(values) or self._cost(uses, {})
                assert old is not None, "there is no limit"
                as_it_is[values] = old
                new = self._cost(uses, choice, most_s=old.time_s - best[0])
                if new is not None and new.is_less(old) and old.time_s - new.time_s > best[0]:
                    best = old.time_s - new.time_s, choice
        if not best[1]:
            self._right.add(around)
            return False
        for each, sharding in best[1].items():
            self._before.setdefault(each, self.sharding[each])
            self.sharding[each] = sharding
        self._cost(self._places(best[1]), {}, is_kept=True)
        return True

    def _surroundings(self, value: int) -> Any:
        """What tells the places of a value from those of others, as far as it is looked at at once."""
        places: list[Any] = []
        for use in self._places({value: self.sharding[value]}):
            if use.op is None:
                places.append(use.need)
            else:
                at = tuple([i for i, each in enumerate((*use.op.operands, *use.op.results)) if each == value])
                moved = [tuple(self._moved[each].values()) for each in use.op.operands]
                places.append((at, self._situation(use.op, {}, moved)))
        return tuple(places)

    def _offers(self, value: int) -> list[TensorSharding]:
        """The shardings that the maker of a value and its users would have it with."""
        maker, found = self._maker[value], dict[TensorSharding, None]()
        for way in self._ways(maker):
            made = way.results[maker.results.index(value)]
            found[made.with_axes(made.dim_axes())] = None
        for use in self._uses[value]:
            if use.op is None:
                assert use.need is not None
                found[use.need] = None
            else:
                places = [index for index, each in enumerate(use.op.operands) if each == value]
                found.update({way.operands[index]: None for way in self._ways(use.op) for index in places})
        return list(found)

    def _ways(self, op: Op) -> list[Strategy]:
        """How an operation would be run as things are; all ways if that is as its values are, but communicates."""
        situation = self._situation(op, {})
        strategy = self._weigh(op, situation).strategy
        if not strategy.time_s or strategy.operands + strategy.results != situation.shardings:
            return [strategy]
        return self.chooser.ways(self._rule(op), situation)

    def _choices(self, value: int, offer: TensorSharding) -> Iterator[Choice]:
        """The value alone, and with what follows from it through operations that would need nothing then."""
        alone = {value: offer}
        followed = self._followed(alone)
        if len(followed) > 1:
            yield followed
        yield alone

    def _followed(self, start: Choice) -> Choice:
        choice, pending = dict(start), list(start)
        while pending and len(choice) < MOST_VALUES:
            value = pending.pop()
            around = [use.op for use in self._uses[value] if use.op is not None]
            if value in self._maker:
                around.append(self._maker[value])
            for op in around:
                for each, sharding in self._following(op, value, choice).items():
                    choice[each] = sharding
                    pending.append(each)
        return choice

    def _following(self, op: Op, value: int, choice: Choice) -> Choice:
        """What the other values of an operation are if it needs nothing with this one as it is chosen."""
        rule, values = self._rule(op), (*op.operands, *op.results)
        axes: FactorAxes = {}
        for tensor, each in enumerate(values):
            if each in choice:
                axes.update(factor_axes(rule, tensor, choice[each]))
        if not valid(rule, axes):
            return {}
        found: Choice = {}
        for tensor, each in enumerate(values):
            if each in choice or each not in self._maker or self._is_free[each]:
                continue
            dims = tensor_axes(rule, tensor, axes)
            if dims is not None and dims != self.sharding[each].dim_axes():
                found[each] = self.sharding[each].with_axes(dims)
        return found

    def _places(self, choice: Choice) -> list[_ValuePlace]:
        """All that takes or makes these values, in the order of the program."""
        found: dict[tuple[int, int], _ValuePlace] = {}
        for value in choice:
            for use in self._uses[value]:
                found[use.order, use.value] = use
            use = self._place[self._maker[value].index]
            found[use.order, use.value] = use
        return [found[key] for key in sorted(found)]
