"""The time of communication and memory traffic, per device.

Ring formulas: a collective over k devices sends (k - 1) / k of the gathered or scattered bytes over a
device's link, an all-reduce twice that. Units: bytes and seconds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gspmd.dialect.axes import Axes, Axis, canonical

ANYWHERE = 2**31
"""The reach of a permute to another device order."""


@dataclasses.dataclass(frozen=True, slots=True)
class AxisLinks:
    """The links of a mesh axis, or a part of one, of `size` devices.

    `line` numbers the physical line of devices (a dimension of a torus, or a switch); several axes may share one.
    `length` is the number of devices on that line, and `stride` the distance of neighbors along this axis.
    `bytes_per_s` is the bandwidth of one link (of a switch: one device) in one direction, and `latency_s` the time of a
    hop. `ring`: the ends of the line are connected; `switch`: all its devices are one hop apart. `on_chip`: the devices
    share a chip and its links. `outside`: they are in `size` domains (slices, NVLink domains), and the network between
    these carries `bytes_per_s` per device.
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
    """The reduce-scatters that a compiler keeps; it replaces any other by an all-reduce, which sends twice as much.

    The memory is tiled along the last two dimensions of a value. The result must have a multiple of `last[element]`
    elements along the last one, and a multiple of `rows` along the one before it. Reduce-scatters of element types not
    in `last` are never kept. A row of a tile has `lanes` elements.
    """

    last: Mapping[str, int]
    rows: int
    lanes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Hardware:
    """A device and its links. The defaults are those of a typical accelerator, with equal axes.

    `flops_by_element` has the known rates by element type; `axes` the links of mesh axes by name, the most major part
    first (none: every collective uses one link of `link_bytes_per_s`). `memory_bytes` is 0 if unknown. `scatter_tiles`
    is None if compilers keep every reduce-scatter.
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
        """The additional bytes of a value that a device may hold during a loop if it is resharded once before the loop.

        This is a thousandth of its memory, or of 16 GiB if unknown, since loops read many values.
        """
        return (self.memory_bytes or 2.0**34) / 2**10

    def flops_of(self, element: str) -> float:
        """Operations per second on elements of a type."""
        return self.flops_by_element.get(element, self.flops_per_s)


BESIDE_BYTES = 0.03
"""The weight of latencies, arithmetic and memory traffic without a target."""

_TYPICAL = Hardware()
BYTES_FIRST = Hardware(
    collective_latency_s=_TYPICAL.collective_latency_s * BESIDE_BYTES,
    memory_bytes_per_s=_TYPICAL.memory_bytes_per_s / BESIDE_BYTES,
    flops_per_s=_TYPICAL.flops_per_s / BESIDE_BYTES,
    name="bytes first",
)
"""The default target: an additional collective has to save the bytes that are sent in 30 ns.

Only bytes are independent of the target. The times of messages and arithmetic are unknown, and compilers often combine
collectives or hide them behind compute.
"""


def sent_bytes(kind: str, local_bytes: float, devices: int) -> float:
    """The bytes that a device sends in one collective; `local_bytes` is the size of its operand.

    The traffic of a ragged all-to-all depends on data: `local_bytes` is an upper bound.
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
    """Seconds of one collective on an operand of `local_bytes` over groups of `devices`.

    `axes` are its axes; if they or their links are unknown, it uses one link. `reach` is the largest distance of a
    permute's message along an axis: 1 for a shift to neighbors.
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


def fastest_collective(hardware: Hardware) -> tuple[float, float]:
    """Bounds for all collectives: the least latency in seconds, and the most bytes per second that reach a device."""
    links = [link for axis in hardware.axes.values() for link in axis if link.size > 1]
    chip = math.prod(link.size for link in links if link.on_chip)
    latency_s = [0.0 if link.on_chip else link.latency_s for link in links]
    rate = 2 * chip * sum(link.bytes_per_s for link in links)
    return min([hardware.collective_latency_s, *latency_s]), max(hardware.link_bytes_per_s, rate)


def tiers(axes: Axes, hardware: Hardware) -> tuple[Axes, Axes]:
    """The parts of axes inside a domain, and those between domains.

    Axes that are not products of these, or with unknown links, count as inside.
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
    """The part of a line that a collective uses: `size` devices, `stride` links apart."""

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
        """The bandwidth to one neighbor. Strided groups share the links between them."""
        return self.links.bytes_per_s / (1 if self.links.switch else self.stride)

    @property
    def bytes_per_s(self) -> float:
        """The bandwidth of a device: in both directions if the devices form a ring."""
        return (2 if self.closed else 1) * self.one_way_bytes_per_s

    @property
    def hops(self) -> int:
        if self.size == 1:
            return 0
        if self.links.switch:
            return 1
        return self.size // 2 if self.closed else self.size - 1

    def joined(self, other: _LineUse) -> _LineUse:
        """Merge two parts of one line."""
        return _LineUse(self.links, self.size * other.size, min(self.stride, other.stride))


