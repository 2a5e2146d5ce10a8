"""What operations cost together, if values between them have other shardings."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Container, Hashable, Iterator, Sequence
from typing import NamedTuple

from gspmd.dialect.axes import overlap
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.program import Op
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops import traits_of
from gspmd.transforms.refine.places import Choice, ValuePlace, ValuePlaces
from gspmd.transforms.reshard.linear import linear_operands
from gspmd.transforms.reshard.path import Path
from gspmd.transforms.reshard.rewrite import summed_only
from gspmd.transforms.reshard.strategy import Chooser, Situation, Strategy
from gspmd.transforms.reshard.traffic import sent_bytes

_WORTH = 1 - 1e-6  # what is cheaper by less is equal
_ROUNDED = 1.05  # padding may be another
_MOST_ROUNDS = 4  # until what places move for each other is settled


class _StrategyTaken(NamedTuple):
    """An operation that makes these values, as it is run."""

    results: Sequence[int]
    situation: Situation
    strategy: Strategy


class _PathTaken(NamedTuple):
    """A value that is moved to what it is wanted as."""

    type: TensorType
    source: TensorSharding
    path: Path


class _PlaceCost(NamedTuple):
    """What one place costs, as in `Cost`, all times that it runs; `unreduced` are the sums that it may leave apart."""

    use: ValuePlace
    time_s: float
    held_bytes: float
    flops: float = 0.0
    send: _StrategyTaken | _PathTaken | None = None
    unreduced: tuple[tuple[int, TensorSharding], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """What places cost together; with `all_layers`, each counts as often as there are layers that it stands for."""

    places: list[_PlaceCost]
    all_layers: bool = False

    @property
    def time_s(self) -> float:
        """Seconds, arithmetic included."""
        return math.fsum([count * place.time_s for count, place in self._counted()])

    @property
    def held_bytes(self) -> float:
        """What a device holds at most in one of the places."""
        return max([place.held_bytes for place in self.places], default=0.0)

    @property
    def flops(self) -> float:
        """What a device computes in all of them."""
        return math.fsum([count * place.flops for count, place in self._counted()])

    @property
    def unreduced(self) -> list[tuple[int, TensorSharding]]:
        """The sums that operations may leave apart, of which `Costs.partial` tells the ones that stay so."""
        return [each for place in self.places for each in place.unreduced]

    @property
    def sends(self) -> list[tuple[float, _StrategyTaken | _PathTaken]]:
        """What `Costs.sent_bytes` counts, each with how often it runs."""
        return [(count * place.use.times, place.send) for count, place in self._counted() if place.send is not None]

    @property
    def sums_in_a_loop(self) -> bool:
        """Whether steps of a loop sum over devices: `gspmd-optimize` may do that once behind the loop, for less."""
        looped = (place.send for place in self.places if place.use.times > 1)
        taken = (send for send in looped if isinstance(send, _StrategyTaken))
        return any(made.unreduced for send in taken for made in send.strategy.results)

    def _counted(self) -> Iterator[tuple[float, _PlaceCost]]:
        return ((place.use.copies if self.all_layers else 1.0, place) for place in self.places)

    def is_less(self, other: Cost, spared_bytes: float) -> bool:
        """Whether it takes less time, and holds no more or only `spared_bytes`."""
        held_bytes = max(other.held_bytes * _ROUNDED, spared_bytes)
        return self.time_s < other.time_s * _WORTH and self.held_bytes <= held_bytes


class _ValuesMoved:
    """What values are moved to by places that are looked at together, beside what the others have moved them to.

    `kept` has these of every value, by the order of the place. Of a value that is chosen anew, by the name that it is
    `carried` as, they do not hold.
    """

    def __init__(
        self, kept: list[dict[int, TensorSharding]], uses: list[ValuePlace], choice: Choice, carried: list[int]
    ) -> None:
        self._kept, self._places = kept, {use.order for use in uses}
        self._choice, self._carried = choice, carried
        self._here: dict[int, dict[int, TensorSharding]] = {}

    def before(self, value: int, order: int) -> tuple[TensorSharding, ...]:
        """What a value has been moved to before a place."""
        kept, here = self._kept[value], self._here.get(value)
        if kept and self._carried[value] not in self._choice:
            others = [need for at, need in kept.items() if at < order and at not in self._places]
        else:
            others = []
        return (*others, *here.values()) if here else tuple(others)

    def add(self, value: int, order: int, need: TensorSharding) -> None:
        self._here.setdefault(value, {})[order] = need

    def keep(self, values: set[int]) -> list[int]:
        """Let these be what the places do, which take these values; returns those that are moved otherwise now."""
        changed = []
        for value in values:
            moved = {order: need for order, need in self._kept[value].items() if order not in self._places}
            moved.update(self._here.get(value, {}))
            if moved != self._kept[value]:
                self._kept[value] = moved
                changed.append(value)
        return changed


@dataclasses.dataclass(frozen=True, slots=True)
class _Weighed:
    """A strategy: its seconds, arithmetic included also where nothing is sent, and a device's operations and bytes."""

    strategy: Strategy
    time_s: float
    flops: float
    held_bytes: float


