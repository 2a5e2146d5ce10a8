"""What communication and memory traffic cost in time, per device.

Ring formulas: a collective over k devices sends (k - 1) / k of the gathered or scattered bytes over a
device's link, an all-reduce twice that. Units: bytes and seconds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gspmd.dialect.axes import Axes, Axis, canonical

ANYWHERE = 2**31
"""How far the messages of a permute go that gives shards to devices in another order."""


@dataclasses.dataclass(frozen=True, slots=True)
class AxisLinks:
    """Where a mesh axis, or a part of one, of `size` devices lies in the network.

    `line` numbers the physical line of devices (a dimension of a torus, or a switch) that it lies along; several axes
    may share one. `length` is the number of devices on that line, `stride` how many of them lie between neighbours
    along this axis. `bytes_per_s` is what one link (of a switch: one device) carries in one direction, and `latency_s`
    the time of a hop. `ring`: the line's ends are connected; `switch`: all its devices are one hop apart. `on_chip`:
    the devices share a chip and its links. `outside`: they are in `size` domains (slices, NVLink domains), and the
    network between these carries `bytes_per_s` a device.
    """

    size: int
    line: int
    length: int
    stride: int
    bytes_per_s: float
    latency_s: float
    ring: bool = False
    switch: bool = False
    on_chip: bool = False
    outside: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ScatterTiles:
    """Which reduce-scatters a compiler keeps; of any other it makes an all-reduce, which sends twice as much.

    The memory is tiled along the last two dimensions of a value. Along the last one, a device has to be left with a
    multiple of `last[element]` elements, and along the one before it with a multiple of `rows`. Reduce-scatters of
    elements that `last` does not have are never kept. A row of a tile has `lanes` elements.
    """

    last: Mapping[str, int]
    rows: int
    lanes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Hardware:
    """A device and its links. The defaults are of the order of a current accelerator, and all axes alike.

    `flops_by_element` has what is known of single element types; `axes` the links of the mesh's axes, by name, of each
    the most major part first (none: every collective goes over one link of `link_bytes_per_s`). `memory_bytes` is 0
    where unknown. `scatter_tiles` is None where compilers keep every reduce-scatter.
    """

    link_bytes_per_s: float = 1e11
    collective_latency_s: float = 1e-6
    memory_bytes_per_s: float = 1e12
    flops_per_s: float = 1e14
    name: str = "neutral"
    memory_bytes: float = 0.0
    flops_by_element: Mapping[str, float] = dataclasses.field(default_factory=dict)
    axes: Mapping[str, tuple[AxisLinks, ...]] = dataclasses.field(default_factory=dict)
    scatter_tiles: ScatterTiles | None = None

    @property
    def loop_bytes(self) -> float:
        """What a device may hold more of a value for a whole loop, moved before it once, than in each of its steps.

        That is a thousandth of its memory, or of 16 GiB where that is unknown: loops read many values.
        """
        return (self.memory_bytes or 2.0**34) / 2**10

    def flops_of(self, element: str) -> float:
        """Operations a second on elements of a type."""
        return self.flops_by_element.get(element, self.flops_per_s)


BYTES_FIRST = Hardware(collective_latency_s=3e-8, memory_bytes_per_s=3e12, name="bytes first")
"""What is chosen for where no target is named: another collective has to save the bytes that are sent in 30 ns.

Bytes are what a program sends everywhere. What a collective takes besides depends on the target, and where programs are
compiled several often become one, or run beside the arithmetic. Memory counts a third of what it takes on usual
devices, for the same reason.
"""


def sent_bytes(kind: str, local_bytes: float, devices: int) -> float:
    """Bytes a device sends in one collective; `local_bytes` is the size of its operand.

    What a device sends in a ragged all-to-all depends on the data: `local_bytes` is the most, and counts.
    """
    if kind == "all_gather":
        return local_bytes * (devices - 1)
    if kind == "all_reduce":
        return 2 * local_bytes * (devices - 1) / devices
    if kind in ("reduce_scatter", "all_to_all"):
        return local_bytes * (devices - 1) / devices
    if kind in ("collective_permute", "collective_broadcast", "ragged_all_to_all"):
        return local_bytes
    return 0.0


def collective_time(
    kind: str, local_bytes: float, devices: int, hardware: Hardware, axes: Axes = (), reach: int = 1
) -> float:
    """Seconds for one collective on an operand of `local_bytes` over groups of `devices`.

    `axes` are those it runs over; where they or their links are not known, it goes over one link. `reach` is how many
    positions of an axis a message of a permute goes at most: 1 in a shift to neighbours.
    """
    sent = sent_bytes(kind, local_bytes, devices)
    if not hardware.axes or not axes:
        return hardware.collective_latency_s + sent / hardware.link_bytes_per_s
    parts = [part for axis in axes for part in _parts(axis, hardware.axes[axis.name])]
    if kind in ("all_to_all", "ragged_all_to_all"):
        return _exchange_time(local_bytes, parts)
    if kind == "collective_permute":
        return _permute_time(local_bytes, parts, reach)
    return _ring_time(sent, parts)


def tiers(axes: Axes, hardware: Hardware) -> tuple[Axes, Axes]:
    """The parts of axes along which devices are in one domain, and those that lead from one domain to others.

    Where parts of axes are no products of these, or their links are not known, all of it counts as inside.
    """
    inside: list[Axis] = []
    outside: list[Axis] = []
    for axis in axes:
        end = 1
        for link in hardware.axes.get(axis.name, ()):
            begin, end = end, end * link.size
            low, high = max(begin, axis.pre), min(end, axis.end)
            if low < high:
                if high % low or low % axis.pre or axis.end % high:
                    return axes, ()
                (outside if link.outside else inside).append(Axis(axis.name, low, high // low))
    return canonical(inside), canonical(outside)


@dataclasses.dataclass(frozen=True, slots=True)
class _LineUse:
    """What a collective uses of one line of devices: `size` of them, `stride` links apart."""

    links: AxisLinks
    size: int
    stride: int

    @staticmethod
    def of(links: AxisLinks, size: int, step: int) -> _LineUse:
        """`size` devices of the links' axis, `step` positions along it apart."""
        return _LineUse(links, size, links.stride * step)

    @property
    def closed(self) -> bool:
        """Whether the devices form a ring."""
        return self.links.ring and self.size * self.stride == self.links.length

    @property
    def one_way_bytes_per_s(self) -> float:
        """What a device can send to one neighbour. Strided groups share the links between them."""
        return self.links.bytes_per_s / (1 if self.links.switch else self.stride)

    @property
    def bytes_per_s(self) -> float:
        """What a device can send: both ways, if the devices form a ring."""
        return (2 if self.closed else 1) * self.one_way_bytes_per_s

    @property
    def hops(self) -> int:
        if self.size == 1:
            return 0
        if self.links.switch:
            return 1
        return self.size // 2 if self.closed else self.size - 1

    def joined(self, other: _LineUse) -> _LineUse:
        """Two parts of one line as one."""
        return _LineUse(self.links, self.size * other.size, min(self.stride, other.stride))


