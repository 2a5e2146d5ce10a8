"""The best routes between all placements of a rank, for even values.

A route is a chain of up to four steps: slices, gathers, exchanges of parts, permutes, reductions. Single steps between
placements form a graph, and the best routes are found by two min-plus matrix products. The possible steps depend only
on the placements, their times on bytes and links.

For example, over x=16 and y=32, `[{"x"}, {}] -> [{"y"}, {}]` is a slice to `[{"x", "y"}, {}]`, a permute to
`[{"y", "x"}, {}]` and a gather.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.machine.cost import ANYWHERE, Hardware, collective_time
from gspmd.transforms.paths.path import PADDING
from gspmd.transforms.paths.placements import AxisParts, Bools, Floats, Ints, Placements

MAX_ROUTED = 400
"""Between more placements than this, all routes are not looked for: their number grows with the third power."""

_KINDS = ("", "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "collective_permute")  # the first: a slice
_SLICE, _GATHER, _SCATTER, _REDUCE, _EXCHANGE, _PERMUTE = range(len(_KINDS))
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


class Routes:
    """The best routes between all placements of a rank, and their times for values of a type."""

    def __init__(self, table: Placements, hardware: Hardware, wires: WirePrices) -> None:
        self._table, self._hardware = table, hardware
        self._kind, self._mask = _steps(table)
        self._latency_s, self._slope = np.zeros(self._kind.shape), np.zeros(self._kind.shape)
        for number, kind in enumerate(_KINDS[1:], start=1):
            at = self._kind == number
            self._latency_s[at], self._slope[at] = wires.of(kind, self._mask[at])
        # By the size of values and by which placements split them evenly: through which placement the best ways lead.
        self._through: dict[tuple[int, bytes], tuple[Ints, Ints]] = {}

    def seconds(self, type_: TensorType) -> Floats:
        """Seconds between all placements; infinite without a route."""
        found = self._step_seconds(type_)
        rows, columns = np.arange(len(found))[:, None], np.arange(len(found))[None, :]
        for through in self._halves(type_):
            at = np.maximum(through, 0)
            found = np.where(through < 0, found, found[rows, at] + found[at, columns])
        return found

    def stops(self, type_: TensorType, source: int, target: int) -> list[int]:
        """The placements on a route, including its ends; only these for a single step."""
        found = [source, target]
        for through in reversed(self._halves(type_)):
            middles = [int(through[a, b]) for a, b in itertools.pairwise(found)]
            found = [stop for pair in zip(found, [*middles, -1], strict=True) for stop in pair if stop >= 0]
        return found

    def _halves(self, type_: TensorType) -> tuple[Ints, Ints]:
        """The intermediate placements of the best routes of at most two steps, and of two such routes."""
        numbers = np.arange(len(self._table.lists))
        local, is_even = self._table.local(type_.shape, numbers), self._table.is_even(type_.shape, numbers)
        key = math.frexp(float(local[0]) * element_bytes(type_.element))[1] // 4, is_even.tobytes()
        found = self._through.get(key)
        if found is None:
            most = np.maximum(local[:, None], local[None, :]) * PADDING
            pairs_s, half = _shortest(self._step_seconds(type_), is_even, local, most)
            found = self._through[key] = half, _shortest(pairs_s, is_even, local, most)[1]
        return found

    def _step_seconds(self, type_: TensorType) -> Floats:
        """Seconds of all single steps."""
        hardware, kind = self._hardware, self._kind
        local = self._table.local(type_.shape, np.arange(len(self._table.lists))) * element_bytes(type_.element)
        wire_s = self._latency_s + self._slope * local[:, None]
        read = np.where(kind == _SLICE, local[None, :], local[:, None])  # a slice reads and writes only its result
        memory_s = (read + local[None, :]) / hardware.memory_bytes_per_s
        found = np.where(kind == _NO_STEP, math.inf, wire_s + memory_s)
        np.fill_diagonal(found, 0.0)
        return found


class RouteBook:
    """The routes between placements on one target, memoized by table."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._known: dict[Placements, Routes] = {}
        self._wires: dict[AxisParts, WirePrices] = {}

    def wires(self, parts: AxisParts) -> WirePrices:
        """The prices of collectives over parts."""
        found = self._wires.get(parts)
        if found is None:
            found = self._wires[parts] = WirePrices(parts, self._hardware)
        return found

    def of(self, table: Placements) -> Routes | None:
        """The routes between the placements of a table; None if it has too many of them."""
        if len(table.lists) > MAX_ROUTED:
            return None
        found = self._known.get(table)
        if found is None:
            found = self._known[table] = Routes(table, self._hardware, self.wires(table.parts))
        return found


def _steps(table: Placements) -> tuple[Ints, Ints]:
    """The kind of the step between each pair of placements, and its parts."""
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
    kind, mask = np.full_like(none, _NO_STEP), none
    for number, is_step, over in (
        (_PERMUTE, is_alike & is_settled, changed),
        (_EXCHANGE, (grown | shrunk).all(axis=2) & (mask_a == mask_b) & is_settled, changed),
        (_SLICE, grown.all(axis=2) & is_settled, none),
        (_GATHER, shrunk.all(axis=2) & is_settled, mask_a & ~mask_b),
        (_REDUCE, same.all(axis=2) & is_taken, sums_a & ~sums_b),
        (_SCATTER, is_scattered & is_taken, sums_a & ~sums_b),
    ):
        kind, mask = np.where(is_step, number, kind), np.where(is_step, over, mask)
    return kind, mask


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


def _shortest(step_s: Floats, is_even: Bools, local: Floats, most: Floats) -> tuple[Floats, Ints]:
    """The least seconds in one or two steps, and the even placement between two steps; -1 for one step.

    In between, a device holds at most `most` elements.
    """
    least, through = step_s.copy(), np.full(step_s.shape, -1, np.int64)
    for middle in np.flatnonzero(is_even).tolist():
        found = step_s[:, middle, None] + step_s[None, middle, :]
        is_less = (found < least) & (local[middle] <= most)
        least[is_less] = found[is_less]
        through[is_less] = middle
    return least, through
