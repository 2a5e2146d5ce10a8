"""The planner: the cheapest sequence of collectives from one sharding of a tensor to another.

States are placements of axis parts on dimensions (`path.py`); moves are the collectives (`moves.py`), priced by the
hardware (`prices.py`); a search finds the path that takes least time (`search.py`). Results are memoized, so equal
reshards cost one search.

For example, without a target, with bytes dominating and 30 ns per collective:

- `f32[8,4] [{"x"}, {}] -> [{}, {"x"}]` over x=4: one all-to-all, of which a device sends 24 bytes.
- `f32[64,64] [{"x"}, {"y"}] -> [{"y"}, {"x"}]` over x=4, y=2: the direct exchange (`reshard`), 2,048 bytes.
- The same for f32[8,8]: an all-gather of 224 bytes and a slice, because the direct exchange would send 32 bytes in
  two messages, which takes longer.

Source: arXiv 2105.04663, section 4.5 (resharding), generalised to a search; the bound on memory follows arXiv
2112.01075 (memory-efficient array redistribution).
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np

from gspmd.dialect.axes import Axes, Axis, is_within
from gspmd.dialect.limits import MAX_RESHARD_MOVES
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.machine.cost import BYTES_FIRST, Hardware
from gspmd.transforms.paths.path import PADDING, SMALL_BYTES, MoveBudget, Path
from gspmd.transforms.paths.placements import AxisParts
from gspmd.transforms.paths.prices import Prices
from gspmd.transforms.paths.routes import RouteBook
from gspmd.transforms.paths.search import Search, common_cuts, finer_cuts
from gspmd.transforms.paths.traffic import least_bytes, sent_bytes

__all__ = ["Path", "Planner"]

# The largest number of prime factors into which axes are cut, since the number of states grows with it.
MAX_PARTS = 6

# If latencies differ by axis, small tensors may save some microseconds by more and shorter collectives that send the
# same bytes. These are searched for among no more devices than this.
MAX_LATENCY_DEVICES = 64

# A path that needs more than that, and more than `PADDING` times source and target, must be this many times
# faster to be used.
WORTH_MEMORY = 2.0

_Question = tuple[TensorType, TensorSharding, TensorSharding]


class Planner:
    """Plans reshards on one mesh.

    With `max_temporary_bytes`, no device holds more than that of a value during a reshard, or more than source and
    target, if there is such a path; else the path with the least memory is used. With 0, paths that need more memory
    are used if they save enough time. A search stops after `max_moves` moves and returns the best path found.
    `moves_tried` are those of all searches.
    """

    def __init__(
        self,
        mesh: Mesh,
        hardware: Hardware | None = None,
        max_temporary_bytes: int = 0,
        max_moves: int = MAX_RESHARD_MOVES,
    ) -> None:
        self.mesh = mesh
        self.hardware = hardware or BYTES_FIRST
        self.max_temporary_bytes = max_temporary_bytes
        self.max_moves = max_moves
        self.moves_tried = 0
        self._memo: dict[_Question, Path] = {}
        self._routes = RouteBook(self.hardware)
        self._parts: dict[frozenset[Axis], AxisParts] = {}
        self._prices: dict[tuple[TensorType, Axes], Prices] = {}

    def plan(self, type_: TensorType, source: TensorSharding, target: TensorSharding) -> Path:
        """The cheapest path to the target.

        No collective creates partial values, so unreduced axes of the target over which `source` is not partial are
        ignored.
        """
        target = within_reach(source, target)
        if source == target:
            return Path((), 0.0)
        key = (type_, source, target)
        found = self._memo.get(key)
        if found is None:
            budget = MoveBudget(self.max_moves)
            found = self._along_route(type_, source, target, budget) or self._search(type_, source, target, budget)
            self.moves_tried += self.max_moves - budget.left
            if budget.used_up:
                found = dataclasses.replace(found, complete=False)
            self._memo[key] = found
        return found

    def _along_route(
        self, type_: TensorType, source: TensorSharding, target: TensorSharding, budget: MoveBudget
    ) -> Path | None:
        """The best route between placements of few axis parts; None if there is none."""
        parts = self._parts_of(source, target)
        if self.max_temporary_bytes or parts.is_limited:
            return None
        table = parts.of(len(type_.shape), source.manual)
        ends = np.array([table.number(sharding) for sharding in (source, target)])
        routed = self._routes.of(table, type_.shape, ends)
        if routed is None:
            return None
        stops = [table.sharding(number) for number in routed.routes.stops(type_, *routed.position[ends].tolist())]
        paths = [self._one_step(type_, a, b, budget) for a, b in itertools.pairwise(stops)]
        if not paths or None in paths:
            return None
        made = [path for path in paths if path is not None]
        prices = self._prices_of(type_, source)
        held = [*(path.peak_bytes for path in made), *(prices.local_bytes(stop.dim_axes()) for stop in stops[1:-1])]
        return Path(tuple(step for path in made for step in path.steps), sum(path.time_s for path in made), max(held))

    def _prices_of(self, type_: TensorType, source: TensorSharding) -> Prices:
        """The prices of moves of a tensor, shared by all searches."""
        key = type_, source.manual
        found = self._prices.get(key)
        if found is None:
            found = self._prices[key] = Prices(type_, source, self.hardware)
        return found

    def _parts_of(self, *ends: TensorSharding) -> AxisParts:
        """The parts into which two shardings cut the axes of the mesh."""
        listed = [axes for sharding in ends for axes in (*sharding.dim_axes(), sharding.unreduced)]
        cut = frozenset(axis for axes in listed for axis in axes if not self.mesh.is_full(axis))
        found = self._parts.get(cut)
        if found is None:
            found = self._parts[cut] = AxisParts(self.mesh, ends if cut else ())
        return found

    def _one_step(
        self, type_: TensorType, source: TensorSharding, target: TensorSharding, budget: MoveBudget
    ) -> Path | None:
        """A single step of a route."""
        prices = self._prices_of(type_, source)
        return Search(prices, source, target, common_cuts(source, target), budget).one_step()

    def nearest(
        self, type_: TensorType, sources: tuple[TensorSharding, ...], target: TensorSharding
    ) -> tuple[TensorSharding, Path]:
        """The source with the fastest path to the target, the first of equals, and its path."""
        paths = [(source, self.plan(type_, source, target)) for source in sources]
        return min(paths, key=lambda pair: pair[1].time_s)

    def _search(self, type_: TensorType, source: TensorSharding, target: TensorSharding, budget: MoveBudget) -> Path:
        prices = self._prices_of(type_, source)
        ends = max(prices.local_bytes(sharding.dim_axes()) for sharding in (source, target))
        searches = _Searches(prices, type_, source, target, budget)
        if self.max_temporary_bytes:
            return searches.within(max(ends, self.max_temporary_bytes))
        lean = searches.best(max(ends * PADDING, SMALL_BYTES))
        if lean is None:
            return searches.within(math.inf)
        if len(lean.steps) == 1 or not searches.limited:
            return lean
        most_s = max(lean.time_s / WORTH_MEMORY, min(lean.time_s, _through_whole(prices, source, target)))
        return searches.best(math.inf, most_s) or lean


def within_reach(source: TensorSharding, target: TensorSharding) -> TensorSharding:
    """The target without unreduced axes over which the source is not partial: no collective creates partial values."""
    if not target.unreduced or target.unreduced == source.unreduced:
        return target
    kept = tuple(a for a in target.unreduced if is_within(a, source.unreduced))
    return target.with_axes(target.dim_axes(), kept)


class _Searches:
    """The searches for one reshard: with the cuts of the two shardings, and with axes in prime factors."""

    def __init__(
        self, prices: Prices, type_: TensorType, source: TensorSharding, target: TensorSharding, budget: MoveBudget
    ) -> None:
        self._question = type_, source, target
        self._by_latency = bool(prices.hardware.axes) and source.mesh.size <= MAX_LATENCY_DEVICES
        cuts = common_cuts(source, target)
        self._coarse = Search(prices, source, target, cuts, budget)
        # A part of an axis may move even if the whole axis cannot.
        finer = finer_cuts(cuts, MAX_PARTS)
        self._finer = None if finer is None else Search(prices, source, target, finer, budget, finer=True)

    @property
    def limited(self) -> bool:
        """Whether some path was rejected because of its memory."""
        return self._coarse.limited or (self._finer is not None and self._finer.limited)

    def best(self, most_bytes: float, most_s: float = math.inf) -> Path | None:
        """The fastest path within `most_bytes` and `most_s`, with coarser steps among equals.

        None if there is none. Axes are not cut further if the path found without is a single step or, unless latencies
        differ by axis, sends the least possible bytes.
        """
        found = self._coarse.run(most_bytes, most_s)
        if self._finer is None or (found is not None and len(found.steps) == 1):
            return found
        if found is not None and not self._by_latency and self._sends_least(found):
            self._finer = None
            return found
        return self._finer.run(most_bytes, found.time_s if found else most_s) or found

    def within(self, most_bytes: float) -> Path:
        """The best path within the memory limit, or else one with little more memory than necessary."""
        found = None
        while found is None:
            found = self.best(most_bytes)
            most_bytes *= 2
        return found

    def _sends_least(self, path: Path) -> bool:
        """Whether a path sends the least possible bytes.

        Steps are counted by building them, so counting stops once too much is sent.
        """
        type_, source, target = self._question
        most = least_bytes(type_, source, target) * (1 + 1e-9)
        for step in path.steps:
            most -= sent_bytes(type_, source, [step])
            source = step.after
            if least_bytes(type_, source, target) > most:
                return False
        return True


def _through_whole(prices: Prices, source: TensorSharding, target: TensorSharding) -> float:
    """Seconds of a gather and a slice, an upper bound for paths."""
    if source.unreduced != target.unreduced:
        return math.inf
    before, whole = source.dim_axes(), ((),) * source.rank
    axes = tuple(axis for listed in before for axis in listed)
    gathering = prices.gathering(before, whole, axes) if axes else 0.0
    return gathering + prices.time("", whole, target.dim_axes(), 1)
