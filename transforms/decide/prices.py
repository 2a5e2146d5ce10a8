"""The prices of reshards between placements: those of the best route, or a closed form.

Routes (`paths/routes.py`) are computed for up to some hundred placements. The closed form applies if bytes dominate.
Axes that are new in the goal are sliced first, which costs only memory traffic. Sums over parts that split a dimension
of the goal become reduce-scatters, others all-reduces. Parts that change their dimension move by all-to-alls, remaining
parts are gathered, and if the order of parts differs, one permute comes first. For even values, this sends as many
bytes as the paths of `paths/planner.py`. If the sharding of a dimension changes and is uneven, the planner computes the
price.
"""

from __future__ import annotations

import numpy as np

from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.machine.cost import Hardware
from gspmd.transforms.paths.placements import AxisParts, Floats, Ints, Placements
from gspmd.transforms.paths.planner import Planner
from gspmd.transforms.paths.routes import RouteBook, Routes

_NEVER_BYTES = 1e18


def never_s(hardware: Hardware) -> float:
    """The price of what is impossible, in seconds: those in which a link sends more bytes than any reshard does."""
    return _NEVER_BYTES / hardware.link_bytes_per_s


class PriceBook:
    """Prices of reshards on one mesh, in seconds."""

    def __init__(self, parts: AxisParts, hardware: Hardware) -> None:
        self.parts, self.hardware = parts, hardware
        self.never_s = never_s(hardware)
        self._known: dict[tuple[TensorType, Placements], Floats] = {}
        self.planner = Planner(parts.mesh, hardware)
        self._routes = RouteBook(hardware)
        self._wires = self._routes.wires(parts)

    def moves(self, type_: TensorType, table: Placements, sources: Ints, targets: Ints) -> Floats:
        """Seconds from each source to each target; `never_s` if the target is partial where the source is not."""
        every = self._known.get((type_, table))
        routes = self._routes.of(table)
        if every is None and routes is not None:
            every = self._known[type_, table] = self._every(type_, table, routes)
        found = self._moves(type_, table, sources, targets) if every is None else every[sources[:, None], targets]
        return self._as_planned(found, type_, table, sources, targets)

    def _every(self, type_: TensorType, table: Placements, routes: Routes) -> Floats:
        """Seconds of all reshards of a type. On a machine with a known shape, only the routes determine them."""
        seconds = routes.seconds(type_)
        if not self.hardware.axes:
            numbers = np.arange(len(table.lists))
            seconds = np.minimum(seconds, self._moves(type_, table, numbers, numbers))
        return np.where(np.isinf(seconds), self.never_s, seconds)

    def _as_planned(self, prices: Floats, type_: TensorType, table: Placements, sources: Ints, targets: Ints) -> Floats:
        """These prices, but those of the planner if a dimension changes its axes and has padding before or after."""
        is_planned = np.zeros(prices.shape, bool)
        for dim, size in enumerate(type_.shape):
            padded = size % self.parts.count != 0
            before, after = table.lists[sources, dim][:, None], table.lists[targets, dim][None, :]
            if padded[before].any() or padded[after].any():
                is_planned |= (before != after) & (before != 0) & (after != 0) & (padded[before] | padded[after])
        pairs = np.argwhere(is_planned & (prices < self.never_s)).tolist()
        if not pairs:
            return prices
        planned = prices.copy()
        for a, b in pairs:
            source, target = table.sharding(int(sources[a])), table.sharding(int(targets[b]))
            planned[a, b] = self.planner.plan(type_, source, target).time_s
        return planned

    def _moves(self, type_: TensorType, table: Placements, sources: Ints, targets: Ints) -> Floats:
        lists, parts = table.lists, self.parts
        a, b = sources[:, None], targets[None, :]
        mask_a, mask_b = table.mask[a], table.mask[b]
        sums_a, sums_b = table.partial[a], table.partial[b]
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
        return np.where((sums_b != 0) & ~is_same, self.never_s, time_s)

    def _wire_s(self, kind: str, mask: Ints, local: Floats) -> Floats:
        """Seconds of collectives over the parts in masks, for so many bytes per device."""
        latency_s, slope = self._wires.of(kind, mask)
        found: Floats = latency_s + slope * local
        return found