class Costs:
    """Prices places as `reshard` will, equal situations once.

    `moved` is what places have moved a value to, by their order, as far as these are settled. What settled places cost
    is kept until something about them changes.
    """

    def __init__(self, places: ValuePlaces, chooser: Chooser) -> None:
        self.places, self.chooser = places, chooser
        self.moved: list[dict[int, TensorSharding]] = [{} for _ in places.uses]
        self._situations: dict[tuple[Hashable, ...], Situation] = {}
        self._weighed: dict[Situation, _Weighed] = {}
        self._settled: dict[ValuePlace, _PlaceCost] = {}
        self._unsettled: dict[ValuePlace, None] = {}  # what was, until a value was moved otherwise
        self._summed: dict[int, bool] = {}  # whether a value is only added to others
        # Seconds that a place takes at least, however its values are split.
        self._least_s = {use: use.times * chooser.evenly_s(use.op.info) if use.op else 0.0 for use in places.all()}

    def situation(self, op: Op, choice: Choice, moved: Sequence[tuple[TensorSharding, ...]] = ()) -> Situation:
        key = (
            op.info,
            tuple([self.places.at(value, choice) for value in op.operands]),
            tuple([self.places.at(value, choice) for value in op.results]),
            self.places.free[op.index],
            self.places.held[op.index],
            tuple(moved) if any(moved) else (),
            self.places.runs[op.index],
            self.places.alike[op.index],
        )
        found = self._situations.get(key)
        if found is None:
            found = self._situations[key] = Situation(*key)
        return found

    def weigh(self, op: Op, situation: Situation) -> _Weighed:
        found = self._weighed.get(situation)
        if found is None:
            strategy = self.chooser.choose(self.places.rule(op), situation)
            types = op.info.operands + op.info.results
            ends = strategy.operands + strategy.results, situation.shardings
            held = max(
                [self.chooser.local_bytes(t, s) for end in ends for t, s in zip(types, end, strict=True)], default=0.0
            )
            found = self._weighed[situation] = _Weighed(strategy, *self.chooser.work_of(situation, strategy), held)
        return found

    def settle_all(self) -> None:
        """Let every place be run as is best with the shardings that are decided, whatever was settled before."""
        self._settled.clear()
        self._unsettled.clear()
        for moved in self.moved:
            moved.clear()
        self.settle(self.places.all())

    def settle(self, uses: list[ValuePlace]) -> None:
        """Let places be run from now on as is best with the shardings that are decided."""
        moves = _ValuesMoved(self.moved, uses, {}, self.places.carried)
        for use in uses:
            place = self._place_cost(use, {}, moves)
            assert place is not None, "there is no limit"
            self._settled[use] = place
        taken = {value for use in uses for value in use.taken}
        settled = set(uses)
        for value in moves.keep(taken):
            for name in (value, *self.places.again.get(value, ())):
                for use in self.places.uses[name]:
                    if use not in settled and self._settled.pop(use, None) is not None:
                        self._unsettled[use] = None

    def of_program(self, all_layers: bool = True) -> Cost:
        """What the whole program costs with the shardings that are decided."""
        for _ in range(_MOST_ROUNDS):
            if not self._unsettled:
                break
            uses = self._left()
            self._unsettled.clear()
            self.settle(uses)
        return Cost([*self._settled.values(), *self.as_decided(self._left()).places], all_layers)

    def _left(self) -> list[ValuePlace]:
        """The places that are not settled, in program order."""
        return sorted(self._unsettled, key=lambda use: use.order)

    def sending(self) -> Iterator[ValuePlace]:
        """The operations that something is sent for with the shardings that are decided, in program order."""
        for use in self.places.place.values():
            settled = self._settled.get(use)
            if settled is None or settled.send is not None:
                yield use

    def as_decided(self, uses: list[ValuePlace], all_layers: bool = False) -> Cost:
        """What places cost together with the shardings that are decided."""
        settled = [place for use in uses if (place := self._settled.get(use)) is not None]
        if len(settled) == len(uses):
            return Cost(settled, all_layers)
        found = self.of(uses, {}, all_layers=all_layers)
        assert found is not None, "there is no limit"
        return found

    def of(
        self, uses: list[ValuePlace], choice: Choice, most_s: float = math.inf, all_layers: bool = False
    ) -> Cost | None:
        """What places cost together, in order: what a value has been moved to for one serves the next.

        None where it is more than `most_s`. So that this shows early, places that may need something moved come first,
        and those that are not priced yet count with the least that they take.
        """
        taken, left_s = list[_PlaceCost](), most_s
        if most_s < math.inf:
            left_s -= sum([(use.copies if all_layers else 1.0) * self._least_s[use] for use in uses])
            ordered = self._border_first(uses, choice)
        else:
            ordered = iter(uses)
        moves = _ValuesMoved(self.moved, uses, choice, self.places.carried)
        for use in ordered:
            copies = use.copies if all_layers else 1.0
            left_s += copies * self._least_s[use]
            place = self._place_cost(use, choice, moves, left_s / copies)
            if place is None or copies * place.time_s > left_s:
                return None
            left_s -= copies * place.time_s
            taken.append(place)
        return Cost(taken, all_layers)

    def _border_first(self, uses: list[ValuePlace], choice: Choice) -> Iterator[ValuePlace]:
        """The places that may need something moved, then the operations of which all values are chosen."""
        inside = []
        for use in uses:
            if use.op is not None and self.places.is_inside(use.op, choice):
                inside.append(use)
            else:
                yield use
        yield from inside

    def partial(self, cost: Cost, choice: Choice) -> list[tuple[int, TensorSharding]]:
        """The sums that are left apart for operations to come: what that saves is not known here."""
        return [each for each in cost.unreduced if self._stays_partial(*each, choice)]

    def without_sums(self, cost: Cost, sums: Container[tuple[int, TensorSharding]]) -> Cost:
        """What places cost at least, if nothing is sent for operations that leave these sums apart."""
        places = [
            place._replace(time_s=self._least_s[place.use], send=None)
            if any(each in sums for each in place.unreduced)
            else place
            for place in cost.places
        ]
        return Cost(places, cost.all_layers)

    def sent_bytes(self, cost: Cost, is_decided: bool = False) -> float:
        """Bytes that a device sends for all of it: with what is decided, less for sums that are cut behind."""
        total = 0.0
        for times, send in cost.sends:
            if isinstance(send, _PathTaken):
                sent = sent_bytes(send.type, send.source, send.path.steps)
            else:
                situation = self._cut(send) if is_decided else send.situation
                sent = self.chooser.sent_bytes(situation, send.strategy)
            total += times * sent
        return total

    def _cut(self, taken: _StrategyTaken) -> Situation:
        """An operation with its sums reduced as all users take them, if that is a part.

        An all-reduce and the cut behind it become a reduce-scatter.
        """
        results = list(taken.situation.results)
        for index, (value, made) in enumerate(zip(taken.results, taken.strategy.results, strict=True)):
            if made.unreduced and not overlap(results[index].used_axes(), made.unreduced):
                wanted = self._taken(value)
                if wanted is not None and overlap(wanted.used_axes(), made.unreduced):
                    results[index] = wanted
        return dataclasses.replace(taken.situation, results=tuple(results))

    def _taken(self, value: int, depth: int = 8) -> TensorSharding | None:
        """What all users take of a value, also behind constraints and linear images, with what is decided."""
        if not depth:
            return None
        wanted, constraints = set[TensorSharding | None](), set[int]()
        for result in self.places.again.get(value, ()):
            constraints.add(self.places.same[result][1])
            is_same = self.places.at(result, {}) == self.places.at(value, {})
            wanted.add(self._taken(result, depth - 1) if is_same else self.places.at(result, {}))
        for use in self.places.uses[value]:
            if use.op is None:
                if use.value == value and use.order not in constraints:
                    wanted.add(self.places.need(use, {}))
                continue
            situation = self.situation(use.op, {})
            if traits_of(use.op.info.name).is_linear_image:
                cut = self._taken(use.op.results[0], depth - 1)
                situation = dataclasses.replace(situation, results=(cut,)) if cut is not None else situation
            ends = zip(use.op.operands, self.weigh(use.op, situation).strategy.operands, strict=True)
            wanted.update(need for operand, need in ends if operand == value)
        return wanted.pop() if len(wanted) == 1 else None

    def _place_cost(
        self, use: ValuePlace, choice: Choice, moves: _ValuesMoved, most_s: float = math.inf
    ) -> _PlaceCost | None:
        """What a place costs; None where it is known to be more than `most_s` before it is planned."""
        if use.op is not None:
            return self._op_cost(use, use.op, choice, moves, most_s)
        return self._need_cost(use, choice, moves)

    def _need_cost(self, use: ValuePlace, choice: Choice, moves: _ValuesMoved) -> _PlaceCost:
        need, have = self.places.need(use, choice), self.places.at(use.value, choice)
        type_ = self.places.program.value_type[use.value]
        held_bytes = self.chooser.local_bytes(type_, need)
        if have == need or self.places.is_free[use.value]:
            return _PlaceCost(use, 0.0, held_bytes)
        known = (have, *self._moved_before(use.value, use.order, choice, moves))
        source, path = self.chooser.planner.nearest(type_, known, need)
        moves.add(use.value, use.order, need)
        return _PlaceCost(use, use.times * path.time_s, held_bytes, send=_PathTaken(type_, source, path))

    def _op_cost(
        self, use: ValuePlace, op: Op, choice: Choice, moves: _ValuesMoved, most_s: float
    ) -> _PlaceCost | None:
        order = use.order
        before = [self._moved_before(value, order, choice, moves) for value in op.operands]
        later = [self._needed_later(value, use, choice) for value in op.operands]
        moved: list[tuple[TensorSharding, ...]] = []
        if any(before) or any(later):  # how often it is at hand as that is the same to the operation
            moved = [tuple(dict.fromkeys([*b, *n])) for b, n in zip(before, later, strict=True)]
        situation = self.situation(op, choice, moved)
        is_new = most_s < math.inf and situation not in self._weighed
        if is_new and self.chooser.takes_more(self.places.rule(op), situation, most_s / use.times):
            return None
        work = self.weigh(op, situation)
        if not work.strategy.time_s:
            return _PlaceCost(use, use.times * work.time_s, work.held_bytes, use.times * work.flops)
        ends = zip(op.operands, situation.operands, work.strategy.operands, later, strict=True)
        for value, have, need, wanted in ends:
            # What is wanted in any case is paid for there.
            if have != need and need not in wanted and not self.places.is_free[value]:
                moves.add(value, order, need)
        made = zip(op.results, work.strategy.results, strict=True)
        return _PlaceCost(
            use,
            use.times * work.time_s,
            work.held_bytes,
            use.times * work.flops,
            _StrategyTaken(op.results, situation, work.strategy),
            tuple([(value, sharding) for value, sharding in made if sharding.unreduced]),
        )

    def _stays_partial(self, value: int, made: TensorSharding, choice: Choice) -> bool:
        """Whether the partial sums may be added to others before they are reduced."""
        is_summed = self._summed.get(value)
        if is_summed is None:
            is_summed = self._summed[value] = summed_only(self.places.program.value_ir[value])
        if not is_summed:
            return False
        user = self.places.user(value)
        while user is not None and traits_of(user.info.name).is_linear_image:
            followed = self._followed(user, made)
            if followed is None:
                return False
            value, made = user.results[0], followed
            user = self.places.user(value)
        if user is None:  # it is reduced to what it is wanted as, which may be a part
            have = self.places.at(value, choice)
            return any(self.places.need(use, choice) != have for use in self.places.needs.get(value, ()))
        others = [other for other in self._terms(user) if other != value]
        return bool(others) and all(self._partial_as(other, choice) == made for other in others)

    def _terms(self, op: Op) -> list[int]:
        """What an operation is linear in."""
        return [op.operands[index] for index in linear_operands(op, self.places.is_free.__getitem__)]

    def _followed(self, op: Op, made: TensorSharding) -> TensorSharding | None:
        """The result of a linear operation whose terms are partial sums made so; None if it needs them reduced."""
        linear = linear_operands(op, self.places.is_free.__getitem__)
        if not linear or op.index not in self.places.place:
            return None
        runs = self.chooser.follow(self.places.rule(op), linear, made)
        return runs[-1] if runs is not None else None

    def _partial_as(self, value: int, choice: Choice, depth: int = 4) -> TensorSharding | None:
        """The partial sums that a value may be left as: as it is made, or as a sum of such values."""
        definer = self.places.program.value_def[value]
        op = self.places.program.ops[definer] if definer >= 0 else None
        if op is None or op.index not in self.places.place:
            return None
        made = self.weigh(op, self.situation(op, choice)).strategy.results[op.results.index(value)]
        if made.unreduced:
            return made
        terms = {self._partial_as(term, choice, depth - 1) for term in self._terms(op)} if depth else {None}
        term = terms.pop() if len(terms) == 1 else None
        return self._followed(op, term) if term is not None else None

    def _needed_later(self, value: int, place: ValuePlace, choice: Choice) -> list[TensorSharding]:
        """What a value is to be moved to behind a place in its block, whatever is decided there."""
        needs = self.places.needs.get(value)
        if needs is None:
            return []
        found, have = list[TensorSharding](), self.places.at(value, choice)
        for use in needs:
            if use.order > place.order and use.block == place.block and (need := self.places.need(use, choice)) != have:
                found.append(need)
        return found

    def _moved_before(self, value: int, order: int, choice: Choice, moves: _ValuesMoved) -> tuple[TensorSharding, ...]:
        """What a value is also at hand as: moved to for others, or as the operand of a constraint."""
        found = moves.before(value, order)
        while value in self.places.same:
            value, order = self.places.same[value]
            found = (*found, self.places.at(value, choice), *moves.before(value, order))
        return found
