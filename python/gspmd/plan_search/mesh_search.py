"""The search over one mesh: from states that are known, one decision after the other, each priced by partitioning."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

from gspmd.costs.outcome import Outcome
from gspmd.costs.text import time_text
from gspmd.dialect.progress import tell
from gspmd.plan_search.bound import Bound
from gspmd.plan_search.pipelining import PipelineProposal
from gspmd.plan_search.pricing import PlanPrices, State, rank
from gspmd.plan_search.starts import KNOWN_WAYS, TENSOR, TENSOR_SHARDED, neighbors, state_sharded, tensor_parallel

_WORTH = 1 - 1e-4  # what is less by a smaller part is equal
_ALIKE = 5e-3  # the part by which steps differ that are alike
_SIMPLER = 1 + 3e-4  # by how much a step may be longer for a plan that decides less
_LOOKED_AT_AGAIN = 4  # of the states that are best by rough prices
_COMPILED = 2.0  # how much longer a known way's step may be than the plan's for it to be compiled, too


class MeshSearch:
    """The search over one mesh: the best state so far, by rough prices first and then by exact ones."""

    def __init__(
        self,
        prices: PlanPrices,
        pinned: frozenset[str],
        states: Mapping[str, State],
        bound: Bound,
        propose: Callable[[float, float], PipelineProposal | None] = lambda *_: None,
    ) -> None:
        self.prices, self.pinned, self.states = prices, pinned, dict(states)
        self.bound, self.propose = bound, propose
        self.is_rough = True
        while any(state not in prices.rough for state in states.values()):
            prices.price_some(list(states.values()), is_rough=True)
        self.state = min(states.values(), key=self._promise_of)
        self.is_complete = False

    @property
    def outcome(self) -> Outcome | None:
        return self._price(self.state)

    def improve(self, ends: Sequence[float]) -> None:
        """Change decisions by rough prices, and leave open what may be; then go on from there with exact ones.

        `ends` are the times at which the parts of this end: tensor parallelism, what is left open and what is changed
        by rough prices, the first exact prices, what is changed by these, and what each decision is worth.
        """
        known_ways, opened, changed, looked_at, until, weighed = ends
        self._try_tensor_parallel(known_ways)
        before = self.state
        self._open(opened)
        simple = self.state
        self._descend(changed)
        if self.state != simple:
            before = self.state
            self._open(changed)
        self._look_again(before, looked_at)
        before = self.state
        self._descend(until)
        self._start_again(until)
        if self.state != before:
            self._open(until)
        self._weigh(weighed)

    def rank_of(self, state: State) -> tuple[float, ...]:
        """What states are compared by."""
        return rank(self._price(state))

    def _promise_of(self, state: State) -> tuple[float, ...]:
        """What states are compared by to go on from: of those whose steps are alike, that which sends less."""
        kind, *figures = self.rank_of(state)
        return (kind, round(math.log(max(figures[0], 1e-12)) / _ALIKE), *figures[1:]) if figures else (kind,)

    def _price(self, state: State) -> Outcome | None:
        return self.prices.price(state, self.is_rough)

    def _look_again(self, before: State, until: float) -> None:
        """Go on with exact prices: with what was left open, if it is as good as others, or the best of these.

        Others are what was there `before`, what is best by rough prices, and the known ways, as far as there is time.
        """
        self.is_rough, rough, simple = False, self.prices.rough, self.state
        known = sorted((state for state in rough if rough[state] is not None), key=lambda state: rank(rough[state]))
        ways = sorted(self.states.values(), key=lambda state: rank(rough.get(state)))
        best = list(dict.fromkeys([simple, before, *known[:_LOOKED_AT_AGAIN], *ways]))
        while any(state not in self.prices.exact for state in best):
            self.prices.price_some(best)
            if time.monotonic() > until:
                best = [state for state in best if state in self.prices.exact]
        self.state = min(best, key=self.rank_of)
        if _is_as_good(self._price(simple), self.outcome):
            self.state = simple

    def baselines(self, may_price: Callable[[], bool]) -> dict[str, Outcome]:
        """What the known ways cost, exactly as long as there is time, else by rough prices."""
        exact, states = self.prices.exact, list(self.states.values())
        while may_price() and any(state not in exact for state in states):
            self.prices.price_some(states)
        found = {
            name: exact[state] if state in exact else self.prices.price(state, is_rough=True)
            for name, state in self.states.items()
        }
        return {name: outcome for name, outcome in found.items() if outcome is not None}

    def _try_tensor_parallel(self, until: float) -> None:
        if self.pinned:
            return
        state, changes = tensor_parallel(self.prices.roles, self.prices.mesh)
        for change in changes:
            if time.monotonic() > until:
                break
            other = change(state)
            if is_better(self._price(other), self._price(state)):
                state = other
        found = {TENSOR: state}
        if len(self.prices.mesh.axes) > 1:
            found[TENSOR_SHARDED] = state_sharded(self.prices.roles, self.prices.mesh, state)
        for name, state in found.items():
            outside = tuple(
                None if role.values else dims for role, dims in zip(self.prices.roles.roles, state, strict=True)
            )
            self.prices.price_some([state, outside], self.is_rough)
            self.states[name] = min(state, outside, key=self.rank_of)
        self.state = min((self.state, *self.states.values()), key=self._promise_of)

    def _descend(self, until: float) -> None:
        """Take the first decision that is better than the one there is, until none is or the time is up."""
        known, position, unchanged = self.prices.known(self.is_rough), 0, 0
        self.is_complete = False
        moves = self._moves()
        while unchanged < len(moves):
            other = moves[position % len(moves)]
            if other not in known:
                if time.monotonic() > until:
                    return
                self._tell(position % len(moves), len(moves))
                start = position % len(moves)
                self.prices.price_some([*moves[start:], *moves[:start]], self.is_rough)
            position, unchanged = position + 1, unchanged + 1
            if is_better(self._price(other), self.outcome):
                self.state, unchanged = other, 0
                moves = self._moves()
        self.is_complete = True

    def _open(self, until: float) -> None:
        """Leave to propagation what it does as well: first all, then halves, then single; values inside go first."""
        roles = self.prices.roles.roles
        decided = [number for number, dims in enumerate(self.state) if dims is not None]
        decided = [number for number in decided if roles[number].label not in self.pinned]
        arguments = sorted((n for n in decided if roles[n].arguments), key=lambda number: roles[number].bytes)
        pending = [arguments, [number for number in decided if roles[number].values][::-1]]
        while pending and time.monotonic() < until:
            part = pending.pop()
            halves = [part[len(part) // 2 :], part[: len(part) // 2]] if len(part) > 1 else []
            other = self._opened(part)
            self.prices.price_some([other, *map(self._opened, reversed(halves + pending))], self.is_rough)
            if part and _is_as_good(self._price(other), self.outcome):
                self.state = other
            else:
                pending += halves

    def _start_again(self, until: float) -> None:
        """While there is time, change decisions from the other known ways, too, and take what is best."""
        best = self.state
        for start in sorted(set(self.states.values()) - {best}, key=lambda state: rank(self.prices.rough.get(state))):
            if time.monotonic() > until or not self.is_complete:
                break
            self.state = start
            self._descend(until)
            if is_better(self.outcome, self._price(best)):
                best = self.state
        self.state = best

    def left_open(self) -> list[State]:
        """The state with each of its decisions left to propagation."""
        return [self._opened([number]) for number, dims in enumerate(self.state) if dims is not None]

    def _weigh(self, until: float) -> None:
        """Price the state without each of its decisions; where one of these is better, go on from there."""
        known = self.prices.exact
        while time.monotonic() < until:
            states = [state for state in self.left_open() if not self._is_pinned(state)]
            if all(state in known for state in states):
                best = min([self.state, *states], key=self.rank_of)
                if not is_better(self._price(best), self.outcome):
                    return
                self.state, self.is_complete = best, False
            else:
                self.prices.price_some(states)

    def take_best(self) -> bool:
        """Go on with the best state that has an exact price; whether that is another one."""
        found = min((state for state in self.prices.exact if not self._is_pinned(state)), key=self.rank_of)
        if not is_better(self._price(found), self.outcome):
            return False
        self.state, self.is_complete = found, False
        return True

    def contenders(self, plan: Outcome) -> list[State]:
        """What else may be the fastest once it is compiled: the best known ways, then other states that fit.

        A compiler may see what the estimate does not, and then known ways differ from the plan by more than states do
        that are a decision away from it. Of states that cost the same there is one.
        """
        fitting = {
            state: outcome
            for state, outcome in sorted(self.prices.exact.items(), key=lambda item: rank(item[1]))
            if outcome is not None and outcome.fits and not self._is_pinned(state)
        }
        ways = {state for name, state in self.states.items() if name in KNOWN_WAYS}
        near = [state for state in fitting if state in ways and fitting[state].step_s <= _COMPILED * plan.step_s]
        different = {plan: self.state}
        for state in (*near, *fitting):
            different.setdefault(fitting[state], state)
        return list(different.values())[1:]

    def _is_pinned(self, state: State) -> bool:
        """Whether a state differs in what is pinned."""
        roles = self.prices.roles.roles
        return any(
            role.label in self.pinned and mine != other
            for role, mine, other in zip(roles, self.state, state, strict=True)
        )

    def _opened(self, part: Sequence[int]) -> State:
        return tuple(None if number in part else dims for number, dims in enumerate(self.state))

    def _moves(self) -> Sequence[State]:
        """States to try next, those that are best by rough prices first where they have one."""
        moves = list(neighbors(self.prices.roles, self.prices.mesh, self.state, self.pinned))
        rough = self.prices.rough
        return moves if self.is_rough else sorted(moves, key=lambda state: rank(rough.get(state)))

    def _tell(self, number: int, total: int) -> None:
        axes = ", ".join(f"{name}={size}" for name, size in self.prices.mesh.axes)
        best = "none" if self.outcome is None else time_text(self.outcome.step_s)
        tell(f"{axes}: best step {best}, {len(self.prices.rough) + len(self.prices.exact)} plans", number + 1, total)


def _is_as_good(new: Outcome | None, old: Outcome | None) -> bool:
    """Whether it is worse by no more than is worth a decision."""
    if new is None or old is None or new.fits != old.fits:
        return False
    figures = (new.step_s, old.step_s) if new.fits else (new.memory_bytes, old.memory_bytes)
    return figures[0] <= figures[1] * _SIMPLER


def is_better(new: Outcome | None, old: Outcome | None) -> bool:
    """Whether it is better by more than rounding."""
    if new is None or old is None or not (new.fits and old.fits):
        return rank(new) < rank(old)
    if new.step_s < old.step_s * _WORTH:
        return True
    return new.step_s <= old.step_s and new.sent_bytes < old.sent_bytes * _WORTH
