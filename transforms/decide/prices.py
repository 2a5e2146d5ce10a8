"""The prices of reshards between placements: those of the best routes, which the planner follows.

Routes (`paths/routes.py`) are computed for up to some hundred placements; between more, there is a closed form that
counts only bytes. Axes that are new in the goal are sliced first, which costs only memory traffic. Sums over parts that
split a dimension of the goal become reduce-scatters, others all-reduces. Parts that change their dimension move by
all-to-alls, remaining parts are gathered, and if the order of parts differs, one permute comes first. If the sharding
of a dimension changes and is uneven, the closed form does not hold, and the planner computes the price.
"""

from __future__ import annotations

import math

import numpy as np

from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.paths.placements import MAX_PLACEMENTS, AxisParts, Floats, Ints, Placements
from gspmd.transforms.paths.planner import Planner
from gspmd.transforms.paths.routes import RouteBook, Routes, StepPrices, WirePrices

_NEVER_BYTES = 1e18


def never_s(hardware: Hardware) -> float:
    """The price of what is impossible, in seconds: those in which a link sends more bytes than any reshard does."""
    return _NEVER_BYTES / hardware.link_bytes_per_s


class PriceBook:
    """Prices of reshards on one mesh, in seconds on `hardware`, along the routes that are best there.

    With `routes`, reshards take the routes of these prices, which are best on other hardware.
    """

    def __init__(self, parts: AxisParts, hardware: Hardware, routes: PriceBook | None = None) -> None:
        self.parts, self.hardware = parts, hardware
        self.never_s = never_s(hardware)
        self._known: dict[tuple[TensorType, Placements | Routes], Floats] = {}
        self._asked: dict[tuple[TensorType, Placements], int] = {}
        self.planner: Planner = Planner(parts.mesh, hardware) if routes is None else routes.planner
        self._routes: RouteBook = RouteBook(hardware) if routes is None else routes._routes
        self._wires = WirePrices(parts, hardware)
        self._steps: dict[Routes, StepPrices] = {}

    def moves(self, type_: TensorType, table: Placements, sources: Ints, targets: Ints) -> Floats:
        """Seconds from each source to each target; `never_s` if the target is partial where the source is not."""
        found = self._by_ends(type_, table, sources, targets)
        partial = table.partial[targets]
        if partial.any():
            found[(partial & ~table.partial[sources][:, None]) != 0] = self.never_s
        for a, b in np.argwhere(np.isinf(found)).tolist():
            found[a, b] = self._planned_s(type_, *(table.sharding(int(n)) for n in (sources[a], targets[b])))
        return found

    def _without_routes(self, type_: TensorType, table: Placements, sources: Ints, targets: Ints) -> Floats:
        """Seconds from each source to each target in closed form.

        Once as many pairs have been asked for as there are, all are computed, unless they would take too much memory.
        """
        key, numbers = (type_, table), np.arange(len(table.lists))
        if key not in self._known and len(numbers) <= MAX_PLACEMENTS:
            self._asked[key] = self._asked.get(key, 0) + len(sources) * len(targets)
            if self._asked[key] >= len(numbers) ** 2:
                self._known[key] = self._in_closed_form(type_, table, numbers, numbers)
        if key not in self._known:
            return self._in_closed_form(type_, table, sources, targets)
        found: Floats = self._known[key].take(sources, axis=0).take(targets, axis=1)
        return found

    def _by_ends(self, type_: TensorType, table: Placements, sources: Ints, targets: Ints) -> Floats:
        """Seconds from each source to each target. Those that split dimensions alike unevenly have common routes."""
        uneven = self._routes.uneven(table, type_.shape)
        if not (uneven[sources].any() or uneven[targets].any()):
            return self._between(type_, table, sources, targets)
        found = np.empty((len(sources), len(targets)))
        for rows in _equal(uneven[sources]):
            for columns in _equal(uneven[targets]):
                found[np.ix_(rows, columns)] = self._between(type_, table, sources[rows], targets[columns])
        return found

    def _between(self, type_: TensorType, table: Placements, sources: Ints, targets: Ints) -> Floats:
        """Seconds from each source to each target along their routes, or without routes if there are none."""
        routed = self._routes.of(table, type_.shape, np.concatenate([sources[:1], targets[:1]]))
        if routed is None:
            return self._without_routes(type_, table, sources, targets)
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

    def _in_closed_form(self, type_: TensorType, table: Placements, sources: Ints, targets: Ints) -> Floats:
        """Seconds for even values; infinite if a dimension changes its axes and is uneven before or after."""
        lists, parts = table.lists, self.parts
        a, b = sources[:, None], targets[None, :]
        small = np.min_scalar_type(len(parts.size_of_mask))  # pairs of placements are many: their masks are small
        masks, sums = table.mask.astype(small), table.partial.astype(small)
        mask_a, mask_b, sums_a, sums_b = masks[a], masks[b], sums[a], sums[b]
        scattered, reduced = sums_a & mask_b, sums_a & ~mask_b
        new = mask_b & ~mask_a & ~sums_a
        kept = mask_a & mask_b
        moved = np.zeros_like(kept)
        for number in range(len(parts.parts)):
            elsewhere = table.where[a, number] != table.where[b, number]
            moved |= np.where(elsewhere, kept & (1 << number), 0)
        gathered = mask_a & ~mask_b
        stays = np.zeros(kept.shape, bool)  # whether the parts of a dimension change their order
        late = np.zeros(kept.shape, bool)  # whether scattered parts follow exchanged parts in the goal
        for dim in range(table.rank):
            left, right = lists[a, dim], lists[b, dim]
            stays |= ~parts.prefix[left, right]
            if scattered.any():
                stays |= parts.some_behind(right, new | (kept & ~moved), scattered)
                late |= parts.some_behind(right, scattered, moved)
        bytes_ = element_bytes(type_.element)
        local = table.local(type_.shape, sources)[:, None] * bytes_ / parts.size_of_mask[new]
        goal = table.local(type_.shape, targets)[None, :] * bytes_
        time_s = np.zeros(kept.shape)
        # With a decomposed all-reduce, the exchanges between its two halves send less.
        in_parts = np.where((moved != 0) & ~stays, reduced, 0)
        scattered, reduced, gathered = scattered | in_parts, reduced & ~in_parts, gathered | in_parts
        for kind, mask in (("reduce_scatter", scattered), ("all_reduce", reduced)):
            if mask.any():
                time_s += self._wire_s(kind, mask, local)
                local = local / parts.size_of_mask[mask] if kind == "reduce_scatter" else local
        moved = np.where(late, moved | scattered, moved)
        # On a machine with a known shape, shards of different shapes take one all-to-all for each part.
        one_by_one = np.where(stays, moved, 0) if self.hardware.axes else np.zeros_like(moved)
        permuted = np.where(stays & (one_by_one == 0), mask_a | mask_b, 0)
        moved = np.where(stays, 0, moved)
        for number in range(len(parts.parts)):
            part = one_by_one & (1 << number)
            time_s += self._wire_s("all_to_all", part, local)
        for kind, mask in (("collective_permute", permuted), ("all_to_all", moved), ("all_gather", gathered)):
            time_s += self._wire_s(kind, mask, local)
        # If shards keep their shape, one permute is enough, whatever the axes are.
        alike = ((sums_a | sums_b) == 0) & (parts.count[lists[a]] == parts.count[lists[b]]).all(axis=2)
        whole = table.local(type_.shape, sources)[:, None] * bytes_
        once_s = self._wire_s("collective_permute", mask_a | mask_b, whole)
        time_s = np.where(alike, np.minimum(time_s, once_s), time_s)
        is_same = (sources[:, None] == targets[None, :]) & (sums_a == sums_b)
        memory_s = (whole + goal) / self.hardware.memory_bytes_per_s
        time_s = np.where(is_same, 0.0, time_s + memory_s)
        for dim, size in enumerate(type_.shape):
            padded, left, right = size % parts.count != 0, lists[a, dim], lists[b, dim]
            is_uneven = (left != right) & (left != 0) & (right != 0) & (padded[left] | padded[right])
            time_s = np.where(is_uneven, math.inf, time_s)
        return time_s

    def _wire_s(self, kind: str, mask: Ints, local: Floats) -> Floats:
        """Seconds of collectives over the parts in masks, for so many bytes per device."""
        latency_s, slope = self._wires.of(kind, mask)
        found: Floats = latency_s + slope * local
        return found


def _equal(lists: Ints) -> list[Ints]:
    """The positions of equal rows."""
    numbers = np.unique(lists, axis=0, return_inverse=True)[1].reshape(-1)
    return [np.flatnonzero(numbers == number) for number in range(numbers.max(initial=-1) + 1)]
