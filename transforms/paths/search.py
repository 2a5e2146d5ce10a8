"""The search for the fastest path of moves between two placements (A*).

For example, `f32[64,64] [{"x"}, {}], unreduced={"y"} -> [{"y"}, {"x"}]` over x=4, y=2, if bytes dominate:

    reduce_scatter to [{"x"}, {"y"}], reshard      2,048 + 2,048 bytes, 116 ns: the chosen path
    all_to_all to [{}, {"x"}], reduce_scatter      3,072 + 2,048 bytes, 126 ns
    all_reduce to [{"x"}, {}], reshard             4,096 + 2,048 bytes, 141 ns
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math

from gspmd.dialect.axes import Axes, atoms, canonical, size_of, split_at
from gspmd.dialect.primes import prime_factors
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.exchange.step import ReshardStep
from gspmd.transforms.paths.moves import Moves
from gspmd.transforms.paths.path import Move, MoveBudget, Path, State
from gspmd.transforms.paths.prices import Prices
from gspmd.transforms.paths.traffic import least_elements

Cuts = dict[str, tuple[int, ...]]

# States visited before a search returns its best path, and before a finer one stops without a path.
MAX_STATES, MAX_STATES_WITHOUT_PATH = 500, 1000

# Pricing a direct exchange takes as long as this many moves, and is charged to the budget accordingly.
_DIRECT = 10


class Search:
    """A search from one sharding to another, with axes in atoms, the finest parts of the search.

    `cuts` are those of the source and of the target, which differ for axes whose parts do not nest. A search is `finer`
    if it cuts axes more than the shardings do; it may find nothing. A search stops when its `budget` is used up: it
    returns the best path found, or the path that always exists.
    """

    def __init__(
        self,
        prices: Prices,
        source: TensorSharding,
        target: TensorSharding,
        cuts: tuple[Cuts, Cuts],
        budget: MoveBudget,
        finer: bool = False,
    ) -> None:
        self.prices = prices
        self.budget = budget
        self.form = source
        self.source, self.target = (_state(sharding, cut) for sharding, cut in zip((source, target), cuts, strict=True))
        self.moves = Moves(prices, self.source, self.target)
        self.finer = finer
        self._devices = source.mesh.size // size_of(source.manual)
        self._ahead: dict[State, float] = {}
        self.limited = False  # whether some path was rejected because of its memory

    def run(self, most_bytes: float = math.inf, most_s: float = math.inf) -> Path | None:
        """The fastest path below `most_s`; None if there is none.

        No device holds more than `most_bytes` of the value at a time, except source and target.
        """
        direct = self.moves.single()
        if direct is not None:
            return Path((self._step(direct),), direct.time_s) if direct.time_s < most_s else None
        counter = itertools.count()
        # By the lower bound of a path's time: the time to the state, and the bound from there on.
        queue: list[tuple[float, int, float, State]] = [(0.0, next(counter), 0.0, self.source)]
        best: dict[State, float] = {self.source: 0.0}
        came: dict[State, tuple[State, Move]] = {}
        looked_at = 0
        while queue and not (looked_at and self.budget.used_up):
            _, _, time_s, state = heapq.heappop(queue)
            if state == self.target:
                return self._path(came, time_s)
            if time_s > best[state]:
                continue
            looked_at += 1
            if looked_at > MAX_STATES and self.target in best:
                return self._path(came, best[self.target])
            if looked_at > MAX_STATES_WITHOUT_PATH and self.target not in best and self.finer:
                return None
            self.budget.left -= len(state[0])
            directly = self.moves.priced_directly
            for move in self.moves.of(state, min(most_s, best.get(self.target, math.inf)) - time_s):
                self.budget.left -= 1
                total = time_s + move.time_s
                at_target = min(most_s, best.get(self.target, math.inf))
                known = min(at_target, best.get(move.after, math.inf))
                at_least = total + self._ahead_s(move.after)
                if total < known and at_least >= at_target:
                    continue  # no better path goes through it
                if total < known and self._peak(move) > most_bytes:
                    self.limited = True
                elif total < known:
                    best[move.after] = total
                    came[move.after] = (state, move)
                    heapq.heappush(queue, (at_least, next(counter), total, move.after))
            self.budget.left -= _DIRECT * (self.moves.priced_directly - directly)
        return self._given_up(came, best, most_bytes, most_s) if queue else None

    def one_step(self) -> Path | None:
        """The fastest single move to the target; None if there is none."""
        best = min(self.moves.to_target(), key=lambda move: move.time_s, default=None)
        return None if best is None else Path((self._step(best),), best.time_s, self._peak(best))

    def _ahead_s(self, state: State) -> float:
        """A lower bound of the seconds from a state to the target: one collective that sends the missing bytes."""
        if state == self.target:
            return 0.0
        found = self._ahead.get(state)
        if found is None:
            least = least_elements(self.prices.shape, state, self.target, self._devices)
            found = self._ahead[state] = self.prices.least_time(least)
        return found

    def _given_up(
        self, came: dict[State, tuple[State, Move]], best: dict[State, float], most_bytes: float, most_s: float
    ) -> Path | None:
        """The best of the paths found and the path that always exists."""
        moves = self.moves.through_whole()
        time_s = sum(move.time_s for move in moves)
        if time_s < min(most_s, best.get(self.target, math.inf)) and max(map(self._peak, moves)) <= most_bytes:
            came, state = {}, self.source
            for move in moves:
                came[move.after] = state, move
                state = move.after
        elif self.target in best:
            time_s = best[self.target]
        else:
            return None
        return dataclasses.replace(self._path(came, time_s), complete=False)

    def _peak(self, move: Move) -> float:
        held = 0.0 if move.after == self.target else self.prices.local_bytes(move.after[0])
        return max(held, move.peak_bytes)

    def _path(self, came: dict[State, tuple[State, Move]], time_s: float) -> Path:
        moves: list[Move] = []
        state = self.target
        while state != self.source:
            state, move = came[state]
            moves.insert(0, move)
        return Path(tuple(map(self._step, moves)), time_s, max(map(self._peak, moves), default=0.0))

    def _step(self, move: Move) -> ReshardStep:
        dims, unreduced = move.after
        mesh = self.form.mesh
        after = self.form.with_axes(tuple(map(canonical, dims)), mesh.sorted(canonical(unreduced)))
        moves = tuple((canonical(axes), source, target) for axes, source, target in move.moves)
        return ReshardStep(move.kind, after, tuple(map(canonical, move.dims)), mesh.sorted(canonical(move.axes)), moves)


def _state(sharding: TensorSharding, cuts: Cuts) -> State:
    return tuple(split_at(axes, cuts) for axes in sharding.dim_axes()), split_at(sharding.unreduced, cuts)


def common_cuts(source: TensorSharding, target: TensorSharding) -> tuple[Cuts, Cuts]:
    """The cuts of axes: the same for both, unless they do not nest."""
    own = tuple(atoms(_lists(sharding)) for sharding in (source, target))
    for name in own[0].keys() & own[1].keys():
        try:
            joint = atoms([axes for s in (source, target) for axes in _of_name(_lists(s), name)])
        except ValueError:
            continue
        for cuts in own:
            cuts[name] = joint[name]
    return own[0], own[1]


def _lists(sharding: TensorSharding) -> list[Axes]:
    return [*sharding.dim_axes(), sharding.unreduced]


def _of_name(lists: list[Axes], name: str) -> list[Axes]:
    return [tuple(axis for axis in axes if axis.name == name) for axes in lists]


def finer_cuts(cuts: tuple[Cuts, Cuts], most_parts: int) -> tuple[Cuts, Cuts] | None:
    """The axes in prime factors; None if they already are, or if there are more than `most_parts` of these."""
    finer = tuple({name: _prime_cuts(bounds) for name, bounds in each.items()} for each in cuts)
    if finer == cuts or any(sum(len(bounds) - 1 for bounds in each.values()) > most_parts for each in finer):
        return None
    return finer[0], finer[1]


def _prime_cuts(bounds: tuple[int, ...]) -> tuple[int, ...]:
    """The bounds of parts, each the previous one times a prime number."""
    found = list(bounds[:1])
    for bound in bounds[1:]:
        for factor in prime_factors(bound // found[-1]):
            found.append(found[-1] * factor)
    return tuple(found)
