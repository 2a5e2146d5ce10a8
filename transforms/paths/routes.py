"""The best routes between all placements of a rank.

A route is a chain of up to four steps: slices, gathers, exchanges of axes, permutes, direct exchanges and reductions.
Single steps between placements form a graph, and the best routes are found by two min-plus matrix products. The
possible steps depend only on the placements, their times on bytes and links. The planner follows the routes, so what is
decided for its price is carried out at that price.

A step changes a dimension only if its shards are even before and after it, or if it is whole on one side. The planner
searches for paths between other placements.

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

from gspmd.transforms.exchange.blocks import MAX_BLOCKS
from gspmd.transforms.exchange.direct import direct_exchange
from gspmd.transforms.exchange.intervals import MAX_ROUNDS
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.machine.cost import ANYWHERE, Hardware, collective_time
from gspmd.transforms.paths.path import PADDING, SMALL_BYTES
from gspmd.transforms.paths.placements import AxisParts, Bools, Floats, Ints, Placements

MAX_ROUTED = 400
"""Between more placements than this, all routes are not looked for: their number grows with the third power."""

_KINDS = ("", "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "collective_permute", "collective_permute")
_SLICE, _GATHER, _SCATTER, _REDUCE, _EXCHANGE, _PERMUTE, _DIRECT = range(len(_KINDS))  # a slice sends nothing
_NO_STEP = -1
_PROBE = 1e9  # bytes: large enough that latencies are negligible, and small enough to be exact


class WirePrices:
    """The prices of collectives, by the set of axis parts that they run over (bits); computed on first use."""

    def __init__(self, parts: AxisParts, hardware: Hardware) -> None:
        self._parts, self._hardware = parts, hardware
        self._known = {kind: np.full((2, 1 << len(parts.parts)), math.nan) for kind in _KINDS[1:]}
        for known in self._known.values():
            known[:, 0] = 0.0  # over no parts, nothing is sent

    def of(self, kind: str, mask: Ints) -> tuple[Floats, Floats]:
        """A latency, and seconds per local byte."""
        known = self._known[kind]
        for each in np.unique(mask[np.isnan(known[0, mask])]).tolist():
            axes, devices = self._parts.axes_of_mask(each), int(self._parts.size_of_mask[each])
            at_0, at_probe = (collective_time(kind, n, devices, self._hardware, axes, ANYWHERE) for n in (0.0, _PROBE))
            known[:, each] = at_0, (at_probe - at_0) / _PROBE
        return known[0, mask], known[1, mask]


class _Steps:
    """The single steps between the placements of a table: of which kind, over which parts, among how many devices.

    `messages` are those of a direct exchange, and `sent` the part of the target shard that it sends. `in_several` are
    the steps that change several dimensions.
    """

    def __init__(self, table: Placements) -> None:
        parts, lists = table.parts, table.lists
        length = np.array([len(each) for each in parts.lists])
        # Whether the second of two lists is a prefix of the first.
        begins = parts.prefix & (length[:, None] >= length[None, :])
        before, after = lists[:, None, :], lists[None, :, :]
        grown, shrunk, same = begins[after, before], begins[before, after], before == after
        mask_a, mask_b = table.mask[:, None], table.mask[None, :]
        sums_a, sums_b = table.partial[:, None], table.partial[None, :]
        is_settled, is_taken = sums_a == sums_b, (sums_b & ~sums_a == 0) & (sums_a != sums_b)
        count = parts.count[lists]
        is_alike = (count[:, None, :] == count[None, :, :]).all(axis=2)
        is_scattered = grown.all(axis=2) & ((~same).sum(axis=2) == 1) & (mask_b & ~mask_a == sums_a & ~sums_b)
        none, changed = np.zeros((len(lists), len(lists)), np.int64), _changed(table)
        self.messages, self.sent, is_planned = _blocks(table, same, grown | shrunk)
        of_changed = np.bitwise_or.reduce(np.where(same, 0, parts.mask[before] | parts.mask[after]), axis=2)
        kind, mask = np.full_like(none, _NO_STEP), none
        for number, is_step, over in (
            (_DIRECT, is_planned, of_changed),
            (_PERMUTE, is_alike & is_settled, changed),
            (_EXCHANGE, (grown | shrunk).all(axis=2) & (mask_a == mask_b) & is_settled, changed),
            (_SLICE, grown.all(axis=2) & is_settled, none),
            (_GATHER, shrunk.all(axis=2) & is_settled, mask_a & ~mask_b),
            (_REDUCE, same.all(axis=2) & is_taken, sums_a & ~sums_b),
            (_SCATTER, is_scattered & is_taken, sums_a & ~sums_b),
        ):
            kind, mask = np.where(is_step, number, kind), np.where(is_step, over, mask)
        self.kind, self.mask, self._same, self._is_whole = kind, mask, same, (before == 0) | (after == 0)
        self._growth = np.where(grown, count[None, :, :] // count[:, None, :], 1)
        self.devices = parts.size_of_mask[mask]
        self.in_several = (~same).sum(axis=2) > 1

    def allowed(self, is_even: Bools) -> tuple[Bools, Bools]:
        """The steps that values may take, and the pairs of placements between which routes lead.

        `is_even[n, d]` says whether dimension d is even in a placement. Both change only dimensions that are even
        before and after, or whole on one side. Direct exchanges of uneven dimensions are left to the planner.
        """
        are_even = self._same | (is_even[:, None, :] & is_even[None, :, :])
        is_routed: Bools = (are_even | self._is_whole).all(axis=2)
        is_step: Bools = np.where(self.kind == _DIRECT, are_even.all(axis=2), is_routed & (self.kind != _NO_STEP))
        return is_step, is_routed

    def padded(self, shard: Ints) -> Floats:
        """The elements of each shard `[n, d]`, padded to a multiple of the shard after the step where it gets finer."""
        found: Floats = np.where(self._growth > 1, shard[None, :, :] * self._growth, shard[:, None, :]).prod(
            axis=2, dtype=np.float64
        )
        return found


class _Prices:
    """The seconds of single steps on one machine."""

    def __init__(self, steps: _Steps, hardware: Hardware, wires: WirePrices) -> None:
        self._steps, self._hardware = steps, hardware
        self._latency_s, self._slope = np.zeros(steps.kind.shape), np.zeros(steps.kind.shape)
        for number, kind in enumerate(_KINDS[1:], start=1):
            at = steps.kind == number
            self._latency_s[at], self._slope[at] = wires.of(kind, steps.mask[at])
        self._sums = wires.of("all_reduce", np.where(steps.kind == _GATHER, steps.mask, 0))

    def seconds(self, local: Floats, padded: Floats, is_step: Bools) -> Floats:
        """Seconds of all steps that there are, else infinite.

        `local` are the bytes of a shard in each placement, and `padded` those with padding before each step.
        """
        steps = self._steps
        is_direct = steps.kind == _DIRECT
        carried = np.where(is_direct, steps.sent * local[None, :], padded)
        wire_s = self._latency_s + self._slope * carried
        wire_s += np.where(is_direct, (steps.messages - 1) * self._hardware.collective_latency_s, 0.0)
        # Shards that are mostly padding are added up instead of gathered.
        is_padding = (steps.kind == _GATHER) & (2 * local[None, :] < steps.devices * local[:, None])
        wire_s = np.where(is_padding, self._sums[0] + self._sums[1] * local[None, :], wire_s)
        # A slice reads and writes only its result; a direct exchange writes each of several pieces to its position.
        touched = np.where((steps.kind == _SLICE) | is_padding, local[None, :], local[:, None]) + local[None, :]
        touched += np.where(is_direct & (steps.messages > 1), carried, 0.0)
        # Shards that are gathered in several dimensions are put in order by a transpose.
        touched += np.where((steps.kind == _GATHER) & steps.in_several, 2 * local[None, :], 0.0)
        found: Floats = np.where(is_step, wire_s + touched / self._hardware.memory_bytes_per_s, math.inf)
        np.fill_diagonal(found, 0.0)
        return found


class _Chosen(NamedTuple):
    """The routes of a type: its single steps, the pairs of placements with a route, and the stops of the routes.

    `half` is the placement in the middle of the best route of at most two steps, -1 for a single step, and `middle` the
    one between two such routes.
    """

    is_step: Bools
    is_routed: Bools
    half: Ints
    middle: Ints


class _Graph:
    """The single steps between the placements of a table on one machine, and the best routes by order of magnitude."""

    def __init__(self, table: Placements, hardware: Hardware, wires: WirePrices) -> None:
        self._table, self.steps = table, _Steps(table)
        self.prices = _Prices(self.steps, hardware, wires)
        self._known: dict[Hashable, _Chosen] = {}

    def of_magnitude(self, type_: TensorType) -> _Chosen:
        """The routes of types of this order of magnitude with the same even dimensions."""
        table = self._table
        magnitude = math.frexp(math.prod(type_.shape) * element_bytes(type_.element))[1] // 2
        is_even = np.array(type_.shape, np.int64) % table.parts.count[table.lists] == 0
        key = magnitude, is_even.tobytes()
        found = self._known.get(key)
        if found is None:
            is_step, is_routed = self.steps.allowed(is_even)
            local = 4.0**magnitude / table.count.astype(np.float64)
            pairs_s, half = _shortest(self.prices.seconds(local, local[:, None], is_step), local)
            middle = _shortest(pairs_s, local)[1]
            found = _Chosen(is_step, is_routed, half.astype(np.int16), middle.astype(np.int16))
            self._known[key] = found
        return found


@functools.lru_cache(maxsize=32)
def _graphs(key: Hashable) -> list[_Graph]:
    """Room for the graph with this key, which is kept for later programs."""
    return []


def _graph(table: Placements, hardware: Hardware, wires: WirePrices) -> _Graph:
    """The graph of a table, or of an equal one: programs on one mesh have the same ones."""
    parts, lists, partial = table.parts, table.lists, table.partial
    key = tuple(parts.parts), tuple(parts.lists), lists.shape, lists.tobytes(), partial.tobytes(), repr(hardware)
    found = _graphs(key)
    if not found:
        found.append(_Graph(table, hardware, wires))
    return found[0]


class Routes:
    """The best routes between all placements of a rank on one machine, and their times there or on another.

    They depend only on the order of magnitude of values: types of about the same size have the same routes.
    """

    def __init__(self, table: Placements, hardware: Hardware, wires: WirePrices) -> None:
        self._table, self._graph = table, _graph(table, hardware, wires)
        self._of_type: dict[TensorType, _Chosen] = {}

    def seconds(self, type_: TensorType, rates: tuple[Hardware, WirePrices] | None = None) -> Floats:
        """Seconds between all placements, on a machine with other rates if given; infinite without a route."""
        graph, chosen = self._graph, self._chosen(type_)
        prices = graph.prices if rates is None else _Prices(graph.steps, *rates)
        found = _along(self._step_seconds(prices, type_, chosen.is_step), chosen)
        return np.where(chosen.is_routed, found, math.inf)

    def stops(self, type_: TensorType, source: int, target: int) -> list[int]:
        """The placements on a route, including its ends; empty without a route."""
        chosen, found = self._chosen(type_), [source, target]
        for through in (chosen.middle, chosen.half):
            middles = [int(through[a, b]) for a, b in itertools.pairwise(found)]
            found = [stop for pair in zip(found, [*middles, -1], strict=True) for stop in pair if stop >= 0]
        is_routed = chosen.is_routed[source, target] and all(chosen.is_step[a, b] for a, b in itertools.pairwise(found))
        return found if is_routed else []

    def _step_seconds(self, prices: _Prices, type_: TensorType, is_step: Bools) -> Floats:
        shard = -(-np.array(type_.shape, np.int64) // self._table.parts.count[self._table.lists])
        bytes_ = float(element_bytes(type_.element))
        local = bytes_ * shard.prod(axis=1).astype(np.float64)
        return prices.seconds(local, bytes_ * self._graph.steps.padded(shard), is_step)

    def _chosen(self, type_: TensorType) -> _Chosen:
        """The routes of a type: those of its order of magnitude, or a single step, or through the whole value."""
        found = self._of_type.get(type_)
        if found is None:
            found = self._graph.of_magnitude(type_)
            step_s = self._step_seconds(self._graph.prices, type_, found.is_step)
            held = math.prod(type_.shape) * element_bytes(type_.element)
            ends = held * np.maximum(1 / self._table.count[:, None], 1 / self._table.count[None, :])
            is_lean = held <= np.maximum(ends * PADDING, SMALL_BYTES)
            whole_s = np.where(is_lean, step_s[:, :1] + step_s[:1, :], math.inf)
            is_simple = np.minimum(step_s, whole_s) < _along(step_s, found)
            half = np.where(is_simple, np.where(whole_s < step_s, 0, -1), found.half)
            found = found._replace(half=half, middle=np.where(is_simple, -1, found.middle))
            self._of_type[type_] = found
        return found


def _along(step_s: Floats, chosen: _Chosen) -> Floats:
    """Seconds along routes, by those of single steps."""
    rows, columns = np.arange(len(step_s))[:, None], np.arange(len(step_s))[None, :]
    for through in (chosen.half, chosen.middle):
        at = np.maximum(through, 0)
        step_s = np.where(through < 0, step_s, step_s[rows, at] + step_s[at, columns])
    return step_s


class RouteBook:
    """The routes between placements on one target, memoized by table."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._known: dict[Placements, Routes] = {}
        self._wires: dict[AxisParts, WirePrices] = {}

    def of(self, table: Placements) -> Routes | None:
        """The routes between the placements of a table; None if it has too many of them."""
        if len(table.lists) > MAX_ROUTED:
            return None
        found = self._known.get(table)
        if found is None:
            wires = self._wires.setdefault(table.parts, WirePrices(table.parts, self._hardware))
            found = self._known[table] = Routes(table, self._hardware, wires)
        return found


