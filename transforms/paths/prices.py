"""The prices of moves of one tensor on the target hardware: bytes in memory, and seconds."""

from __future__ import annotations

import math

from gspmd.dialect.axes import Axes, canonical, is_within, size_of, starts_with
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import TensorSharding, local_shape
from gspmd.transforms.exchange.blocks import Dims, least_sent, misaligned
from gspmd.transforms.exchange.direct import changed_dims, direct_exchange
from gspmd.transforms.exchange.halo import realignment, realignments
from gspmd.transforms.exchange.intervals import Exchange, cheapest
from gspmd.transforms.exchange.sparse_gather import is_mostly_padding
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.machine.cost import ANYWHERE, Hardware, collective_time, fastest_collective

# With more devices than this, exchanges of one dimension without a block exchange are not planned.
MAX_PLANNED_DEVICES = 512
# With more shards than this, the exchange of a dimension is priced as a gather instead of planned.
MAX_TILES = 4096

_Ends = tuple[Dims, Axes, Dims]
"""The axes of dimensions before a direct exchange, the partial axes, and the axes of dimensions after it."""


class Prices:
    """The prices of one tensor's moves.

    `form` is a sharding of the tensor with its manual axes.
    """

    def __init__(self, type_: TensorType, form: TensorSharding, hardware: Hardware) -> None:
        self.shape = type_.shape
        self.form = form
        self.hardware = hardware
        self._element_bytes = element_bytes(type_.element)
        self._fastest = fastest_collective(hardware)
        # memoized, since searches repeat the same calls
        self._local: dict[Dims, float] = {}
        self._wire: dict[tuple[str, float, int, Axes], float] = {}
        self._gathering: dict[tuple[Dims, Dims], float] = {}
        self._least_direct: dict[_Ends, float] = {}
        self._direct: dict[_Ends, tuple[float, float] | None] = {}

    def local_bytes(self, dims: Dims) -> float:
        """The bytes of the value on a device with this sharding."""
        found = self._local.get(dims)
        if found is None:
            found = self._local[dims] = self._element_bytes * math.prod(local_shape(self.shape, dims))
        return found

    def least_time(self, elements: float) -> float:
        """The least seconds of collectives with which a device receives so many elements."""
        latency_s, bytes_per_s = self._fastest
        return latency_s + self._element_bytes * elements / bytes_per_s if elements else 0.0

    def _padded_bytes(self, before: Dims, after: Dims) -> float:
        """The bytes of a shard, padded to a multiple of the shard after a step in dimensions that get finer."""
        sides = zip(local_shape(self.shape, before), local_shape(self.shape, after), before, after, strict=True)
        growth = ((n, m, size_of(b) // size_of(a) if starts_with(b, a) else 1) for n, m, a, b in sides)
        return self._element_bytes * math.prod(n if grown == 1 else m * grown for n, m, grown in growth)

    def time(self, kind: str, before: Dims, after: Dims, devices: int, axes: Axes = ()) -> float:
        """Seconds of a collective over `axes`, or, without a kind, of local work."""
        held = self.local_bytes(before)
        memory = (held + self.local_bytes(after)) / self.hardware.memory_bytes_per_s
        if not kind:
            return memory
        if kind in ("all_to_all", "reduce_scatter"):
            held = self._padded_bytes(before, after)
        key = kind, held, devices, axes
        wire = self._wire.get(key)
        if wire is None:
            wire = self._wire[key] = collective_time(kind, held, devices, self.hardware, axes, ANYWHERE)
        return memory + wire

    def gathering(self, before: Dims, after: Dims, axes: Axes) -> float:
        """Seconds to gather shards over `axes`, and to move at most one dimension to the boundaries of even tiles."""
        found = self._gathering.get((before, after))
        if found is None:
            found = self._gathering[before, after] = self._gathering_s(before, after, axes)
        return found

    def _gathering_s(self, before: Dims, after: Dims, axes: Axes) -> float:
        crossed = misaligned(self.shape, before, after)
        if not crossed and is_mostly_padding(self.shape, before, after):
            return self.time("all_reduce", after, after, size_of(axes), axes)
        time_s = self.time("all_gather", before, after, size_of(axes), axes)
        for dim in crossed:
            count, axes = size_of(before[dim]), after[dim]
            exchange = realignment(self.shape[dim], count, count // size_of(axes))
            time_s += self._exchanging(exchange, after, dim, axes)
        return time_s

    def interleaving(self, gathered: Dims, goal: Dims) -> float:
        """Seconds of the transpose that puts shards in order which are gathered in several dimensions."""
        is_ordered = sum(1 for axes in gathered if axes) < 2
        return 0.0 if is_ordered else 2 * self.local_bytes(goal) / self.hardware.memory_bytes_per_s

    def realigning(self, source: int, target: int, dims: Dims, after: Dims) -> float:
        """Seconds to move the results of an all-to-all to the boundaries of even tiles.

        With more than `MAX_TILES` shards, these are the seconds to gather them.
        """
        sizes, counts = (self.shape[source], self.shape[target]), (size_of(dims[source]), size_of(dims[target]))
        axes = (*dims[source], *dims[target])
        if max(counts[0], size_of(after[target])) > MAX_TILES:
            ends = zip((source, target), sizes, strict=True)
            return sum(self._sending(size * self._others(after, dim), 1, axes) for dim, size in ends)
        exchanges = realignments(sizes, counts, size_of(after[target]) // counts[1])
        pairs = zip((source, target), exchanges, strict=True)
        return sum(self._exchanging(exchange, after, dim, axes) for dim, exchange in pairs)

    def _exchanging(self, exchange: Exchange, after: Dims, dim: int, axes: Axes) -> float:
        """Seconds of the cheapest exchange of one dimension."""
        way = cheapest(exchange)
        return self._sending(way.sent * self._others(after, dim), way.messages, axes)

    def directly(self, before: Dims, unreduced: Axes, after: Dims, most_s: float) -> tuple[float, float] | None:
        """Seconds of the direct exchange between two shardings, and its peak memory in bytes.

        None if it takes `most_s` or more, or if there are too many devices and messages to plan it.
        """
        ends = before, unreduced, after
        least_s = self._least_direct.get(ends)
        if least_s is None:
            least_s = self._least_direct[ends] = self._least_direct_s(*ends)
        if least_s >= most_s:
            return None
        if ends not in self._direct:
            self._direct[ends] = self._direct_s(*ends)
        return self._direct[ends]

    def _least_direct_s(self, before: Dims, unreduced: Axes, after: Dims) -> float:
        """A lower bound of the seconds of a direct exchange; infinite if it is not planned."""
        asked = _, _, old, new, _ = self._asked(before, unreduced, after)
        least = least_sent(*asked)
        if least is not None:
            return self.time("", before, after, 1) + self._sending(least, 1, *_changed_axes(old, new))
        changed = changed_dims(old, new)
        if len(changed) > 1 or size_of((*old[changed[0]], *new[changed[0]])) > MAX_PLANNED_DEVICES:
            return math.inf
        return 0.0

    def _direct_s(self, before: Dims, unreduced: Axes, after: Dims) -> tuple[float, float] | None:
        """Seconds of a direct exchange, and its peak memory in bytes; None if it is not planned."""
        asked = _, _, old, new, _ = self._asked(before, unreduced, after)
        way = direct_exchange(*asked)
        if way is None:
            return None
        if way.kind == "all_to_all":
            return self.time(way.kind, before, after, size_of(way.axes), way.axes), 0.0
        alone_s = self.time("", before, after, 1)
        if way.messages > 1:  # each piece is written to its position
            alone_s += self._element_bytes * way.sent / self.hardware.memory_bytes_per_s
        sending_s = self._sending(way.sent, way.messages, *_changed_axes(old, new))
        return alone_s + sending_s, way.gathered * self._element_bytes

    def _asked(self, before: Dims, unreduced: Axes, after: Dims) -> tuple[Mesh, tuple[int, ...], Dims, Dims, Axes]:
        """What plans a direct exchange: see `direct_exchange`."""
        old, new = (tuple(map(canonical, dims)) for dims in (before, after))
        return self.form.mesh, self.shape, old, new, (*unreduced, *self.form.manual)

    def _others(self, dims: Dims, dim: int) -> int:
        """The elements of a shard in all dimensions but one."""
        return math.prod(n for d, n in enumerate(local_shape(self.shape, dims)) if d != dim)

    def _sending(self, elements: float, messages: int, axes: Axes, reach: int = 1) -> float:
        """Seconds to send so many elements along axes, in messages of one collective each."""
        sent = self._element_bytes * elements
        if not sent:
            return 0.0
        time_s = collective_time("collective_permute", sent, 2, self.hardware, axes, reach)
        return time_s + (messages - 1) * self.hardware.collective_latency_s


def _changed_axes(old: Dims, new: Dims) -> tuple[Axes, int]:
    """The axes of the dimensions that change, and the reach of messages along them.

    If one dimension gets finer or coarser tiles, they move to neighbors; over other axes they move anywhere.
    """
    changed = changed_dims(old, new)
    both = {axis for dim in changed for axis in (*old[dim], *new[dim])}
    over = tuple(sorted(axis for axis in both if not any(is_within(axis, [other]) for other in both - {axis})))
    is_near = all(starts_with(old[dim], new[dim]) or starts_with(new[dim], old[dim]) for dim in changed)
    return over, 1 if is_near and len(changed) == 1 else ANYWHERE
