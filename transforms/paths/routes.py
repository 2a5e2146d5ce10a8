"""The best routes between all placements of a rank.

A route is a chain of up to four steps: slices, gathers, exchanges of axes, permutes, direct exchanges and reductions.
Single steps between placements (`steps.py`) form a graph, and the best routes are found by two min-plus matrix
products. The planner follows the routes, so what is decided for its price is carried out at that price.

For example, over x=16 and y=32, `[{"x"}, {}] -> [{"y"}, {}]` is a slice to `[{"x", "y"}, {}]`, a permute to
`[{"y", "x"}, {}]` and a gather.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.machine.cost import ANYWHERE, Hardware, collective_time
from gspmd.transforms.paths.path import PADDING, SMALL_BYTES
from gspmd.transforms.paths.placements import AxisParts, Bools, Floats, Ints, Placements, Rows
from gspmd.transforms.paths.steps import GATHER, KINDS, SLICE, Steps, TiledSteps

MAX_ROUTED = 400
"""Among more placements than this, routes are not looked for: their number grows with the third power."""

_PROBE = 1e9  # bytes: large enough that latencies are negligible, and small enough to be exact


class WirePrices:
    """The prices of collectives, by the set of axis parts that they run over (bits), computed on use."""

    def __init__(self, parts: AxisParts, hardware: Hardware) -> None:
        self._parts, self._hardware = parts, hardware
        self._known: dict[tuple[str, int], Floats] = {}

    def of(self, kind: str, mask: Ints, reach: int = ANYWHERE) -> tuple[Floats, Floats]:
        """A latency, and seconds per local byte; `reach` is the largest distance of a permute's message."""
        known = self._known.get((kind, reach))
        if known is None:
            known = self._known[kind, reach] = np.full((2, 1 << len(self._parts.parts)), math.nan)
            known[:, 0] = 0.0  # over no parts, nothing is sent
        unknown = np.isnan(known[0])
        if unknown.any():
            is_asked = np.zeros_like(unknown)
            is_asked[mask] = True
            self._fill(known, kind, reach, np.flatnonzero(is_asked & unknown))
        return known[0, mask], known[1, mask]

    def _fill(self, known: Floats, kind: str, reach: int, masks: Ints) -> None:
        for each in masks.tolist():
            axes, devices = self._parts.axes_of_mask(each), int(self._parts.size_of_mask[each])
            at_0, at_probe = (collective_time(kind, n, devices, self._hardware, axes, reach) for n in (0.0, _PROBE))
            known[:, each] = at_0, (at_probe - at_0) / _PROBE