def _changed(table: Placements) -> Ints:
    """The parts whose position differs between two placements, as bits."""
    most = len(table.parts.parts)
    found = np.zeros((len(table.lists), len(table.lists)), np.int64)
    index = np.full((len(table.parts.lists), most), -1, np.int64)
    for number, each in enumerate(table.parts.lists):
        index[number, list(each)] = np.arange(len(each))
    for part in range(most):
        place = (index[table.lists, part] + 1) @ (most + 1) ** np.arange(table.rank)
        found |= np.where(place[:, None] != place[None, :], 1 << part, 0)
    return found


def _shortest(step_s: Floats, local: Floats) -> tuple[Floats, Ints]:
    """The least seconds in one or two steps, and the placement between two steps; -1 for one step.

    `local` are the bytes of a device in each placement. In between, it holds little more than at the ends, or
    `SMALL_BYTES`.
    """
    onward = np.ascontiguousarray(step_s.T)  # [target, middle]: sums and minima along rows are the fastest
    least, through, sums = np.empty_like(step_s), np.empty(step_s.shape, np.int64), np.empty_like(step_s)
    starts = np.arange(len(local)) * len(local)
    for held in np.unique(local):
        most = np.maximum(held, local)[:, None] * PADDING
        allowed = np.where((local <= SMALL_BYTES) | (local <= most), onward, math.inf)
        for source in np.flatnonzero(local == held).tolist():
            np.add(allowed, step_s[source], out=sums)
            sums.argmin(axis=1, out=through[source])
            least[source] = sums.take(starts + through[source])
    is_less = least < step_s
    return np.where(is_less, least, step_s), np.where(is_less, through, -1)


