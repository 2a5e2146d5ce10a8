"""Values between operations that run otherwise: the sharding that is cheapest for all of them together.

Propagation completes shardings from what is annotated, one operation at a time. Where operations cannot run as that
has it, each brings its operands and results from there and back again, and what several of them do in a row is undone
between them. Here such values, and those that follow from them through operations that need nothing, are given the
sharding that costs least in all the operations that they touch. Annotated values stay as they are.

For example, `f32[64,256] [{}, {"x"}]` over x=4 goes through a Fourier transform along its split dimension, a scaling
and the inverse transform. Each transform runs with whole rows, so that four all-to-alls are needed if the values
between have the sharding of the operand, and two if they have that of whole rows.

What no single change makes better may still be a poor program. So the values that most is sent for are perturbed one
after the other: each gets the best that it does not have, all others are decided again, and what sends less stays.

Source: iterated local search (Lourenço, Martin and Stützle 2003).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Collection, Hashable, Iterator
from typing import NamedTuple

from gspmd.dialect.axes import Axes, canonical, overlap, size_of
from gspmd.dialect.placement import factor_axes, tensor_axes
from gspmd.dialect.rule import REDUCTION
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.program import Op
from gspmd.transforms.ops import traits_of
from gspmd.transforms.ops.rules import RuleBook
from gspmd.transforms.parsing.diagnostics import remark
from gspmd.transforms.refine.costs import Cost, Costs
from gspmd.transforms.refine.places import Choice, OpEnds, Refinement, ValuePlace, ValuePlaces, is_less_split
from gspmd.transforms.reshard.assignments import agreed, valid
from gspmd.transforms.reshard.planner import SMALL_BYTES
from gspmd.transforms.reshard.strategy import CONTRACTIONS, Chooser, Situation
from gspmd.transforms.reshard.traffic import sent_bytes

MOST_VALUES = 128
"""How many values change together."""

MOST_FOLLOWED = 32
"""How many values change together with those that follow from what is annotated."""

MOST_SWEEPS = 6
"""How often all values are gone through."""

SPARED_BYTES = 2**24
"""How many bytes more of what a loop reads a device may hold, to send less."""

HELD_FOR_SENT = 8
"""How many of these bytes it may hold for each that is not sent then, in all steps together."""

MOST_WAYS = 16
"""How many ways to run an operation say how its neighbours may be."""

MOST_SEARCHES = 2
"""How often as many moves are looked at, in all, as for one operation; then the rest stays as it is."""

MOST_SUMMED = 64
"""How many times larger than a sum over devices an operand may be, if the sum is tried in parts."""

AGREED_SUM_WORTH = 4
"""How many times less is sent if a sum along what all operands are split over is not taken as that asks for."""

OTHER_END_WORTH = 4
"""How many times less is sent if a free result does not lie as arguments of its type, but may be brought there."""

REPEATED_ARITHMETIC = 1.02
"""How many times more a device may contract: something small may be computed on every device."""

REPEATED_SHARE = 0.1
"""What part of the time that sending takes may be spent on computing again what is not sent then."""

REPEATED_WORTH = 4
"""How many times less is sent, if devices compute the same for that."""

HARDLY_LESS = 0.99
"""What part of the bytes is sent for a program at least, if that is no reason to take more time."""

MOST_PERTURBED = 16
"""How many values are given what is no better for them, in case it is with what follows from that."""

MOST_LOSS = 0.5
"""What part of the time that the places around a value take may be lost then, at first."""

MOST_TRIED = 2500
"""How many choices may have been looked at when all is searched again; twice as many when a value is perturbed."""

MOST_REFUSED = 3
"""How many ways may turn out to be no better for the whole program until a value stays as it is."""

HARDLY_MORE_HELD = 1.05
"""How many times more a device may hold, as padding may be another."""

_ROUNDING = 1e-9


class _Following(enum.IntEnum):
    """How it is looked for what follows from a sharding, as the bits of a set.

    In both directions; only in that of what a value is made of; only in that of its users; in both, but what would have
    to be less split for it stays as it is; in both, and from what is annotated on to its other users, as if it had been
    moved for one; the same, but what only has to be cut for it stays as it is; in both, but what is moved to it anyway,
    for another user, stays as it is.
    """

    ALL = 1
    BACK = 2
    FORWARD = 4
    SPLIT = 8
    MOVED = 16
    MOVED_ONLY = 32
    NEAR = 64


_MOVING = _Following.MOVED | _Following.MOVED_ONLY
_EVERY = sum(_Following)
_WITHIN = {
    _Following.BACK: _Following.ALL,
    _Following.FORWARD: _Following.ALL,
    _Following.SPLIT: _Following.ALL,
    _Following.MOVED_ONLY: _Following.MOVED,
    _Following.NEAR: _Following.ALL,
}
"""Of ways that follow a part of what another way does, which one: they are tried where that is less."""


class _Trial(NamedTuple):
    """Shardings to try: if each device computes the value whole of whole values, and how many times less is sent.

    Free results that come to lie otherwise than arguments of their type may have to be brought there.
    """

    choice: Choice
    is_remade: bool = False
    worth: float = 1.0
    brought_bytes: float = 0.0


class _Consequence(NamedTuple):
    """What another value of an operation is if that needs nothing: one that may change, or else would be moved.

    It is `followed` in this set of ways.
    """

    value: int
    sharding: TensorSharding
    may_change: bool
    followed: int


class _Total(NamedTuple):
    """What a program costs a device: bytes that it sends, seconds, operations, and the most that it holds at once."""

    sent_bytes: float
    time_s: float
    flops: float
    held_bytes: float

    def sends_less(self, than: _Total, part_of_time: float = 1.0) -> bool:
        """Whether less is sent; where that is hardly less, it has to take less than this part of the time."""
        if self.sent_bytes < than.sent_bytes * HARDLY_LESS:
            return True
        return self.sent_bytes <= than.sent_bytes and self.time_s < than.time_s * part_of_time

    def works_no_more(self, than: _Total) -> bool:
        """Whether no more is computed and no more time taken, however sums are rounded, and hardly more held."""
        is_longer = self.time_s > than.time_s * (1 + _ROUNDING) or self.flops > than.flops * (1 + _ROUNDING)
        return not is_longer and self.held_bytes <= max(than.held_bytes * HARDLY_MORE_HELD, SMALL_BYTES)


class Chains:
    """Goes through a program whose shardings are complete, and changes those of its values."""

    def __init__(self, annotated: AnnotatedProgram, rules: RuleBook, chooser: Chooser) -> None:
        self.annotated, self.chooser = annotated, chooser
        self.places = ValuePlaces(annotated, rules)
        self.costs = Costs(self.places, chooser)
        self._before: Choice = {}  # what has changed was this
        self._dims: dict[tuple[int, tuple[TensorSharding | None, ...]], list[tuple[int, tuple[Axes, ...]]]] = {}
        # What follows from the shardings of an operation's values, by its index, until something changes.
        self._follows: dict[tuple[int, tuple[TensorSharding | None, ...]], list[_Consequence]] = {}
        self._ways_of: dict[Situation, list[tuple[TensorSharding, ...]]] = {}
        # Surroundings of values in which nothing was better, as layers that repeat have them.
        self._right: set[Hashable] = set()
        self._dear: set[Hashable] = set()  # of those in which something was, if arithmetic is repeated for it
        self._may_repeat = False
        self._tried = 0  # choices
        self._most_moves = self._moves_from_now()

    def run(self) -> list[Refinement]:
        """Decide, and write what has changed to the module.

        What is changed first decides what is worth changing next, so values are gone through in both directions, each
        from the beginning, and the program that sends less is taken. Then it is perturbed. Where that would take long,
        it is left out. Layers are not perturbed: those that stand for others have to stay alike.
        """
        start = dict(enumerate(self.places.sharding))
        if self._search(start, is_backward=False):
            may_have_layers = self.places.may_have_layers
            if may_have_layers or self._tried < MOST_TRIED:
                self._keep_better(lambda: self._search(start, is_backward=True))
            if not may_have_layers:
                self._perturb()
        return self.places.write(self._before)

    def _search(self, start: Choice, is_backward: bool) -> bool:
        """Improve the program that has these shardings; returns whether anything has changed.

        Arithmetic is repeated where all else is decided, or from the beginning, if there is a place for that.
        """
        self._may_repeat = False
        self._dear.clear()
        has_changed = self._sweep_from(start, is_backward)
        if self._dear:
            self._may_repeat = True
            self._right -= self._dear
            has_changed |= self._sweep(is_backward)
            self._keep_better(lambda: self._sweep_from(start, is_backward))
        return has_changed

    def _keep_better(self, search: Callable[[], object]) -> None:
        """Search again, and take what was found before unless less is sent then."""
        found, before = dict(enumerate(self.places.sharding)), self._whole_cost()
        search()
        if not self._whole_cost().sends_less(before):
            self._change(found)
            self.costs.settle_all()

    def _perturb(self) -> None:
        """Leave programs that no single change makes better, for those that send less and compute no more."""
        self._most_moves = self._moves_from_now()
        seen, before = set[int](), self._whole_cost()
        while len(seen) < MOST_PERTURBED and self._tried < 2 * MOST_TRIED and not self._is_given_up:
            value = max(set(self._disputed()) - seen, key=self._time_around, default=None)
            if value is None:
                return
            seen.add(value)
            choice = self._least_loss(value)
            if not choice:
                continue
            found = list(self.places.sharding)
            self._take(choice)
            self._sweep_on(is_backward=False, kept=choice)
            after = self._whole_cost()
            if after.sends_less(before, HARDLY_LESS) and after.works_no_more(before):
                before = after
            else:
                pairs = enumerate(zip(found, self.places.sharding, strict=True))
                self._take({each: had for each, (had, has) in pairs if had != has})

    def _time_around(self, value: int) -> tuple[float, int]:
        """Seconds that the places of a value take, with what is decided; of equal ones the first value counts more."""
        around = self._around({value: self.places.sharding[value]})
        return self.costs.as_decided(around).time_s, -value

    def _least_loss(self, value: int) -> Choice:
        """The best of the choices for a value that it does not have; nothing where all are much worse.

        Left out are those that compute more or hold more while loops run, and sums that are not taken as agreed.
        """
        best: tuple[float, Choice] = 1 + MOST_LOSS, {}
        for choice in (trial.choice for trial in self._trials(value) if trial.worth == 1.0):
            self._tried += 1
            uses = self._around(choice)
            old = self.costs.as_decided(uses)
            new = self.costs.of(uses, choice, old.time_s * best[0])
            if new is None or new.flops > old.flops * REPEATED_ARITHMETIC or self._held_in_loops(choice) > 0:
                continue
            if new.time_s < old.time_s * best[0]:
                best = new.time_s / old.time_s, choice
        return best[1]

    def _sweep_from(self, start: Choice, is_backward: bool) -> bool:
        """Go through all values of the program that has these shardings."""
        self._right.clear()
        self._most_moves = self._moves_from_now()
        self._change(start)
        return self._sweep(is_backward)

    def _sweep(self, is_backward: bool) -> bool:
        """Go through all values until nothing is better; returns whether anything was."""
        self.costs.settle_all()
        self._follows.clear()
        return self._sweep_on(is_backward)

    def _sweep_on(self, is_backward: bool, kept: Collection[int] = ()) -> bool:
        """The same, with what is settled; the first sweep leaves the values `kept` as they are."""
        for sweep in range(MOST_SWEEPS):
            disputed = [value for value in self._disputed() if sweep or value not in kept]
            listed = reversed(disputed) if is_backward else disputed
            improved = [self._improve(value) for value in listed if not self._is_given_up]
            if not any(improved) and (sweep or not kept):
                return sweep > 0
        return True

    def _change(self, choice: Choice) -> None:
        """Let values have these shardings from now on."""
        for value, sharding in choice.items():
            if sharding != self.places.sharding[value]:
                self._before.setdefault(value, self.places.sharding[value])
                self.places.sharding[value] = sharding

    def _whole_cost(self) -> _Total:
        """What the whole program costs, as it is decided."""
        decided = self.costs.as_decided(self.places.all(), all_layers=True)
        return _Total(
            self.costs.sent_bytes(decided, is_decided=True), decided.time_s, decided.flops, decided.held_bytes
        )

    @property
    def _is_given_up(self) -> bool:
        return self.chooser.planner.moves_tried > self._most_moves

    def _moves_from_now(self) -> int:
        planner = self.chooser.planner
        return planner.moves_tried + MOST_SEARCHES * planner.max_moves

    def _disputed(self) -> list[int]:
        """Values of operations that something is sent for, and those wanted otherwise than they are, in order.

        Also results that might lie as an argument does. Annotated values are left out.
        """
        found: set[int] = set()
        for use in self.costs.sending():
            assert use.op is not None
            if self.costs.weigh(use.op, self.costs.situation(use.op, {})).strategy.time_s:
                found.update(use.op.operands + use.op.results)
        for value, uses in self.places.needs.items():
            have = self.places.at(value, {})
            for use in uses:
                if self.places.need(use, {}) != have:
                    found.update((value, use.like) if use.like >= 0 else (value,))
        for value in self.places.free_ends:
            if any(sharding != self.places.sharding[value] for sharding in self.places.ends_like(value)):
                found.add(value)
        return sorted({self.places.carried[value] for value in found if self.places.may_change(value)})

    def _improve(self, value: int) -> bool:
        """Give a value, and what follows from it, the best of the shardings that others want of it.

        What is best with all that it touches may make others dearer that share a move with these: where the whole
        program then takes no less time, the next best is tried.
        """
        around = self._surroundings(value)
        if around in self._right:
            return False
        refused: list[Choice] = []
        while len(refused) < MOST_REFUSED:
            choice, is_dear = self._best(value, refused)
            if not choice:
                self._right.add(around)
                if is_dear:
                    self._dear.add(around)
                return False
            all_layers = self.places.is_for_all_layers(choice)
            before = {each: self.places.sharding[each] for each in choice}
            total_s = self.costs.of_program(all_layers).time_s
            self._take(choice)
            if self.costs.of_program(all_layers).time_s < total_s:
                return True
            self._take(before)
            refused.append(choice)
        return False

    def _take(self, choice: Choice) -> None:
        """Let values have these shardings from now on, and what is around them be run for that."""
        self._change(choice)
        self.costs.settle(self._around(choice))
        self._follows.clear()

    def _best(self, value: int, refused: list[Choice]) -> tuple[Choice, bool]:
        """What is best for a value and for all that this touches, but for what was refused.

        Nothing if that is what is decided; then it says whether something would be that repeats arithmetic.
        """
        best: tuple[float, Choice] = 0.0, {}
        is_dear = False
        for trial in self._trials(value):
            choice = trial.choice
            if choice in refused:
                continue
            self._tried += 1
            uses = self._around(choice)
            all_layers = self.places.is_for_all_layers(choice)
            old = self.costs.as_decided(uses, all_layers)
            new = self.costs.of(uses, choice, old.time_s - best[0], all_layers)
            if self._is_given_up:
                self._tell_given_up(value)
                return {}, False
            if new is None:
                continue
            kept = self.costs.partial(old, {})
            if self.costs.partial(new, choice) != kept:
                old = self.costs.without_sums(old, kept)
            gain, is_repeated = old.time_s - new.time_s, new.flops > old.flops * REPEATED_ARITHMETIC
            if value in self.places.names:
                spared = old.held_bytes + min(gain * self.chooser.hardware.link_bytes_per_s, SPARED_BYTES)
            elif trial.is_remade:
                spared = old.held_bytes + SMALL_BYTES
            else:
                spared = 0.0 if is_repeated else SMALL_BYTES
            if not new.is_less(old, spared):
                continue
            # Of equal gains the first is taken, however sums are rounded.
            if gain <= best[0] + _ROUNDING * old.time_s or not self._is_allowed(new, old, trial):
                continue
            if self._may_repeat or not is_repeated:
                best = gain, choice
            else:
                is_dear = True
        return best[1], is_dear and not best[1]

    def _is_allowed(self, new: Cost, old: Cost, trial: _Trial) -> bool:
        """Whether no more bytes are sent, for fewer collectives or on shorter ways, and hardly more is contracted.

        So many times less may have to be sent, unless devices share arithmetic then that each of them would do. What
        each of them makes of whole values may take a part of the time that sending it takes. So may what spares nearly
        all that is sent.

        A free result that comes to lie otherwise than arguments of its type counts as brought there. Even without
        that, several times less has to be sent, and for no sum that a loop may take once, behind it.
        """
        new_bytes, old_bytes = self.costs.sent_bytes(new), self.costs.sent_bytes(old, is_decided=True)
        is_shared = new.flops < old.flops * (1 - _ROUNDING)
        worth = 1.0 if is_shared else trial.worth
        if worth * (new_bytes + trial.brought_bytes) > old_bytes:
            return False
        if trial.brought_bytes and (OTHER_END_WORTH * new_bytes > old_bytes or old.sums_in_a_loop):
            return False
        is_cheap = trial.is_remade or (REPEATED_WORTH * new_bytes <= old_bytes and not old.sums_in_a_loop)
        hardware = self.chooser.hardware
        flops_per_byte = REPEATED_SHARE * hardware.flops_per_s / hardware.link_bytes_per_s
        spared_flops = flops_per_byte * (old_bytes - new_bytes) if is_cheap else 0.0
        if self._held_in_loops(trial.choice) > min(HELD_FOR_SENT * (old_bytes - new_bytes), SPARED_BYTES):
            return False
        return new.flops <= old.flops * REPEATED_ARITHMETIC + spared_flops

    def _held_in_loops(self, choice: Choice) -> float:
        """Bytes that a device holds more while loops run that hand values on, or less if negative."""
        total = 0.0
        for value in choice.keys() & self.places.handed_on:
            type_ = self.places.program.value_type[value]
            before, after = self.places.sharding[value], choice[value]
            total += self.chooser.local_bytes(type_, after) - self.chooser.local_bytes(type_, before)
        return total

    def _tell_given_up(self, value: int) -> None:
        most = MOST_SEARCHES * self.chooser.planner.max_moves
        text = (
            f"and what follows are not refined, as {most} moves have been looked at; max-reshard-moves allows for more"
        )
        remark(self.places.maker[value].ir if value in self.places.maker else self.places.program.function, text)

    def _surroundings(self, value: int) -> Hashable:
        """What tells the places of a value from those of others, as far as it is looked at at once."""
        places: list[Hashable] = []
        for use in self._around({value: self.places.sharding[value]}):
            if use.op is None:
                places.append((self.places.at(use.value, {}), self.places.need(use, {})))
            else:
                at = tuple([i for i, each in enumerate((*use.op.operands, *use.op.results)) if each == value])
                moved = [tuple(self.costs.moved[each].values()) for each in use.op.operands]
                places.append((at, self.costs.situation(use.op, {}, moved)))
        return tuple(places)

    def _offers(self, value: int) -> list[TensorSharding]:
        """The shardings that the maker of a value and its users would have it with."""
        maker, found = self.places.maker.get(value), dict[TensorSharding, None]()
        if maker is not None and self.places.made_at(value) is not None:
            for way in self._ways(maker):
                made = way[len(maker.operands) + maker.results.index(value)]
                found[made.with_axes(made.dim_axes())] = None
        names = self.places.names_of(value)
        for use in (use for name in names for use in self.places.uses[name]):
            if use.op is None:
                found[self.places.need(use, {})] = None
                found[self.places.at(use.value, {})] = None
            else:
                places = [index for index, each in enumerate(use.op.operands) if each in names]
                found.update({way[index]: None for way in self._ways(use.op) for index in places})
        return [each for each in found if self.places.fits(value, each)]

    def _scattered(self, value: int) -> Iterator[TensorSharding]:
        """Of a product that every device gets as a sum over devices: split over these, in each of its dimensions.

        Much smaller ones than what they are made of are not: operands would have to be split otherwise, too. Nor is
        what is cut over these devices behind it: the sum and the cut become one.
        """
        place = self.places.made_at(value)
        if place is None or place.op is None:
            return
        counted = traits_of(place.op.info.name).flops
        if counted is None or counted.kind not in CONTRACTIONS:
            return
        situation, index = self.costs.situation(place.op, {}), place.op.results.index(value)
        made, wanted = self.costs.weigh(place.op, situation).strategy.results[index], situation.results[index]
        if not made.unreduced or overlap(wanted.used_axes(), made.unreduced):
            return
        needs = [self.places.need(use, {}) for use in self.places.needs.get(value, ())]
        if any(need != wanted and is_less_split(wanted.dim_axes(), need.dim_axes()) for need in needs):
            return
        shape, dims = place.op.info.results[index].shape, made.dim_axes()
        if MOST_SUMMED * math.prod(shape) < max(math.prod(operand.shape) for operand in place.op.info.operands):
            return
        for dim, axes in enumerate(dims):
            split = canonical(axes + made.unreduced)
            if shape[dim] % size_of(split) == 0:
                yield made.with_axes((*dims[:dim], split, *dims[dim + 1 :]))

    def _is_agreed_sum(self, value: int) -> bool:
        """Whether a value is summed along what all operands are split over, as gradients are along the batch.

        An argument that nothing is said of is split because the other operand is, so it agrees to nothing.
        """
        place = self.places.made_at(value)
        if place is None or place.op is None or any(each in self.places.boundary for each in place.op.operands):
            return False
        rule = self.places.rule(place.op)
        return any(
            rule.kinds[factor] is REDUCTION for factor in agreed(rule, self.costs.situation(place.op, {}).split(rule))
        )

    def _brought_bytes(self, choice: Choice) -> float:
        """Bytes that a device sends to bring free results to where arguments of their type lie, if none lies so."""
        total, all_layers = 0.0, self.places.is_for_all_layers(choice)
        for value in choice.keys() & self.places.free_ends:
            like, made = self.places.ends_like(value), self.places.made_at(value)
            if like and choice[value] not in like:
                type_ = self.places.program.value_type[value]
                paths = [self.chooser.planner.plan(type_, choice[value], each) for each in like]
                copies = made.copies if made is not None and all_layers else 1.0
                total += copies * min(sent_bytes(type_, choice[value], path.steps) for path in paths)
        return total

    def _ways(self, op: Op) -> list[tuple[TensorSharding, ...]]:
        """The shardings of operands and results as an operation is run now, and in other ways if something is sent.

        Axes that none of its values uses stay unused: that devices along them do the same is what was asked for.
        """
        situation = self.costs.situation(op, {})
        strategy = self.costs.weigh(op, situation).strategy
        now = strategy.operands + strategy.results
        if not strategy.time_s:
            return [now]
        found = self._ways_of.get(situation)
        if found is None:
            idle = situation.idle(self.annotated.mesh)
            ways = self.chooser.possible(self.places.rule(op), situation)
            found = [way for way in ways if not any(overlap(s.used_axes(), idle) for s in way)]
            self._ways_of[situation] = found = [now, *found][:MOST_WAYS]
        return found

    def _choices(self, value: int, offer: TensorSharding) -> Iterator[Choice]:
        """The value with what follows from it through operations that would need nothing then, and alone.

        Where many follow, none are looked for beyond what is annotated.
        """
        alone = {value: offer}
        tried: list[Choice] = []
        left_out: dict[_Following, int] = {}  # in what other ways something is, of what follows in each
        follow_many = False
        for how in _Following:
            if (how & _MOVING and follow_many) or (how in _WITHIN and not how & left_out[_WITHIN[how]]):
                continue  # too much would follow, or nothing else
            choice, left_out[how] = self._followed(alone, how)
            if how is _Following.ALL:
                follow_many = len(choice) >= MOST_FOLLOWED
            if choice and choice not in tried:
                tried.append(choice)
                yield choice
        if alone not in tried:
            yield alone

    def _trials(self, value: int) -> Iterator[_Trial]:
        """What others would have of the value, or what each device may compute of whole values.

        A result that is a sum over devices may also be taken in parts, or lie as an argument of its type does.
        """
        for offer in self._offers(value):
            if offer != self.places.sharding[value]:
                yield from map(_Trial, self._choices(value, offer))
        worth = AGREED_SUM_WORTH if self._is_agreed_sum(value) else 1.0
        for offer in self._scattered(value):
            if offer != self.places.sharding[value] and self.places.fits(value, offer):
                for choice in self._choices(value, offer):
                    yield _Trial(choice, worth=worth, brought_bytes=self._brought_bytes(choice))
        for like in self.places.ends_like(value):
            if like != self.places.sharding[value]:
                yield from map(_Trial, filter(self._is_reduced, self._choices(value, like)))
        whole = self.places.whole(value)
        if whole != self.places.sharding[value] and self.places.fits(value, whole):
            remade, _ = self._followed({value: whole}, _Following.BACK)
            if remade and self._is_made_of_whole(remade):
                yield _Trial(remade, is_remade=True)

    def _is_reduced(self, choice: Choice) -> bool:
        """Whether one of the values is a sum over devices, which may be left where it is wanted."""
        places = [place for value in choice if (place := self.places.made_at(value)) is not None]
        makers = [place.op for place in places if place.op is not None]
        ways = [self.costs.weigh(maker, self.costs.situation(maker, {})).strategy for maker in makers]
        return any(made.unreduced for way in ways for made in way.results)

    def _is_made_of_whole(self, choice: Choice) -> bool:
        """Whether all that these values are made of is whole, so that nothing is sent for them."""
        makers = [self.places.maker[value] for value in choice if self.places.made_at(value) is not None]
        taken = {value for maker in makers for value in maker.operands if not self.places.is_free[value]}
        return all(self.places.at(value, choice).is_replicated() for value in taken)

    def _followed(self, start: Choice, how: _Following) -> tuple[Choice, int]:
        """What follows from a choice, with itself: the first MOST_VALUES. And which ways would leave some of that out.

        Nothing where much follows from what is annotated.
        """
        places, is_moving, left_out = self.places, bool(how & _MOVING), 0
        most = MOST_FOLLOWED if is_moving else MOST_VALUES
        choice, pending = dict(start), list(start)
        chosen = dict(start) if is_moving else choice  # with what would be moved
        while pending:
            if len(choice) >= most:
                return {} if is_moving else choice, left_out
            value = pending.pop()
            users, maker = places.around(value)
            ops = () if how is _Following.BACK else users
            if maker is not None and value in choice and how is not _Following.FORWARD:
                ops = (*ops, maker)
            for ends in ops:
                if is_moving or not ends.changing <= choice.keys():
                    for found in self._consequences(ends, chosen):
                        if how & found.followed:
                            left_out |= ~found.followed | (_Following.FORWARD if ends is maker else _Following.BACK)
                            chosen[found.value] = found.sharding
                            if found.may_change:
                                choice[found.value] = found.sharding
                            pending.append(found.value)
            for each in places.tied(value):
                if each not in choice and choice.get(value) is not None and places.fits(each, choice[value]):
                    choice[each] = chosen[each] = choice[value]
                    pending.append(each)
        return choice, left_out

    def _consequences(self, ends: OpEnds, chosen: Choice) -> list[_Consequence]:
        """What the other values of an operation are if it needs nothing with those that are chosen, or moved for it.

        Those that are so already are left out. So are those that may not change and that nothing else uses.
        """
        key = ends.op.index, tuple(map(chosen.get, ends.values))
        found = self._follows.get(key)
        if found is not None:
            return found
        found, places = [], self.places
        for each, dims in self._others_like(ends, key[1]):
            have = places.sharding[each]
            if dims == have.dim_axes():
                continue
            sharding = have.with_axes(dims)
            if each in ends.changing:
                if places.fits(each, sharding):
                    found.append(self._change_of(each, have, sharding))
            elif not places.is_free[each] and len(places.uses[each]) > 1:
                found.append(_Consequence(each, sharding, False, _MOVING))
        self._follows[key] = found
        return found

    def _change_of(self, value: int, have: TensorSharding, sharding: TensorSharding) -> _Consequence:
        """What follows for a value that may change."""
        left_out = 0
        if is_less_split(sharding.dim_axes(), have.dim_axes()):
            left_out |= _Following.SPLIT
        if is_less_split(have.dim_axes(), sharding.dim_axes()):
            left_out |= _Following.MOVED_ONLY
        if self._is_at_hand(value, sharding):
            left_out |= _Following.NEAR
        return _Consequence(value, sharding, True, _EVERY & ~left_out)

    def _is_at_hand(self, value: int, sharding: TensorSharding) -> bool:
        """Whether a value is moved to a sharding somewhere, as is decided so far."""
        moved, needs = self.costs.moved[value], self.places.needs.get(value)
        if moved and sharding in moved.values():
            return True
        return needs is not None and any(self.places.need(use, {}) == sharding for use in needs)

    def _others_like(
        self, ends: OpEnds, shardings: tuple[TensorSharding | None, ...]
    ) -> list[tuple[int, tuple[Axes, ...]]]:
        """The axes of the values of an operation without a sharding where it needs nothing with those that have one.

        Nothing where it always needs something, or nothing follows.
        """
        key = self.places.rule_number[ends.op.index], shardings
        found = self._dims.get(key)
        if found is None:
            found = self._dims[key] = self._dims_like(ends.op, shardings)
        return [(ends.values[tensor], dims) for tensor, dims in found]

    def _dims_like(self, op: Op, chosen: tuple[TensorSharding | None, ...]) -> list[tuple[int, tuple[Axes, ...]]]:
        """The axes of the operands and results without a sharding, by number."""
        rule, axes = self.places.rule(op), dict[int, Axes]()
        for tensor, sharding in enumerate(chosen):
            if sharding is not None:
                axes.update(factor_axes(rule, tensor, sharding))
        if not valid(rule, axes):
            return []
        others = [tensor for tensor, sharding in enumerate(chosen) if sharding is None]
        dims = ((tensor, tensor_axes(rule, tensor, axes)) for tensor in others)
        return [(tensor, each) for tensor, each in dims if each is not None]

    def _around(self, choice: Choice) -> list[ValuePlace]:
        """All that takes or makes these values, in the order of the program.

        With them what comes next to move another value that they take, or the same under a constraint, to each of the
        shardings that it is moved to: one move may serve both. What comes after that is as before.
        """
        places, names = self.places, [name for value in choice for name in self.places.names_of(value)]
        found: dict[tuple[int, int], ValuePlace] = {}
        for name in names:
            found.update(places.touching(name))
        first = dict.fromkeys(names, 0)  # by value: the first place that takes it
        for key in sorted(found):
            for value in found[key].taken:
                first.setdefault(value, key[0])
        pending = list(first)
        for value in pending:
            if self.costs.moved[value]:
                for use in self._moved_next(value, first[value]):
                    found[use.order, use.value] = use
            for again in places.again.get(value, ()):
                if again not in first:
                    first[again] = first[value]
                    pending.append(again)
        return [found[key] for key in sorted(found)]

    def _moved_next(self, value: int, order: int) -> Iterator[ValuePlace]:
        """Of the places behind one, the first to move a value to each of the shardings that it is moved to."""
        moved, seen = self.costs.moved[value], set[TensorSharding]()
        for use in self.places.uses[value]:
            if use.order > order and use.order in moved and moved[use.order] not in seen:
                seen.add(moved[use.order])
                yield use