class StepPrices:
    """The seconds of single steps on one machine."""

    def __init__(self, steps: Steps, hardware: Hardware, wires: WirePrices) -> None:
        self.hardware, self._steps, self._wires = hardware, steps, wires
        self._latency_s, self._slope = np.zeros(steps.kind.shape), np.zeros(steps.kind.shape)
        for number, kind in enumerate(KINDS[1:], start=1):
            at = steps.kind == number
            self._latency_s[at], self._slope[at] = wires.of(kind, steps.mask[at])
        self._sums = wires.of("all_reduce", np.where(steps.kind == GATHER, steps.mask, 0))
        self._direct_latency_s, self._direct_slope = wires.of("collective_permute", steps.changed)
        at = steps.is_near
        self._direct_latency_s[at], self._direct_slope[at] = wires.of("collective_permute", steps.changed[at], 1)

    def of_kinds(self, local: Floats, padded: Floats, tiled: TiledSteps) -> Floats:
        """Seconds of all steps of a kind, else infinite.

        `local` are the bytes of a shard in each placement, and `padded` those with padding before each step.
        """
        steps, latency_s = self._steps, self.hardware.collective_latency_s
        wire_s = self._latency_s + self._slope * padded
        # Shards that are mostly padding are added up instead of gathered.
        is_padding = (steps.kind == GATHER) & (2 * local[None, :] < steps.devices * local[:, None]) & tiled.is_nested
        wire_s = np.where(is_padding, self._sums[0] + self._sums[1] * local[None, :], wire_s)
        # A slice reads and writes only its result.
        touched = np.where((steps.kind == SLICE) | is_padding, local[None, :], local[:, None]) + local[None, :]
        # Shards that are gathered in several dimensions are put in order by a transpose.
        touched += np.where((steps.kind == GATHER) & steps.in_several, 2 * local[None, :], 0.0)
        every_s = wire_s + touched / self.hardware.memory_bytes_per_s
        found: Floats = np.where(tiled.is_nested, every_s, math.inf)
        moved = tiled.realigned
        pairs, (first_s, slope) = (moved.before, moved.after), self._wires.of("collective_permute", moved.mask, 1)
        messages_s = moved.dims * first_s + (moved.messages - moved.dims) * latency_s
        found[pairs] = every_s[pairs] + messages_s + slope * moved.sent * local[moved.after]
        np.fill_diagonal(found, 0.0)
        return found

    def of_direct(self, local: Floats, tiled: TiledSteps) -> Floats:
        """Seconds of direct exchanges, which write each of several pieces to its position; infinite without one."""
        sent = tiled.sent * local[None, :]
        wire_s = self._direct_latency_s + self._direct_slope * sent
        wire_s += (tiled.messages - 1) * self.hardware.collective_latency_s
        wire_s *= tiled.messages > 0
        touched = local[:, None] + local[None, :] + np.where(tiled.messages > 1, sent, 0.0)
        found: Floats = wire_s + touched / self.hardware.memory_bytes_per_s
        return np.where(tiled.is_direct, found, math.inf)


class _Chosen(NamedTuple):
    """The routes of a type: its single steps, and the stops of the routes.

    Steps are direct exchanges where `is_direct`, which take less time there than steps of a kind. `half` is the
    placement in the middle of the best route of at most two steps, -1 for a single step, and `middle` the one between
    two such routes.
    """

    tiled: TiledSteps
    is_direct: Bools
    half: Ints
    middle: Ints


class _Graph:
    """The single steps between placements on one machine, and the best routes by order of magnitude."""

    def __init__(self, steps: Steps, hardware: Hardware, wires: WirePrices) -> None:
        self.steps = steps
        self.prices = StepPrices(steps, hardware, wires)
        self._known: dict[Hashable, _Chosen] = {}

    def of_magnitude(self, type_: TensorType) -> _Chosen:
        """The routes of types of this order of magnitude with the same uneven dimensions."""
        magnitude = math.frexp(math.prod(type_.shape) * element_bytes(type_.element))[1] // 2
        sizes = self.steps.sizes(type_.shape)
        key = magnitude, sizes
        found = self._known.get(key)
        if found is None:
            tiled = self.steps.tiled(sizes)
            bytes_, shares = 4.0**magnitude, tiled.shares
            local, padded = bytes_ * shares.prod(axis=1), bytes_ * self.steps.padded(shares, sizes)
            kinds_s, direct_s = self.prices.of_kinds(local, padded, tiled), self.prices.of_direct(local, tiled)
            pairs_s, half = _shortest(np.minimum(kinds_s, direct_s), local, self.steps.finished)
            middle = _shortest(pairs_s, local, self.steps.finished)[1]
            found = _Chosen(tiled, direct_s < kinds_s, half.astype(np.int16), middle.astype(np.int16))
            self._known[key] = found
        return found


@functools.lru_cache(maxsize=128)
def _graphs(key: Hashable) -> list[_Graph]:
    """Room for the graph with this key, which is kept for later programs."""
    return []


def _graph(table: Rows, hardware: Hardware, wires: WirePrices, whole: Routes | None) -> _Graph:
    """The graph of placements, or of equal ones: programs on one mesh have the same ones.

    `whole` are the routes between all placements of the table, if these are only some.
    """
    parts, lists, partial = table.parts, table.lists, table.partial
    key = tuple(parts.parts), tuple(parts.lists), lists.shape, lists.tobytes(), partial.tobytes(), repr(hardware)
    found = _graphs(key)
    if not found:
        steps = Steps(table) if whole is None else whole._graph.steps.among(table.numbers)
        found.append(_Graph(steps, hardware, wires))
    return found[0]