def _blocks(table: Placements, same: Bools, nests: Bools) -> tuple[Ints, Floats, Bools]:
    """The messages of direct exchanges, the part of the target shard that they send, and whether they are possible.

    A device lacks its whole target shard, unless one list begins with the other in every dimension. Blocks have all
    boundaries of both sides.
    """
    parts, lists = table.parts, table.lists
    count = parts.count[lists]
    before, after = count[:, None, :], count[None, :, :]
    ratio = np.minimum(1.0, after / before)
    sent = 1.0 - np.where(nests.all(axis=2), np.prod(ratio, axis=2), 0.0)
    wanted = np.prod(np.where(same, 1, np.lcm(before, after) // after), axis=2)
    named = [sum(1 << n for n, other in enumerate(parts.parts) if other.name == part.name) for part in parts.parts]
    spread = np.array([sum({named[number] for number in each}) for each in parts.lists], np.int64)
    over = np.bitwise_or.reduce(np.where(same, 0, spread[lists[:, None, :]] | spread[lists[None, :, :]]), axis=2)
    devices = parts.size_of_mask[over & ~table.partial[:, None] & ~table.manual]
    is_settled = table.partial[:, None] == table.partial[None, :]
    is_planned = is_settled & (wanted <= MAX_ROUNDS) & (devices * wanted <= MAX_BLOCKS)
    messages = np.rint(wanted * sent).astype(np.int64)
    # Along one dimension, blocks of the same sender are one message.
    divide = (before % after == 0) | (after % before == 0)
    for a, b in np.argwhere(is_planned & ((~same).sum(axis=2) == 1) & ~divide.all(axis=2)).tolist():
        (dim,) = np.flatnonzero(~same[a, b]).tolist()
        messages[a, b] = _interval_messages(parts, int(lists[a, dim]), int(lists[b, dim])) or messages[a, b]
    return messages, sent, is_planned


@functools.lru_cache(maxsize=1024)
def _interval_messages(parts: AxisParts, before: int, after: int) -> int:
    """The messages of the direct exchange of one dimension between two lists; 0 if it is not planned."""
    size = math.lcm(int(parts.count[before]), int(parts.count[after]))
    found = direct_exchange(parts.mesh, (size,), (parts.axes[before],), (parts.axes[after],), ())
    return 0 if found is None else found.messages