def _parts(axis: Axis, links: Sequence[AxisLinks]) -> Iterator[_LineUse]:
    """What an axis, or a sub-axis, has of each part of the full axis."""
    before, first, last = 1, axis.pre, axis.pre * axis.size
    for link in links:
        after = before * link.size
        low, high = max(before, first), min(after, last)
        if low < high:
            yield _LineUse.of(link, -(-high // low), max(1, after // high))
        before = after


def _lines(parts: Iterable[_LineUse]) -> list[_LineUse]:
    """One part a line between the chips of a domain, of more than one device."""
    lines: dict[int, _LineUse] = {}
    for part in parts:
        if part.links.on_chip or part.links.outside:
            continue
        line = part.links.line
        lines[line] = lines[line].joined(part) if line in lines else part
    return [line for line in lines.values() if line.size > 1]


def _on_chip(parts: Iterable[_LineUse]) -> tuple[int, float]:
    """How many devices of a chip take part, and what one of them can send to the others."""
    found = [part for part in parts if part.links.on_chip]
    return math.prod(p.size for p in found), min((p.links.bytes_per_s for p in found), default=math.inf)


def _outside(parts: list[_LineUse]) -> tuple[int, int, float, float]:
    """Domains, devices in each, bytes a second of a device and latency of the network between them."""
    crossing = [part for part in parts if part.links.outside and part.size > 1]
    inside = math.prod(part.size for part in parts if not part.links.outside)
    rate = min((part.links.bytes_per_s for part in crossing), default=math.inf)
    latency_s = max((part.links.latency_s for part in crossing), default=0.0)
    return math.prod(part.size for part in crossing), inside, rate, latency_s


def _ring_time(sent: float, parts: list[_LineUse]) -> float:
    """Gathers and reductions use the links of all lines at once, and all devices of a domain the network outside."""
    domains, inside, outside, latency_s = _outside(parts)
    lines = _lines(parts)
    # What the devices of a chip gather crosses its links once, and they have these together.
    together, chip = _on_chip(parts)
    rate = sum(line.bytes_per_s for line in lines) * together or chip
    hops_s = sum(line.hops * line.links.latency_s for line in lines)
    return hops_s + (latency_s if domains > 1 else 0.0) + sent / min(rate, outside * inside)


def _exchange_time(local_bytes: float, parts: list[_LineUse]) -> float:
    """An all-to-all is limited by the links across the middle of a line."""
    domains, _, outside, latency_s = _outside(parts)
    lines = _lines(parts)
    slowest = local_bytes * max((1 - 1 / domains) / outside, 1 / _on_chip(parts)[1])
    for line in lines:
        crossing = line.size - 1 if line.links.switch else line.size**2 // 4
        slowest = max(slowest, local_bytes * crossing / line.size / line.bytes_per_s)
    hops_s = sum(line.hops * line.links.latency_s for line in lines)
    return hops_s + (latency_s if domains > 1 else 0.0) + slowest


def _permute_time(local_bytes: float, parts: list[_LineUse], reach: int) -> float:
    """Messages that go further cross more links, and as many of them cross each link, in one direction.

    It is never more than half of a line's devices send over one of its links: so many do where all shards of a line
    are for other lines, whose devices they all reach over that which lies at the crossing.
    """
    domains, _, outside, latency_s = _outside(parts)
    lines = _lines(parts)
    crossed = [1 if line.links.switch else max(1, min(reach, line.size // 2)) for line in lines]
    together = zip(crossed, lines, strict=True)
    slowest = max((n / line.one_way_bytes_per_s for n, line in together), default=1 / _on_chip(parts)[1])
    hop_s = max((n * line.links.latency_s for n, line in zip(crossed, lines, strict=True)), default=0.0)
    return max(hop_s, latency_s if domains > 1 else 0.0) + local_bytes * max(slowest, 1 / outside)
