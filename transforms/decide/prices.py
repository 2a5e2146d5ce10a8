"""The prices of reshards between placements: those of the best routes, which the planner follows.

Routes (`paths/routes.py`) are computed for up to some hundred placements; between more, there is a closed form that
counts only bytes. Axes that are new in the goal are sliced first, which costs only memory traffic. Sums over parts that
split a dimension of the goal become reduce-scatters, others all-reduces. Parts that change their dimension move by
all-to-alls, remaining parts are gathered, and if the order of parts differs, one permute comes first.

If the sharding of a dimension changes and is uneven, the planner computes the price of a single reshard. The price of
one among several is an upper bound: the dimension is gathered first, and sliced last.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.paths.placements import AxisParts, Bools, Floats, Ints, Placements
from gspmd.transforms.paths.planner import Planner
from gspmd.transforms.paths.routes import RouteBook, Routes, StepPrices, WirePrices

MAX_WAYS = 16
"""The largest number of pairs of ways to split unevenly for which routes are looked for, since each has its own."""

_NEVER_BYTES = 1e18


def never_s(hardware: Hardware) -> float:
    """The price of what is impossible, in seconds: those in which a link sends more bytes than any reshard does."""
    return _NEVER_BYTES / hardware.link_bytes_per_s


class ClosedForm(NamedTuple):
    """Prices of reshards: by pair, a latency, and seconds for each byte of the source; by way of one permute or not.

    `is_bound` says whether the price is an upper bound.
    """

    latency_s: Floats
    per_byte_s: Floats
    once_latency_s: Floats
    once_per_byte_s: Floats
    is_bound: Bools

    def seconds(self, held: Floats) -> Floats:
        """Seconds if a device holds so many bytes of the source."""
        found: Floats = np.minimum(
            self.latency_s + self.per_byte_s * held, self.once_latency_s + self.once_per_byte_s * held
        )
        return found


class PriceBook:
    """Prices of reshards on one mesh, in seconds on `hardware`, along the routes that are best there.

    With `routes`, reshards take the routes of these prices, which are best on other hardware.
    """

    def __init__(self, parts: AxisParts, hardware: Hardware, routes: PriceBook | None = None) -> None:
        self.parts, self.hardware = parts, hardware
        self.never_s = never_s(hardware)
        self._known: dict[tuple[TensorType, Routes], Floats] = {}
        self._forms: dict[tuple[Placements, bytes, bytes, bytes], ClosedForm] = {}
        self.planner: Planner = Planner(parts.mesh, hardware) if routes is None else routes.planner
        self._routes: RouteBook = RouteBook(hardware) if routes is None else routes._routes
        self._wires = WirePrices(parts, hardware)
        self._steps: dict[Routes, StepPrices] = {}

    def moves(self, type_: TensorType, table: Placements, sources: Ints, targets: Ints) -> Floats:
        """Seconds from each source to each target; `never_s` if the target is partial where the source is not."""
        if not (len(sources) and len(targets)):
            return np.empty((len(sources), len(targets)))
        found = self._by_ends(type_, table, sources, targets)
        partial = table.partial[targets]
        if partial.any():
            found[(partial & ~table.partial[sources][:, None]) != 0] = self.never_s
        unknown = np.isinf(found)
        if found.size == 1 and unknown.all():
            found[0, 0] = self._planned_s(type_, *(table.sharding(int(n)) for n in (sources[0], targets[0])))
        elif unknown.any():
            found[unknown] = self._closed(type_, table, sources, targets)[unknown]
        return found

    def _padded(self, type_: TensorType) -> Bools:
        """The axis lists that split a dimension unevenly, by dimension."""
        found: Bools = np.array(type_.shape, np.int64)[:, None] % self.parts.count != 0
        return found

    def _closed(
        self, type_: TensorType, table: Placements, sources: Ints, targets: Ints, with_bounds: bool = True
    ) -> Floats:
        """Seconds from each source to each target in closed form; infinite instead of upper bounds without these."""
        padded = self._padded(type_)
        key = table, padded.tobytes(), sources.tobytes(), targets.tobytes()
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = self._form(padded, table, sources, targets)
        held, goal = (table.local(type_.shape, each) * element_bytes(type_.element) for each in (sources, targets))
        moved_s = form.seconds(held[:, None]) + goal / self.hardware.memory_bytes_per_s
        if not with_bounds:
            moved_s = np.where(form.is_bound, math.inf, moved_s)
        return np.where(sources[:, None] == targets, 0.0, moved_s)

    def _by_ends(self, type_: TensorType, table: Placements, sources: Ints, targets: Ints) -> Floats:
        """Seconds from each source to each target along routes, or else in closed form; infinite without either.

        Reshards whose ends split no dimension unevenly, or the same ones alike, have routes in common.
        """
        uneven = self._routes.uneven(table, type_.shape)
        rows, columns = _equal(uneven[sources]), _equal(uneven[targets])
        if len(rows) == len(columns) == 1:
            found = self._along_routes(type_, table, sources, targets)
            return self._closed(type_, table, sources, targets, with_bounds=False) if found is None else found
        is_many = len(rows) * len(columns) > MAX_WAYS
        blocks = np.full((len(sources), len(targets)), math.nan)
        for row, column in itertools.product(rows, columns):
            if is_many and (uneven[sources[row[0]]].any() or uneven[targets[column[0]]].any()):
                continue
            found = self._along_routes(type_, table, sources[row], targets[column])
            if found is not None:
                blocks[np.ix_(row, column)] = found
        is_left = np.isnan(blocks)
        if is_left.any():
            blocks = np.where(is_left, self._closed(type_, table, sources, targets, with_bounds=False), blocks)
        return blocks

    def _along_routes(self, type_: TensorType, table: Placements, sources: Ints, targets: Ints) -> Floats | None:
        """Seconds from each source to each target, which split dimensions alike unevenly; None without routes."""
        ends = np.array([sources[0], targets[0]])
        before, after = self._routes.uneven(table, type_.shape)[ends]
        if before.any() and after.any() and (before != after).any():
            return None
        routed = self._routes.of(table, type_.shape, ends)
        if routed is None:
            return None
        key = type_, routed.routes
        if key not in self._known:
            if routed.routes not in self._steps:
                self._steps[routed.routes] = routed.routes.prices(self.hardware, self._wires)
            self._known[key] = routed.routes.seconds(type_, self._steps[routed.routes])
        found: Floats = self._known[key].take(routed.position[sources], axis=0)
        return found.take(routed.position[targets], axis=1)

    def _planned_s(self, type_: TensorType, source: TensorSharding, target: TensorSharding) -> float:
        """Seconds of the planner's path, which may have been chosen for other hardware."""
        path, (made_for, hardware) = self.planner.plan(type_, source, target), (self.planner.hardware, self.hardware)
        if made_for == hardware:
            return path.time_s
        sent = [each for before, step in path.states(source) for each in step.sent(type_, before)]
        on_wires_s, before_s = (sum(each.time_s(device) for each in sent) for device in (hardware, made_for))
        memory_bytes = (path.time_s - before_s) * made_for.memory_bytes_per_s
        return on_wires_s + memory_bytes / hardware.memory_bytes_per_s

    def _form(self, padded: Bools, table: Placements, sources: Ints, targets: Ints) -> ClosedForm:
        """The closed form for pairs of placements, if these lists are uneven, by dimension."""
        parts, small = self.parts, np.min_scalar_type(len(self.parts.size_of_mask))
        a, b = sources[:, None], targets[None, :]
        masks, sums = table.mask.astype(small), table.partial.astype(small)  # pairs are many: their masks are small
        mask_a, mask_b, sums_a, sums_b = masks[a], masks[b], sums[a], sums[b]
        shape = len(sources), len(targets)
        latency_s, slope, share = np.zeros(shape), np.zeros(shape), np.ones(shape)  # of the bytes of the source

        def send(kind: str, mask: Ints) -> None:
            nonlocal latency_s, slope
            if mask.any():
                first_s, per_byte = self._wires.of(kind, mask)
                latency_s, slope = latency_s + first_s, slope + per_byte * share

        moved = _moved(table, sources, targets)
        crossed = [_crossed(padded[dim], table, dim, sources, targets, moved) for dim in range(table.rank)]
        is_bound = np.logical_or.reduce(crossed)
        if is_bound.any():
            list_masks, joined, cut = parts.mask.astype(small), np.zeros(shape, small), np.zeros(shape, small)
            for dim, is_crossed in enumerate(crossed):
                joined |= np.where(is_crossed, list_masks[table.lists[sources, dim]][:, None], small.type(0))
                cut |= np.where(is_crossed, list_masks[table.lists[targets, dim]], small.type(0))
            mask_a, mask_b = mask_a & ~joined, mask_b & ~cut
            send("all_gather", joined)
            share = share * parts.size_of_mask[joined]
            slope += np.where(joined != 0, 2 * share, 0.0) / self.hardware.memory_bytes_per_s
        scattered, reduced = sums_a & mask_b, sums_a & ~mask_b
        new = mask_b & ~mask_a & ~sums_a
        kept = mask_a & mask_b
        moved = moved & kept
        gathered = mask_a & ~mask_b
        stays = np.zeros(shape, bool)  # whether the parts of a dimension change their order
        late = np.zeros(shape, bool)  # whether scattered parts follow exchanged parts in the goal
        for dim, is_crossed in enumerate(crossed):
            left = np.where(is_crossed, 0, table.lists[sources, dim][:, None])
            right = np.where(is_crossed, 0, table.lists[targets, dim])
            stays |= ~parts.prefix[left, right]
            if scattered.any():
                stays |= parts.some_behind(right, new | (kept & ~moved), scattered)
                late |= parts.some_behind(right, scattered, moved)
        share = share / parts.size_of_mask[new]
        # With a decomposed all-reduce, the exchanges between its two halves send less.
        in_parts = np.where((moved != 0) & ~stays, reduced, 0)
        scattered, reduced, gathered = scattered | in_parts, reduced & ~in_parts, gathered | in_parts
        send("reduce_scatter", scattered)
        share = share / parts.size_of_mask[scattered]
        send("all_reduce", reduced)
        moved = np.where(late, moved | scattered, moved)
        # On a machine with a known shape, shards of different shapes take one all-to-all for each part.
        one_by_one = np.where(stays, moved, 0) if self.hardware.axes else np.zeros_like(moved)
        for number in range(len(parts.parts)):
            send("all_to_all", one_by_one & (1 << number))
        send("collective_permute", np.where(stays & (one_by_one == 0), mask_a | mask_b, 0))
        send("all_to_all", np.where(stays, 0, moved))
        send("all_gather", gathered)
        # If shards keep their shape, one permute is enough, whatever the axes are.
        count = parts.count[table.lists]
        alike = ((sums_a | sums_b) == 0) & (count[a] == count[b]).all(axis=2)
        once_s, per_byte = self._wires.of("collective_permute", masks[a] | masks[b])
        copied = 1 / self.hardware.memory_bytes_per_s
        once_s = np.where(alike, once_s, math.inf)
        return ClosedForm(latency_s, slope + copied, once_s, per_byte + copied, is_bound)


