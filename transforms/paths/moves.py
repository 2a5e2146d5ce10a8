"""The moves of the search for a path of collectives.

Only useful moves are generated: towards the target, or to states from which it is cheaper.

For example, `f32[8,4] [{"x"}, {}] -> [{}, {"x"}]` over x=4 starts with one of three moves, with these bytes and times
if bytes dominate:

    all_gather to [{}, {}]       96 bytes, 31.1 ns
    all_to_all to [{}, {"x"}]    24 bytes, 30.3 ns
    reshard to [{}, {"x"}]       24 bytes, 30.3 ns, the same all-to-all
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterable, Iterator, Mapping

from gspmd.dialect.axes import Axes, Axis, size_of, starts_with
from gspmd.transforms.exchange.blocks import AxisMoves, Dims, misaligned, nests_either_way
from gspmd.transforms.exchange.intervals import nests
from gspmd.transforms.paths.path import Move, State
from gspmd.transforms.paths.prices import MAX_TILES, Prices


def conflict(axis: Axis, used: Iterable[Axis]) -> bool:
    """Whether an axis overlaps others or does not nest with them, so that no sharding can have both."""
    return any(axis.overlaps(other) or not axis.nests(other) for other in used)


class Moves:
    """The moves towards one target, with axes in atoms, the finest parts of the search."""

    def __init__(self, prices: Prices, source: State, target: State) -> None:
        self.prices, self.source, self.target = prices, source, target
        self.priced_directly = 0  # the number of priced direct exchanges, which are the slowest to price

    def single(self) -> Move | None:
        """A single gather or slice to the target, if that suffices; it is optimal."""
        (dims, unreduced), (goal, goal_unreduced) = self.source, self.target
        if unreduced != goal_unreduced:
            return None
        if misaligned(self.prices.shape, dims, goal):
            return None
        if all(starts_with(a, b) for a, b in zip(dims, goal, strict=True)):
            return self._gather(self.source, goal)
        if all(starts_with(b, a) for a, b in zip(dims, goal, strict=True)):
            return self._slice(self.source, goal)
        return None

    def of(self, state: State, most_s: float) -> Iterator[Move]:
        """The moves from a state, possibly without those that take `most_s` seconds or more."""
        yield from self._reductions(state)
        yield from self._slices(state)
        yield from self._gathers(state)
        yield from self._exchanges(state)
        yield from self._permutes(state)
        yield from self._retilings(state, most_s)
        yield from self._blocks(state, most_s)

    def to_target(self) -> list[Move]:
        """The single moves from the source to the target."""
        single, pending = self.single(), self.source[1] != self.target[1]
        if single is not None:
            return [single]
        finds = (self._reductions,) if pending else (self._exchanges, self._permutes)
        found = [move for find in finds for move in find(self.source) if move.after == self.target]
        (dims, _), (goal, _) = self.source, self.target
        is_crossed = not pending and bool(misaligned(self.prices.shape, dims, goal))
        if is_crossed and all(starts_with(a, b) for a, b in zip(dims, goal, strict=True)):
            gather = self._gather(self.source, goal)
            found += [gather] if gather else []
        return found if pending or (found and not is_crossed) else [*found, *self._direct(self.source, goal, math.inf)]

    def through_whole(self) -> list[Move]:
        """The moves that always lead to the target: reduce, all-gather the dimensions that change, then slice."""
        state, made = self.source, list[Move]()
        goal, _ = self.target
        whole = tuple(
            shared if self._nests_both(d, size_of(shared), (size_of(a), size_of(b))) else ()
            for d, (a, b) in enumerate(zip(state[0], goal, strict=True))
            for shared in [_shared(a, b)]
        )
        made += itertools.islice(self._reductions(state), 1)
        for find, dims in ((self._gather, whole), (self._slice, goal)):
            state = made[-1].after if made else state
            if state[0] != dims:
                move = find(state, dims)
                assert move is not None, "what is whole nests with everything"
                made.append(move)
        return made

    def _nests_both(self, dim: int, coarse: int, counts: tuple[int, int]) -> bool:
        return all(self._nests(dim, coarse, fine) for fine in counts)

    def _nests(self, dim: int, coarse: int, fine: int) -> bool:
        return nests(self.prices.shape[dim], coarse, fine)

    def _gather(self, state: State, goal: Dims) -> Move | None:
        dims, unreduced = state
        gathered = tuple(tuple(a[len(b) :]) for a, b in zip(dims, goal, strict=True))
        crossed = misaligned(self.prices.shape, dims, goal)
        if len(crossed) > 1 or any(size_of(goal[d]) > MAX_TILES for d in crossed):
            return None
        joined = tuple(axis for axes in gathered for axis in axes)
        time_s = self.prices.gathering(dims, goal, joined) + self.prices.interleaving(gathered, goal)
        return Move(time_s, (goal, unreduced), "all_gather", gathered)

    def _gathers(self, state: State) -> Iterator[Move]:
        dims, _ = state
        goal = self.target[0]
        shared = tuple(_shared(a, b) for a, b in zip(dims, goal, strict=True))
        options = {shared, ((),) * len(dims)} - {dims}
        for d, axes in enumerate(dims):
            for keep in range(len(axes)):
                options.add((*dims[:d], axes[:keep], *dims[d + 1 :]))
        for option in sorted(options):
            found = self._gather(state, option)
            if found:
                yield found

    def _slice(self, state: State, goal: Dims) -> Move | None:
        dims, unreduced = state
        new = tuple(tuple(b[len(a) :]) for a, b in zip(dims, goal, strict=True))
        for d, axes in enumerate(new):
            if axes and not self._nests(d, size_of(dims[d]), size_of(goal[d])):
                return None
        return Move(self.prices.time("", goal, goal, 1), (goal, unreduced), "all_slice", new)

    def _slices(self, state: State) -> Iterator[Move]:
        dims = state[0]
        goal = self.target[0]
        used = _used(state)
        extended, any_new = list(dims), False
        for d, axes in enumerate(goal):
            for axis in axes:
                if conflict(axis, used):
                    continue
                before = axes[: axes.index(axis)][-1:]
                for home, here in enumerate(dims):
                    # Also after the axis that precedes it in the target, so that both move together.
                    if home == d or (here and here[-1:] == before):
                        found = self._slice(state, (*dims[:home], (*here, axis), *dims[home + 1 :]))
                        if found:
                            yield found
                if starts_with(goal[d], (*extended[d], axis)) and extended[d] == goal[d][: len(extended[d])]:
                    extended[d] = (*extended[d], axis)
                    any_new = True
        if any_new:
            found = self._slice(state, tuple(extended))
            if found:
                yield found

    def _exchanges(self, state: State) -> Iterator[Move]:
        dims, unreduced = state
        goal = self.target[0]
        for source, axes in enumerate(dims):
            for keep in range(len(axes)):
                moved = axes[keep:]
                for target in range(len(dims)):
                    if target != source and all(a in goal[target] for a in moved):
                        yield self._exchange(state, moved, source, target)
        at_once = self._homecoming(dims)
        runs = _runs(at_once, goal)
        if len(runs) < 2:
            return
        option = tuple(
            (*(a for a in axes if a not in at_once), *(a for a in goal[d] if a in at_once and at_once[a][1] == d))
            for d, axes in enumerate(dims)
        )
        if all(map(nests_either_way, self.prices.shape, dims, option)):
            moved = tuple(at_once)
            time_s = self.prices.time("all_to_all", dims, option, size_of(moved), moved)
            # Shardy's all_to_all names a dimension at most once.
            ends = [d for _, *ends in runs for d in ends]
            kind, moves = ("all_to_all", runs) if len(set(ends)) == len(ends) else ("reshard", ())
            yield Move(time_s, (option, unreduced), kind, moves=moves)

    def _exchange(self, state: State, moved: Axes, source: int, target: int) -> Move:
        dims, unreduced = state
        option = list(dims)
        option[source] = dims[source][: -len(moved)]
        option[target] = dims[target] + moved
        after = tuple(option)
        time_s = self.prices.time("all_to_all", dims, after, size_of(moved), moved)
        few, many = (size_of(after[source]), size_of(dims[source])), (size_of(dims[target]), size_of(after[target]))
        if not (self._nests(source, *few) and self._nests(target, *many)):
            time_s += self.prices.realigning(source, target, dims, after)
        return Move(time_s, (after, unreduced), "all_to_all", moves=((moved, source, target),))

    def _homecoming(self, dims: Dims) -> dict[Axis, tuple[int, int]]:
        """The axes that one all-to-all moves from the ends of dimensions to their dimensions in the target.

        By axis, in the order in which they leave: the dimension that it leaves and the one that it joins.
        """
        goal = self.target[0]
        leaving = {a: d for d, axes in enumerate(dims) for a in axes[len(_shared(axes, goal[d])) :]}
        while True:
            losing = set(leaving.values())
            coming: dict[Axis, int] = {}
            for d, (axes, wanted) in enumerate(zip(dims, goal, strict=True)):
                if d in losing or not starts_with(wanted, axes):
                    continue
                for axis in wanted[len(axes) :]:
                    if axis not in leaving:
                        break
                    coming[axis] = d
            kept = {a: d for d, axes in enumerate(dims) for a in _ending(axes, coming) if leaving.get(a) == d}
            if kept == leaving:
                return {a: (d, coming[a]) for a, d in leaving.items()}
            leaving = kept

    def _retilings(self, state: State, most_s: float) -> Iterator[Move]:
        """Direct exchanges of one dimension to tiles with other boundaries: over fewer, more or other axes."""
        dims, unreduced = state
        used = _used(state)
        for d, (axes, goal) in enumerate(zip(dims, self.target[0], strict=True)):
            if not axes:
                continue
            options = {axes[:keep] for keep in range(1, len(axes))}
            options |= {(*axes, a) for a in goal if not conflict(a, used)}
            others = [a for a in used if a not in axes]
            if goal and not any(conflict(a, others) for a in goal):
                options.add(goal)
            for option in sorted(options - {axes}):
                few, many = sorted((size_of(axes), size_of(option)))
                is_cut = starts_with(axes, option) or starts_with(option, axes)
                if few == many or ((is_cut or option != goal) and self._nests(d, few, many)):
                    continue
                after = (*dims[:d], option, *dims[d + 1 :])
                yield from self._direct((dims, unreduced), after, most_s)

    def _blocks(self, state: State, most_s: float) -> Iterator[Move]:
        """The direct exchange to the target, in which each device receives the elements that it lacks.

        Only from the source, unless sums have to be reduced first.
        """
        dims, unreduced = state
        goal, left = self.target
        if unreduced != left or (dims != self.source[0] and self.source[1] == left):
            return
        if sum(a != b for a, b in zip(dims, goal, strict=True)) > 1:
            yield from self._direct(state, goal, most_s)

    def _direct(self, state: State, after: Dims, most_s: float) -> Iterator[Move]:
        self.priced_directly += 1
        price = self.prices.directly(*state, after, most_s)
        if price is not None:
            yield Move(price[0], (after, state[1]), "reshard", peak_bytes=price[1])

    def _permutes(self, state: State) -> Iterator[Move]:
        dims, unreduced = state
        goal = self.target[0]
        options: set[Dims] = set()
        counts = [size_of(axes) for axes in dims]
        if counts == [size_of(axes) for axes in goal]:
            options.add(goal)
        options.add(tuple(_sorted_by(a, g) for a, g in zip(dims, goal, strict=True)))
        options.add(self._aligned(dims, counts))
        options |= self._ready_to_leave(dims, counts)
        for option in sorted(options - {dims}):
            if any(conflict(a, unreduced) for axes in option for a in axes):
                continue
            moved = _changed(dims, option) if self.prices.hardware.axes else ()
            time_s = self.prices.time("collective_permute", dims, option, 2, moved)
            yield Move(time_s, (option, unreduced), "collective_permute")

    def _aligned(self, dims: Dims, counts: list[int]) -> Dims:
        """Every dimension with as many axes of its target as its shard count allows, and other axes for the rest."""
        goal = self.target[0]
        taken: list[list[Axis]] = []
        for axes, count in zip(goal, counts, strict=True):
            mine: list[Axis] = []
            for axis in axes:
                if count % (size_of(mine) * axis.size):
                    break
                mine.append(axis)
            taken.append(mine)
        return _filled(taken, dims, counts) or dims

    def _ready_to_leave(self, dims: Dims, counts: list[int]) -> set[Dims]:
        """A permute that prepares one all-to-all: all axes missing in a dimension, in order, at the end of another.

        Only for several axes that are used already, and with unchanged shard counts.
        """
        found: set[Dims] = set()
        held = {a for axes in dims for a in axes}
        for target, (axes, goal) in enumerate(zip(dims, self.target[0], strict=True)):
            missing = goal[len(axes) :]
            if len(missing) < 2 or not starts_with(goal, axes) or not held.issuperset(missing):
                continue
            for home in range(len(dims)):
                if home != target and counts[home] % size_of(missing) == 0 and dims[home][-len(missing) :] != missing:
                    taken: list[list[Axis]] = [list(axes) if d == target else [] for d in range(len(dims))]
                    left = [count // size_of(missing) if d == home else count for d, count in enumerate(counts)]
                    filled = _filled(taken, dims, left, missing)
                    if filled:
                        found.add(tuple((*mine, *missing) if d == home else mine for d, mine in enumerate(filled)))
        return found

    def _reductions(self, state: State) -> Iterator[Move]:
        dims, unreduced = state
        goal, left = self.target
        pending, left = tuple(a for a in unreduced if a not in left), tuple(a for a in unreduced if a in left)
        if not pending:
            return
        time_s = self.prices.time("all_reduce", dims, dims, size_of(pending), pending)
        yield Move(time_s, (dims, left), "all_reduce", axes=pending)
        for d, axes in enumerate(goal):
            wanted: list[Axis] = []
            if starts_with(axes, dims[d]):
                wanted += itertools.takewhile(lambda axis: axis in pending, axes[len(dims[d]) :])
            # If the target has another order, less is left to move than after an all-reduce.
            for scattered in dict.fromkeys((tuple(wanted), pending)):
                if scattered:
                    yield from self._scatter(state, d, scattered)

    def _scatter(self, state: State, dim: int, axes: Axes) -> Iterator[Move]:
        dims, unreduced = state
        option = (*dims[:dim], (*dims[dim], *axes), *dims[dim + 1 :])
        if self._nests(dim, size_of(dims[dim]), size_of(option[dim])):
            rest = tuple(a for a in unreduced if a not in axes)
            parts = tuple(axes if d == dim else () for d in range(len(dims)))
            time_s = self.prices.time("reduce_scatter", dims, option, size_of(axes), axes)
            yield Move(time_s, (option, rest), "reduce_scatter", parts)


def _filled(taken: list[list[Axis]], dims: Dims, counts: list[int], elsewhere: Axes = ()) -> Dims | None:
    """Dimensions with more axes, of those that the others leave, such that each has its count; None if that fails."""
    used = [a for mine in taken for a in mine] + list(elsewhere)
    spare = [a for axes in dims for a in axes if not conflict(a, used)]
    for mine, count in zip(taken, counts, strict=True):
        for axis in list(spare):
            if size_of(mine) < count and count % (size_of(mine) * axis.size) == 0:
                mine.append(axis)
                spare.remove(axis)
    result = tuple(tuple(mine) for mine in taken)
    return result if [size_of(axes) for axes in result] == counts else None


def _used(state: State) -> set[Axis]:
    return {a for axes in state[0] for a in axes} | set(state[1])


def _ending(axes: Axes, among: Container[Axis]) -> Axes:
    """The longest suffix of a list with only these axes."""
    keep = len(axes)
    while keep and axes[keep - 1] in among:
        keep -= 1
    return axes[keep:]


def _runs(moving: Mapping[Axis, tuple[int, int]], goal: Dims) -> AxisMoves:
    """The moves of an all-to-all, with axes that stay adjacent in one entry."""
    runs: list[tuple[Axes, int, int]] = []
    for axis, (source, target) in moving.items():
        place = goal[target].index(axis)
        if runs and runs[-1][1:] == (source, target) and place and goal[target][place - 1] == runs[-1][0][-1]:
            runs[-1] = ((*runs[-1][0], axis), source, target)
        else:
            runs.append(((axis,), source, target))
    return tuple(runs)


def _shared(a: Axes, b: Axes) -> Axes:
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return a[:count]


def _changed(before: Dims, after: Dims) -> Axes:
    """The axes whose position changes."""
    places = [{(d, i, a) for d, axes in enumerate(dims) for i, a in enumerate(axes)} for dims in (before, after)]
    return tuple(sorted({a for _, _, a in places[0] ^ places[1]}))


def _sorted_by(axes: Axes, goal: Axes) -> Axes:
    """The same axes with those that the goal has first, in its order."""
    return tuple(sorted(axes, key=lambda a: goal.index(a) if a in goal else len(goal)))
