"""From one sharding of a tensor to another: the cheapest sequence of collectives.

States are placements of axis parts on dimensions; moves are the collectives; Dijkstra's search finds the
path that takes least time. Results are memoised, so equal reshards cost one search.

Source: arXiv 2105.04663, section 4.5 (resharding), generalised to a search.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from gspmd.dialect.axes import Axes, Axis, atoms, canonical, size_of, split_at, starts_with
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.support.cost import Hardware, collective_time
from gspmd.transforms.support.exchange import cheapest
from gspmd.transforms.support.halo import realignments, retiling
from gspmd.transforms.support.op_info import TensorType, element_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One move: `kind` is the `sdy` operation's name; `after` the sharding it leaves.

    `dims` lists the axes per dimension that an all_gather, all_slice or reduce_scatter works on; `axes` those
    of an all_reduce; `moves` the (axes, source dim, target dim) of an all_to_all. A `reshard` gives one dimension other
    tiles, whose boundaries need not be those of the tiles before.
    """

    kind: str
    after: TensorSharding
    dims: tuple[Axes, ...] = ()
    axes: Axes = ()
    moves: tuple[tuple[Axes, int, int], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Path:
    steps: tuple[Step, ...]
    time_s: float


# Axes are cut into prime factors if these are no more than that: the number of states grows with it.
MOST_PARTS = 6

Dims = tuple[Axes, ...]
State = tuple[Dims, Axes]


class Move(NamedTuple):
    """A step that is not worth writing out yet: see `Step` for the parts."""

    time_s: float
    after: State
    kind: str
    dims: Dims = ()
    axes: Axes = ()
    moves: tuple[tuple[Axes, int, int], ...] = ()


class Planner:
    """Plans reshards on one mesh."""

    def __init__(self, mesh: Mesh, hardware: Hardware | None = None) -> None:
        self.mesh = mesh
        self.hardware = hardware or Hardware()
        self._memo: dict[tuple[TensorType, TensorSharding, TensorSharding], Path] = {}

    def plan(self, type_: TensorType, source: TensorSharding, target: TensorSharding) -> Path:
        """The cheapest path. `target` may have unreduced axes only where `source` has them."""
        if source == target:
            return Path((), 0.0)
        key = (type_, source, target)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._search(type_, source, target)
        return found

    def _search(self, type_: TensorType, source: TensorSharding, target: TensorSharding) -> Path:
        lists = [*source.dim_axes(), *target.dim_axes(), source.unreduced, target.unreduced]
        try:
            cuts = atoms(lists)
        except ValueError:
            # Sub-axes that do not nest share no atoms: gather everything, then cut.
            whole = source.with_axes(((),) * source.rank, target.unreduced)
            first, last = self.plan(type_, source, whole), self.plan(type_, whole, target)
            return Path(first.steps + last.steps, first.time_s + last.time_s)
        found = _Search(self, type_, source, target, cuts).run()
        if len(found.steps) > 1 and (finer := self._finer(cuts)) is not None:
            # Part of an axis may change places at once where the whole of it cannot.
            other = _Search(self, type_, source, target, finer).run()
            found = min(found, other, key=lambda path: path.time_s)
        return found

    def _finer(self, cuts: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]] | None:
        """The axes cut into prime factors; None if they are already, or if there are too many of these to search."""
        finer = {name: _prime_cuts(bounds) for name, bounds in cuts.items()}
        if finer == cuts or sum(len(bounds) - 1 for bounds in finer.values()) > MOST_PARTS:
            return None
        return finer


def _prime_cuts(bounds: tuple[int, ...]) -> tuple[int, ...]:
    """Bounds of parts, each the one before it times a prime number."""
    found = list(bounds[:1])
    for bound in bounds[1:]:
        factor = 2
        while found[-1] < bound:
            if bound // found[-1] % factor:
                factor += 1
            else:
                found.append(found[-1] * factor)
    return tuple(found)