def _moved(table: Placements, sources: Ints, targets: Ints) -> Ints:
    """The parts, as bits, that split another dimension in the target than in the source."""
    where = table.where.astype(np.int8)
    found = np.zeros((len(sources), len(targets)), np.min_scalar_type(len(table.parts.size_of_mask)))
    for number in range(where.shape[1]):
        before, after = where[sources, number][:, None], where[targets, number][None, :]
        found |= np.where((before != after) & (before >= 0) & (after >= 0), found.dtype.type(1 << number), 0)
    return found


def _crossed(padded: Bools, table: Placements, dim: int, sources: Ints, targets: Ints, moved: Ints) -> Bools:
    """Whether a dimension that is split unevenly before or after changes or exchanges axes.

    `padded` are the lists that split it unevenly, and `moved` are the parts that change their dimension.
    """
    if not padded.any():
        return np.zeros(moved.shape, bool)
    before, after = table.lists[sources, dim][:, None], table.lists[targets, dim][None, :]
    masks = table.parts.mask.astype(moved.dtype)
    changes = ((before != 0) & (after != 0)) | ((masks[before] | masks[after]) & moved != 0)
    found: Bools = (before != after) & changes & (padded[before] | padded[after])
    return found


def _equal(lists: Ints) -> list[Ints]:
    """The positions of equal rows."""
    if not lists.any():
        return [np.arange(len(lists))]
    numbers = np.unique(lists, axis=0, return_inverse=True)[1].reshape(-1)
    return [np.flatnonzero(numbers == number) for number in range(numbers.max() + 1)]