def _parts(axis: Axis, links: Sequence[AxisLinks]) -> Iterator[_LineUse]:
    """The share of an axis or sub-axis in each part of the full axis."""
    before, first, last = 1, axis.pre, axis.pre * axis.size
    for link in links:
        after = before * link.size
        low, high = max(before, first), min(after, last)
        if low < high:
            yield _LineUse.of(link, -(-high // low), max(1, after // high))
        before = after


def _lines(parts: Iterable[_LineUse]) -> list[_LineUse]:
    """The used parts of lines between the chips of a domain, with more than one device."""
    lines: dict[int, _LineUse] = {}
    for part in parts:
        if part.links.on_chip or part.links.outside:
            continue
        line = part.links.line
        lines[line] = lines[line].joined(part) if line in lines else part
    return [line for line in lines.values() if line.size > 1]


def _on_chip(parts: Iterable[_LineUse]) -> tuple[int, float]:
    """The number of participating devices of a chip, and the bandwidth between them."""
    found = [part for part in parts if part.links.on_chip]
    return math.prod(p.size for p in found), min((p.links.bytes_per_s for p in found), default=math.inf)


def _outside(parts: list[_LineUse]) -> tuple[int, int, float, float]:
    """The domains, devices in each, and bandwidth per device and latency of the network between them."""
    crossing = [part for part in parts if part.links.outside and part.size > 1]
    inside = math.prod(part.size for part in parts if not part.links.outside)
    rate = min((part.links.bytes_per_s for part in crossing), default=math.inf)
    latency_s = max((part.links.latency_s for part in crossing), default=0.0)
    return math.prod(part.size for part in crossing), inside, rate, latency_s


def _ring_time(sent: float, parts: list[_LineUse]) -> float:
    """Gathers and reductions use the links of all lines, and the network outside from all devices of a domain."""
    domains, inside, outside, latency_s = _outside(parts)
    lines = _lines(parts)
    # Data gathered by the devices of a chip crosses its links once, and they share these.
    together, chip = _on_chip(parts)
    rate = sum(line.bytes_per_s for line in lines) * together or chip
    hops_s = sum(line.hops * line.links.latency_s for line in lines)
    return hops_s + (latency_s if domains > 1 else 0.0) + sent / min(rate, outside * inside)


def _exchange_time(local_bytes: float, parts: list[_LineUse]) -> float:
    """An all-to-all is limited by the bisection of a line."""
    domains, _, outside, latency_s = _outside(parts)
    lines = _lines(parts)
    slowest = local_bytes * max((1 - 1 / domains) / outside, 1 / _on_chip(parts)[1])
    for line in lines:
        crossing = line.size - 1 if line.links.switch else line.size**2 // 4
        slowest = max(slowest, local_bytes * crossing / line.size / line.bytes_per_s)
    hops_s = sum(line.hops * line.links.latency_s for line in lines)
    return hops_s + (latency_s if domains > 1 else 0.0) + slowest


def _permute_time(local_bytes: float, parts: list[_LineUse], reach: int) -> float:
    """Seconds of a permute: a message over distance n crosses n links, and a link carries n messages in one direction.

    At most half of a line's devices send over one of its links. This occurs if all shards of a line go to other lines
    through the device at the crossing.
    """
    domains, _, outside, latency_s = _outside(parts)
    lines = _lines(parts)
    crossed = [1 if line.links.switch else max(1, min(reach, line.size // 2)) for line in lines]
    together = zip(crossed, lines, strict=True)
    slowest = max((n / line.one_way_bytes_per_s for n, line in together), default=1 / _on_chip(parts)[1])
    hop_s = max((n * line.links.latency_s for n, line in zip(crossed, lines, strict=True)), default=0.0)
    return max(hop_s, latency_s if domains > 1 else 0.0) + local_bytes * max(slowest, 1 / outside)