class _Search:
    """One search. Axes are cut into atoms, the finest parts that occur on either side."""

    def __init__(
        self,
        planner: Planner,
        type_: TensorType,
        source: TensorSharding,
        target: TensorSharding,
        cuts: dict[str, tuple[int, ...]],
    ) -> None:
        self.mesh, self.hardware = planner.mesh, planner.hardware
        self.shape = type_.shape
        self.element_bytes = element_bytes(type_.element)
        self.cuts = cuts
        self.form = source
        self.source: State = (self._cut(source.dim_axes()), split_at(source.unreduced, cuts))
        self.target: State = (self._cut(target.dim_axes()), split_at(target.unreduced, cuts))

    def _cut(self, dims: Dims) -> Dims:
        return tuple(split_at(axes, self.cuts) for axes in dims)

    # ---- the search ----

    def run(self) -> Path:
        direct = self._direct()
        if direct is not None:
            return Path((self._step(direct),), direct.time_s)
        counter = itertools.count()
        queue: list[tuple[float, int, State]] = [(0.0, next(counter), self.source)]
        best: dict[State, float] = {self.source: 0.0}
        came: dict[State, tuple[State, Move]] = {}
        while queue:
            time_s, _, state = heapq.heappop(queue)
            if state == self.target:
                return Path(self._trace(came), time_s)
            if time_s > best[state]:
                continue
            for move in self._moves(state):
                total = time_s + move.time_s
                if total < best.get(move.after, math.inf):
                    best[move.after] = total
                    came[move.after] = (state, move)
                    heapq.heappush(queue, (total, next(counter), move.after))
        raise AssertionError("a reshard through full replication always exists")

    def _trace(self, came: dict[State, tuple[State, Move]]) -> tuple[Step, ...]:
        steps: list[Step] = []
        state = self.target
        while state != self.source:
            state, move = came[state]
            steps.append(self._step(move))
        return tuple(reversed(steps))

    def _step(self, move: Move) -> Step:
        dims, unreduced = move.after
        after = self.form.with_axes(tuple(map(canonical, dims)), self.mesh.sorted(canonical(unreduced)))
        moves = tuple((canonical(axes), source, target) for axes, source, target in move.moves)
        return Step(move.kind, after, tuple(map(canonical, move.dims)), self.mesh.sorted(canonical(move.axes)), moves)

    def _direct(self) -> Move | None:
        """A single gather or slice, where that is all it takes: nothing can be cheaper."""
        (dims, unreduced), (goal, goal_unreduced) = self.source, self.target
        if unreduced != goal_unreduced:
            return None
        if all(starts_with(a, b) for a, b in zip(dims, goal, strict=True)):
            return self._gather(self.source, goal)
        if all(starts_with(b, a) for a, b in zip(dims, goal, strict=True)):
            return self._slice(self.source, goal)
        return None

    # ---- sizes ----

    def _local_bytes(self, dims: Dims) -> float:
        return self.element_bytes * math.prod(-(-n // size_of(axes)) for n, axes in zip(self.shape, dims, strict=True))

    def _nests(self, dim: int, coarse: int, fine: int) -> bool:
        """Whether `fine` shards of a dimension make up `coarse` ones exactly, padding at the end apart."""
        n = self.shape[dim]
        return coarse == 1 or (fine % coarse == 0 and fine // coarse * -(-n // fine) == -(-n // coarse))

    def _time(self, kind: str, before: Dims, after: Dims, devices: int, axes: Axes = ()) -> float:
        touched = self._local_bytes(before) + self._local_bytes(after)
        memory = touched / self.hardware.memory_bytes_per_s
        if not kind:
            return memory
        return memory + collective_time(kind, self._local_bytes(before), devices, self.hardware, axes)

    # ---- moves ----

    def _moves(self, state: State) -> Iterator[Move]:
        pending = tuple(a for a in state[1] if a not in self.target[1])
        if pending:
            yield from self._reductions(state, pending)
        yield from self._slices(state)
        yield from self._gathers(state)
        yield from self._exchanges(state)
        yield from self._permutes(state)
        yield from self._retilings(state)

    def _gather(self, state: State, goal: Dims) -> Move | None:
        dims, unreduced = state
        gathered = tuple(tuple(a[len(b) :]) for a, b in zip(dims, goal, strict=True))
        for d, axes in enumerate(gathered):
            if axes and not self._nests(d, size_of(goal[d]), size_of(dims[d])):
                return None
        joined = tuple(axis for axes in gathered for axis in axes)
        time_s = self._time("all_gather", dims, goal, size_of(joined), joined)
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
        return Move(self._time("", dims, goal, 1), (goal, unreduced), "all_slice", new)

    def _slices(self, state: State) -> Iterator[Move]:
        dims, unreduced = state
        goal = self.target[0]
        used = {a for axes in dims for a in axes} | set(unreduced)
        extended, any_new = list(dims), False
        for d, axes in enumerate(goal):
            for axis in axes:
                if axis in used:
                    continue
                option = (*dims[:d], (*dims[d], axis), *dims[d + 1 :])
                found = self._slice(state, option)
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
                        option = list(dims)
                        option[source] = axes[:keep]
                        option[target] = dims[target] + moved
                        time_s = self._time("all_to_all", dims, tuple(option), size_of(moved), moved)
                        time_s += self._realigning(source, target, dims, tuple(option))
                        moves = ((moved, source, target),)
                        yield Move(time_s, (tuple(option), unreduced), "all_to_all", moves=moves)

    def _realigning(self, source: int, target: int, dims: Dims, after: Dims) -> float:
        """Seconds to bring what an all-to-all leaves to the boundaries of even tiles, where it does not by itself."""
        if self._nests(source, size_of(after[source]), size_of(dims[source])) and self._nests(
            target, size_of(dims[target]), size_of(after[target])
        ):
            return 0.0
        sizes, counts = (self.shape[source], self.shape[target]), (size_of(dims[source]), size_of(dims[target]))
        exchanges = realignments(sizes, counts, size_of(after[target]) // counts[1])
        local = [-(-n // size_of(axes)) for n, axes in zip(self.shape, after, strict=True)]
        return sum(
            self._exchanging(cheapest(exchange).sent * math.prod(n for d, n in enumerate(local) if d != dim))
            for dim, exchange in zip((source, target), exchanges, strict=True)
        )

    def _exchanging(self, elements: float) -> float:
        """Seconds to send so many elements to others; the messages of one exchange do not wait for each other."""
        sent = self.element_bytes * elements
        return collective_time("collective_permute", sent, 2, self.hardware) if sent else 0.0

    def _retilings(self, state: State) -> Iterator[Move]:
        """One dimension to tiles whose boundaries are others: fewer, more or other axes, as the target has them."""
        dims, unreduced = state
        used = {a for axes in dims for a in axes} | set(unreduced)
        for d, (axes, goal) in enumerate(zip(dims, self.target[0], strict=True)):
            options = {axes[:keep] for keep in range(1, len(axes))}
            options |= {(*axes, a) for a in goal if a not in used} if axes else set()
            options.add(goal if not used.intersection(goal) - set(axes) else axes)
            for option in sorted(options - {axes, ()}):
                counts = sorted((size_of(axes), size_of(option)))
                if not axes or counts[0] == counts[1] or self._nests(d, *counts):
                    continue
                after = (*dims[:d], option, *dims[d + 1 :])
                local = max(1, -(-self.shape[d] // size_of(axes)))  # 1 of nothing: what is empty costs nothing
                rest = self._local_bytes(dims) // (local * self.element_bytes)
                sent = cheapest(retiling(self.shape[d], axes, option)).sent * rest
                yield Move(self._time("", dims, after, 1) + self._exchanging(sent), (after, unreduced), "reshard")

    def _permutes(self, state: State) -> Iterator[Move]:
        dims, unreduced = state
        goal = self.target[0]
        options: set[Dims] = set()
        counts = [size_of(axes) for axes in dims]
        if counts == [size_of(axes) for axes in goal]:
            options.add(goal)
        options.add(tuple(_sorted_by(a, g) for a, g in zip(dims, goal, strict=True)))
        options.add(self._aligned(dims, counts))
        for option in sorted(options - {dims}):
            flat = [a for axes in option for a in axes]
            if len(set(flat)) != len(flat) or any(a in unreduced for a in flat):
                continue
            moved = _changed(dims, option) if self.hardware.axes else ()
            time_s = self._time("collective_permute", dims, option, 2, moved)
            yield Move(time_s, (option, unreduced), "collective_permute")

    def _aligned(self, dims: Dims, counts: list[int]) -> Dims:
        """Every dimension takes as much of its target as its shard count allows; the rest fills up."""
        goal = self.target[0]
        taken: list[list[Axis]] = []
        for axes, count in zip(goal, counts, strict=True):
            mine: list[Axis] = []
            for axis in axes:
                if count % (size_of(mine) * axis.size):
                    break
                mine.append(axis)
            taken.append(mine)
        used = [a for mine in taken for a in mine]
        spare = [a for axes in dims for a in axes if a not in used]
        for mine, count in zip(taken, counts, strict=True):
            for axis in list(spare):
                if size_of(mine) < count and count % (size_of(mine) * axis.size) == 0:
                    mine.append(axis)
                    spare.remove(axis)
        result = tuple(tuple(mine) for mine in taken)
        return result if [size_of(axes) for axes in result] == counts else dims

    def _reductions(self, state: State, pending: Axes) -> Iterator[Move]:
        dims, unreduced = state
        goal = self.target[0]
        left = tuple(a for a in unreduced if a not in pending)
        time_s = self._time("all_reduce", dims, dims, size_of(pending), pending)
        yield Move(time_s, (dims, left), "all_reduce", axes=pending)
        for d, axes in enumerate(goal):
            here = dims[d]
            if not starts_with(axes, here):
                continue
            scattered: list[Axis] = []
            for axis in axes[len(here) :]:
                if axis not in pending:
                    break
                scattered.append(axis)
            if not scattered:
                continue
            option = (*dims[:d], (*here, *scattered), *dims[d + 1 :])
            if not self._nests(d, size_of(here), size_of(option[d])):
                continue
            rest = tuple(a for a in unreduced if a not in scattered)
            parts = tuple(tuple(scattered) if i == d else () for i in range(len(dims)))
            time_s = self._time("reduce_scatter", dims, option, size_of(scattered), tuple(scattered))
            yield Move(time_s, (option, rest), "reduce_scatter", parts)


def _shared(a: Axes, b: Axes) -> Axes:
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return a[:count]


def _changed(before: Dims, after: Dims) -> Axes:
    """The axes that have another place in one than in the other."""
    places = [{(d, i, a) for d, axes in enumerate(dims) for i, a in enumerate(axes)} for dims in (before, after)]
    return tuple(sorted({a for _, _, a in places[0] ^ places[1]}))


def _sorted_by(axes: Axes, goal: Axes) -> Axes:
    """The same axes with those that the goal has first, in its order."""
    return tuple(sorted(axes, key=lambda a: goal.index(a) if a in goal else len(goal)))