class Routes:
    """The best routes between placements of a rank on one machine, and their times there or on another.

    They depend on the order of magnitude of values and on uneven dimensions: types of about the same size, with the
    same uneven ones, have the same routes. Placements are given by their position among these.
    """

    def __init__(self, table: Rows, hardware: Hardware, wires: WirePrices, whole: Routes | None = None) -> None:
        self._table, self._graph = table, _graph(table, hardware, wires, whole)
        self._of_type: dict[TensorType, _Chosen] = {}

    def prices(self, hardware: Hardware, wires: WirePrices) -> StepPrices:
        """The prices of single steps on this or another machine."""
        own = self._graph.prices
        return own if own.hardware == hardware else StepPrices(self._graph.steps, hardware, wires)

    def seconds(self, type_: TensorType, prices: StepPrices | None = None) -> Floats:
        """Seconds between all placements, by other prices if given; infinite without a route."""
        chosen = self._chosen(type_)
        directly_s, kinds_s = self._step_seconds(prices or self._graph.prices, type_, chosen.tiled)
        return _along(np.where(chosen.is_direct, directly_s, kinds_s), chosen)

    def stops(self, type_: TensorType, source: int, target: int) -> list[int]:
        """The numbers of the placements on a route, including its ends; empty without a route."""
        chosen, found = self._chosen(type_), [source, target]
        for through in (chosen.middle, chosen.half):
            middles = [int(through[a, b]) for a, b in itertools.pairwise(found)]
            found = [stop for pair in zip(found, [*middles, -1], strict=True) for stop in pair if stop >= 0]
        is_possible = all(chosen.tiled.has(a, b) for a, b in itertools.pairwise(found))
        return [int(self._table.numbers[stop]) for stop in found] if is_possible else []

    def _step_seconds(self, prices: StepPrices, type_: TensorType, tiled: TiledSteps) -> tuple[Floats, Floats]:
        """Seconds of direct exchanges, and of steps of a kind."""
        shard = -(-np.array(type_.shape, np.int64) // self._table.parts.count[self._table.lists])
        bytes_ = float(element_bytes(type_.element))
        local = bytes_ * shard.prod(axis=1).astype(np.float64)
        padded = bytes_ * self._graph.steps.padded(shard, self._graph.steps.sizes(type_.shape))
        return prices.of_direct(local, tiled), prices.of_kinds(local, padded, tiled)

    def _chosen(self, type_: TensorType) -> _Chosen:
        """The routes of a type: those of its order of magnitude, or a single step, or through the whole value."""
        found = self._of_type.get(type_)
        if found is None:
            found = self._graph.of_magnitude(type_)
            direct_s, kinds_s = self._step_seconds(self._graph.prices, type_, found.tiled)
            step_s = np.minimum(direct_s, kinds_s)
            held = math.prod(type_.shape) * element_bytes(type_.element)
            ends = held * np.maximum(1 / self._table.count[:, None], 1 / self._table.count[None, :])
            is_lean = held <= np.maximum(ends * PADDING, SMALL_BYTES)
            whole_s = np.where(is_lean, step_s[:, :1] + step_s[:1, :], math.inf)
            is_simple = np.minimum(step_s, whole_s) < _along(step_s, found)
            half = np.where(is_simple, np.where(whole_s < step_s, 0, -1), found.half)
            found = _Chosen(found.tiled, direct_s < kinds_s, half, np.where(is_simple, -1, found.middle))
            self._of_type[type_] = found
        return found


def _along(step_s: Floats, chosen: _Chosen) -> Floats:
    """Seconds along routes, by those of single steps."""
    rows, columns = np.arange(len(step_s))[:, None], np.arange(len(step_s))[None, :]
    for through in (chosen.half, chosen.middle):
        at = np.maximum(through, 0)
        step_s = np.where(through < 0, step_s, step_s[rows, at] + step_s[at, columns])
    return step_s


class Routed(NamedTuple):
    """The routes between some placements of a table, and the position of each of its placements among them, or -1."""

    routes: Routes
    position: Ints


class RouteBook:
    """The routes between placements on one target, memoized by table.

    Routes between even placements stay among these, which for small dimensions are much fewer. Where there are many
    placements, others split a dimension unevenly only as one of their ends does.
    """

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._known: dict[tuple[Placements, bytes], Routed | None] = {}
        self._of_ends: dict[tuple[Placements, tuple[int, ...], bytes], Routed | None] = {}
        self._uneven: dict[tuple[Placements, tuple[int, ...]], Ints] = {}
        self._wires: dict[AxisParts, WirePrices] = {}

    def of(self, table: Placements, shape: tuple[int, ...], ends: Ints) -> Routed | None:
        """The routes of values of a shape between these placements; None if there are too many placements on them."""
        uneven = self.uneven(table, shape)
        key = table, shape, uneven[ends].tobytes()
        if key not in self._of_ends:
            is_as_ends: Bools = ((uneven == 0) | (uneven[:, None] == uneven[ends]).any(axis=1)).all(axis=1)
            self._of_ends[key] = self._between(table, is_as_ends)
        return self._of_ends[key]

    def uneven(self, table: Placements, shape: tuple[int, ...]) -> Ints:
        """What the routes of a placement depend on: the axis list of each dimension that it splits unevenly, or 0.

        With few placements, it is only whether there is one.
        """
        key = table, shape
        if key not in self._uneven:
            lists = table.uneven_lists(shape, np.arange(len(table.lists)))
            if len(lists) <= MAX_ROUTED:
                lists = (lists != 0).any(axis=1, keepdims=True).astype(np.int64)
            self._uneven[key] = lists
        return self._uneven[key]

    def _between(self, table: Placements, chosen: Bools) -> Routed | None:
        key = table, chosen.tobytes()
        if key not in self._known:
            is_few = np.count_nonzero(chosen) <= MAX_ROUTED
            self._known[key] = self._among(table, chosen) if is_few else None
        return self._known[key]

    def _among(self, table: Placements, chosen: Bools) -> Routed:
        wires = self._wires.setdefault(table.parts, WirePrices(table.parts, self._hardware))
        every = None if chosen.all() else self._between(table, np.ones_like(chosen))
        routes = Routes(table.among(np.flatnonzero(chosen)), self._hardware, wires, every and every.routes)
        return Routed(routes, np.where(chosen, np.cumsum(chosen) - 1, -1))


def _shortest(step_s: Floats, local: Floats, finished: int) -> tuple[Floats, Ints]:
    """The least seconds in one or two steps, and the placement between two steps; -1 for one step.

    `local` are the bytes of a device in each placement. In between, it holds little more than at the ends, or
    `SMALL_BYTES`. No step leads from the first placements, which are `finished`, to partial ones.
    """
    # Sums and minima along rows, [target, middle], are the fastest, and those in single precision twice as fast.
    before = step_s.astype(np.float32)
    onward, sums = np.ascontiguousarray(before.T), np.empty_like(before)
    through, most = np.zeros(step_s.shape, np.int64), np.maximum(np.maximum.outer(local, local) * PADDING, SMALL_BYTES)
    for held in np.unique(local):
        alike = np.flatnonzero(local == held)
        allowed = np.where(local <= most[alike[0]][:, None], onward, np.float32(math.inf))
        for source in alike.tolist():
            some = slice(finished if source < finished else None)
            np.add(allowed[some, some], before[source, some], out=sums[some, some])
            sums[some, some].argmin(axis=1, out=through[source, some])
    first_s, second_s = (np.take_along_axis(step_s, through, axis=axis) for axis in (1, 0))
    least = np.where(local[through] <= most, first_s + second_s, math.inf)
    is_less = least < step_s
    return np.where(is_less, least, step_s), np.where(is_less, through, -1)
