"""What a move of one tensor costs on the hardware at hand: bytes held, and seconds."""

from __future__ import annotations

import math

from gspmd.dialect.axes import Axes, canonical, size_of, starts_with
from gspmd.dialect.sharding import TensorSharding, local_shape
from gspmd.transforms.exchange.blocks import Dims, least_sent
from gspmd.transforms.exchange.direct import changed_dims, direct_way
from gspmd.transforms.exchange.halo import realignments
from gspmd.transforms.exchange.intervals import cheapest
from gspmd.transforms.exchange.sparse_gather import is_mostly_padding
from gspmd.transforms.ir.types import TensorType, element_bytes
from gspmd.transforms.machine.cost import ANYWHERE, Hardware, collective_time

# Among more devices than this, exchanges of one dimension without a block exchange are not planned.
MOST_DEVICES = 512
# The exchange of a dimension with more shards than this is not planned, but priced as a gather.
MOST_TILES = 4096


class Prices:
    """The prices of one tensor's moves.

    `form` is a sharding of the tensor, which says where manual axes are.
    """

    def __init__(self, type_: TensorType, form: TensorSharding, hardware: Hardware) -> None:
        self.shape = type_.shape
        self.form = form
        self.hardware = hardware
        self._element_bytes = element_bytes(type_.element)
        # A search asks for the same again and again.
        self._local: dict[Dims, float] = {}
        self._wire: dict[tuple[str, float, int, Axes], float] = {}

    def local_bytes(self, dims: Dims) -> float:
        """Bytes of the value that a device holds when it is split like this."""
        found = self._local.get(dims)
        if found is None:
            found = self._local[dims] = self._element_bytes * math.prod(local_shape(self.shape, dims))
        return found

    def bytes_of(self, elements: float) -> float:
        """Bytes of so many elements."""
        return self._element_bytes * elements

    def time(self, kind: str, before: Dims, after: Dims, devices: int, axes: Axes = ()) -> float:
        """Seconds for a collective over `axes`, or, without a kind, for what a device does alone."""
        held = self.local_bytes(before)
        memory = (held + self.local_bytes(after)) / self.hardware.memory_bytes_per_s
        if not kind:
            return memory
        key = kind, held, devices, axes
        wire = self._wire.get(key)
        if wire is None:
            wire = self._wire[key] = collective_time(kind, held, devices, self.hardware, axes, ANYWHERE)
        return memory + wire

    def gathering(self, before: Dims, after: Dims, axes: Axes) -> float:
        """Seconds to gather shards over `axes`."""
        if is_mostly_padding(self.shape, before, after):
            return self.time("all_reduce", after, after, size_of(axes), axes)
        return self.time("all_gather", before, after, size_of(axes), axes)

    def interleaving(self, gathered: Dims, goal: Dims) -> float:
        """Seconds to put gathered shards in order, where they do not follow each other in memory."""
        last = max((d for d, axes in enumerate(gathered) if axes), default=0)
        before = math.prod(local_shape(self.shape, goal)[:last])
        return 2 * self.local_bytes(goal) / self.hardware.memory_bytes_per_s if before > 1 else 0.0

    def realigning(self, source: int, target: int, dims: Dims, after: Dims) -> float:
        """Seconds to bring what an all-to-all leaves to the boundaries of even tiles.

        With more than `MOST_TILES` shards, these are the seconds to gather them.
        """
        sizes, counts = (self.shape[source], self.shape[target]), (size_of(dims[source]), size_of(dims[target]))
        axes = (*dims[source], *dims[target])
        if max(counts[0], size_of(after[target])) > MOST_TILES:
            ends = zip((source, target), sizes, strict=True)
            return sum(self._sending(size * self._others(after, dim), 1, axes) for dim, size in ends)
        exchanges = realignments(sizes, counts, size_of(after[target]) // counts[1])
        return sum(
            self._sending(way.sent * self._others(after, dim), way.messages, axes)
            for dim, way in zip((source, target), map(cheapest, exchanges), strict=True)
        )

    def directly(self, before: Dims, unreduced: Axes, after: Dims, most_s: float) -> tuple[float, float] | None:
        """Seconds for the direct exchange from one sharding to another, and the bytes that a device holds meanwhile.

        None if it takes `most_s` or more, or if there are too many devices and messages to plan it.
        """
        old, new = (tuple(map(canonical, dims)) for dims in (before, after))
        asked = self.form.mesh, self.shape, old, new, (*unreduced, *self.form.manual)
        alone_s, least = self.time("", before, after, 1), least_sent(*asked)
        changed = changed_dims(old, new)
        over = tuple(axis for dim in changed for axis in (*old[dim], *new[dim]))
        # Tiles of a dimension that is cut more or less finely go to neighbours; over other axes they go anywhere.
        is_near = all(starts_with(old[dim], new[dim]) or starts_with(new[dim], old[dim]) for dim in changed)
        reach = 1 if is_near and len(changed) == 1 else ANYWHERE
        if least is not None and alone_s + self._sending(least, 1, over, reach) >= most_s:
            return None
        if least is None and (len(changed) > 1 or size_of((*old[changed[0]], *new[changed[0]])) > MOST_DEVICES):
            return None
        way = direct_way(*asked)
        if way is None:
            return None
        if way.kind == "all_to_all":
            return self.time(way.kind, before, after, size_of(way.axes), way.axes), 0.0
        if way.messages > 1:  # each is put into its place
            alone_s += self._element_bytes * way.sent / self.hardware.memory_bytes_per_s
        return alone_s + self._sending(way.sent, way.messages, over, reach), way.gathered * self._element_bytes

    def _others(self, dims: Dims, dim: int) -> int:
        """Elements that a device holds of all dimensions but one."""
        return math.prod(n for d, n in enumerate(local_shape(self.shape, dims)) if d != dim)

    def _sending(self, elements: float, messages: int, axes: Axes, reach: int = 1) -> float:
        """Seconds to send so many elements to others along axes, in messages of which each is a collective."""
        sent = self._element_bytes * elements
        if not sent:
            return 0.0
        time_s = collective_time("collective_permute", sent, 2, self.hardware, axes, reach)
        return time_s + (messages - 1) * self.hardware.collective_latency_s
