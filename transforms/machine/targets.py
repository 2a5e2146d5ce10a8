"""The targets that are known by name, and their sources.

For TPUs the pages of Cloud TPU's documentation on each version, "TPU v3" to "TPU7x" (arithmetic, memory, size of a
pod; the bisection bandwidths that it states agree with the links to 15 %, which a test checks), and "How to Scale Your
Model" (jax-ml.github.io/scaling-book), chapter "How to Think About TPUs" (bytes a link carries in one direction, which
axes wrap around, DCN per chip, memory bandwidth of tpu7x); for GPUs NVIDIA's data sheets of A100 80GB SXM, H100 SXM and
H200 SXM, its technical brief on the Blackwell architecture for B200, and the page on GB200 NVL72, whose figures are of
72 GPUs (dense arithmetic, memory, NVLink, half of it in each direction). One InfiniBand port a GPU: 200 Gbit/s by the
data sheet of DGX A100, 400 by those of DGX H100, H200 and B200 (which also has the 180 GB of a B200) and the reference
architecture of DGX SuperPOD for GB200. Latencies are not published; 1 us a hop on a TPU follows the same book, the
others are of the usual order. Where JAX makes two devices of a chip, each has half of the chip's figures. f32 has the
rate of what JAX's default precision computes with: bf16 on TPUs, TF32 on GPUs. Clocks: the paper on TPU v4 (arXiv
2304.01433) for v3 and v4, the book for v5e and v5p, and what follows from the peak rate and the size and number of
matrix units for others.
Which reduce-scatters libtpu keeps was found by compiling with it, version 0.0.42 (docs/compile.md has the table).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from gspmd.dialect.axes import Axes, Axis, size_of
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.dialect.limits import MAX_TOPOLOGY_CHIPS
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.machine.cost import AxisLinks, Hardware, ScatterTiles, collective_time
from gspmd.transforms.machine.device_order import Order
from gspmd.transforms.machine.torus import Placement, Slot, Torus, best_placement

GIB = 2**30


@dataclasses.dataclass(frozen=True, slots=True)
class Network:
    """A network. `bytes_per_s` is that of one link (of a switch: one device) in one direction.

    A torus has `dims` dimensions, each of which wraps around where its length is a multiple of `wrap` (0: never); a
    switch has none.
    """

    bytes_per_s: float
    latency_s: float
    dims: int = 0
    wrap: int = 0

    def closes(self, length: int) -> bool:
        """Whether a dimension of so many chips is a ring."""
        return bool(self.dims and self.wrap) and length % self.wrap == 0


class Traffic(NamedTuple):
    """A collective that runs `runs` times on an operand of `bytes` per device.

    `reach` is how far the messages of a permute go along an axis.
    """

    kind: str
    bytes: float
    axes: Axes
    runs: int = 1
    reach: int = 1

    def time_s(self, hardware: Hardware) -> float:
        """The seconds of all runs."""
        return self.runs * collective_time(self.kind, self.bytes, size_of(self.axes), hardware, self.axes, self.reach)


class PlacedCommunication(Protocol):
    """Communication whose time depends on the placement of axes."""

    @property
    def axes(self) -> Axes: ...

    def time_s(self, hardware: Hardware) -> float:
        """The seconds of all runs, or a lower bound if it is not decided how it runs."""
        ...


def _joined(traffic: Iterable[Traffic]) -> list[Traffic]:
    """The traffic, merged by kind and axes.

    Bytes are averaged, since the time of a collective is linear in its bytes.
    """
    found: dict[tuple[str, Axes, int], tuple[int, float]] = {}
    for t in traffic:
        alike = t.kind, t.axes, t.reach
        runs, total = found.get(alike, (0, 0.0))
        found[alike] = runs + t.runs, total + t.runs * t.bytes
    return [
        Traffic(kind, total / runs, axes, runs, reach) for (kind, axes, reach), (runs, total) in found.items() if runs
    ]


_OUTSIDE = -(2**31)  # the line number of the network outside
_USUAL_BYTES = 2**26  # as in large models, where bandwidth matters and not latency


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A kind of device and its networks.

    `network` connects the devices of a domain (slice, NVLink domain) of `domain` devices, and `outside` connects
    domains; `axes` gives mesh axes networks of their own by name, instead of these. `chip_devices` is the number of
    devices per chip for compilers of a topology; `fused` says that the figures are those of all of them as one device.
    `clock_hz` is that of the matrix units, 0 if unknown. With a `torus`, the mesh is placed on it: by the `order` of
    its devices, as digits of their numbers, the most major first, or else so that the axes with the most traffic get
    the best links. `scatter_tiles` describes the reduce-scatters that its compiler keeps.
    """

    name: str
    flops: Mapping[str, float]
    memory_bytes: float
    memory_bytes_per_s: float
    network: Network
    domain: int = 0
    outside: Network | None = None
    axes: Mapping[str, Network] = dataclasses.field(default_factory=dict)
    chip_devices: int = 1
    fused: bool = False
    clock_hz: float = 0.0
    torus: Torus | None = None
    scatter_tiles: ScatterTiles | None = None
    order: Order = ()

    def on(self, dims: tuple[int, ...], slices: int = 1, order: Order = ()) -> Target:
        """The target with `slices` tori of these dimensions in chips, or switches of one dimension, and a device order.

        Errors: UsageError for a wrong number of dimensions, or too many chips.
        """
        expected = max(1, self.network.dims)
        if len(dims) != expected:
            shape = "x".join(["N"] * expected)
            raise UsageError(
                f"the topology of {self.name} has {shape}, got {'x'.join(map(str, dims))}", code=Code.UNKNOWN_TARGET
            )
        torus = Torus(dims, self.chip_devices, slices)
        if math.prod(dims) * slices > MAX_TOPOLOGY_CHIPS:
            raise UsageError(
                f"a topology of {torus.text} has {math.prod(dims) * slices} chips, "
                f"expected at most {MAX_TOPOLOGY_CHIPS}",
                hint="the largest pods have some 10,000",
                code=Code.LIMIT,
            )
        found = dataclasses.replace(self, name=f"{self.name}:{torus.text}", torus=torus, order=order)
        if not self.fused:
            return found
        part = 1 / self.chip_devices
        return dataclasses.replace(
            found,
            fused=False,
            flops={element: flops * part for element, flops in self.flops.items()},
            memory_bytes=self.memory_bytes * part,
            memory_bytes_per_s=self.memory_bytes_per_s * part,
            network=dataclasses.replace(self.network, bytes_per_s=self.network.bytes_per_s * part),
            outside=self.outside and dataclasses.replace(self.outside, bytes_per_s=self.outside.bytes_per_s * part),
        )

    def hardware(self, mesh: Mesh) -> Hardware:
        """The hardware for the axes of a mesh.

        Devices are assumed to be in the order of the mesh, with the last axis nearest. From the last to the first, each
        axis gets its own dimension of the torus; the remaining axes share the last dimension. Raises UsageError if the
        description has links for an axis that the mesh does not have.
        """
        for name in self.axes:
            if name not in dict(mesh.axes):
                known = ", ".join(f'"{axis}"' for axis, _ in mesh.axes) or "none"
                raise UsageError(
                    f"target '{self.name}' has links for axis \"{name}\", the mesh has {known}", code=Code.TOPOLOGY
                )
        if self.torus is not None:
            return self._hardware(self._torus_links(self.place(mesh)))
        return self._hardware(self._links(mesh))

    def place(
        self, mesh: Mesh, traffic: Iterable[Traffic] = (), others: Sequence[PlacedCommunication] = ()
    ) -> Placement:
        """The placement of the mesh on the torus: by its order, or else that with the least time for all traffic.

        The default traffic is a reduction over every axis.

        Errors: UsageError for a mesh that does not fit.
        """
        assert self.torus is not None, "only a torus has places"
        if self.order:
            from gspmd.transforms.machine.axis_slots import ordered_placement  # imports NumPy

            return ordered_placement(mesh, self.torus, self.order)
        usual = [Traffic("all_reduce", _USUAL_BYTES, (Axis(name, 1, size),)) for name, size in mesh.axes]
        joined = [*_joined(traffic), *others] or usual
        # The time of a collective depends on its own axes, which many placements share.
        known: list[dict[tuple[tuple[Slot, ...], ...], float]] = [{} for _ in joined]

        def seconds(placement: Placement) -> float:
            slots, hardware, total_s = dict(placement.slots), None, 0.0
            for t, alike in zip(joined, known, strict=True):
                at = tuple(slots[axis.name] for axis in t.axes)
                if at not in alike:
                    hardware = hardware or self.placed(placement)
                    alike[at] = t.time_s(hardware)
                total_s += alike[at]
            return total_s

        return best_placement(mesh, self.torus, seconds)

    def placed(self, placement: Placement) -> Hardware:
        """The hardware for the axes of a mesh with this placement."""
        return self._hardware(self._torus_links(placement))

    def _torus_links(self, placement: Placement) -> dict[str, tuple[AxisLinks, ...]]:
        return {
            name: tuple(self.torus_links(slot.dim, slot.size, slot.stride) for slot in slots)
            for name, slots in placement.slots
        }

    def torus_links(self, dim: int, size: int, stride: int) -> AxisLinks:
        """The links of `size` devices along dimension `dim` of the torus, `stride` apart."""
        assert self.torus is not None, "only a torus has dimensions"
        length, network = self.torus.lengths[dim], self.network
        match self.torus.letters[dim]:
            case "C":
                return AxisLinks(size, dim, 1, stride, self.memory_bytes_per_s, 0.0, on_chip=True)
            case "S":
                return self._outside_links(size, dim)
        ring, switch = network.closes(length), not network.dims
        return AxisLinks(size, dim, length, stride, network.bytes_per_s, network.latency_s, ring, switch)

    def _outside_links(self, domains: int, line: int) -> AxisLinks:
        """The links of one device in each of so many domains."""
        outside = self.outside or self.network
        return AxisLinks(domains, line, domains, 1, outside.bytes_per_s, outside.latency_s, outside=True)

    def _hardware(self, axes: Mapping[str, tuple[AxisLinks, ...]]) -> Hardware:
        rates = [link.bytes_per_s for links in axes.values() for link in links if not link.on_chip]
        slowest = min(rates, default=self.network.bytes_per_s)
        return Hardware(
            slowest,
            self.network.latency_s,
            self.memory_bytes_per_s,
            min(self.flops.values()),
            self.name,
            self.memory_bytes,
            self.flops,
            axes,
            self.scatter_tiles,
        )

    def _links(self, mesh: Mesh) -> dict[str, tuple[AxisLinks, ...]]:
        room = self.domain or mesh.size
        lengths: dict[int, int] = {}
        placed: list[tuple[str, int, int, int, int]] = []  # name, size, devices inside, line, stride
        for name, size in reversed(mesh.axes):
            inside = size if size <= room or name in self.axes else math.gcd(size, room)
            room = room // inside if inside == size else 1
            line = self._line(name, inside, lengths)
            placed.append((name, size, inside, line, lengths.get(line, 1)))
            lengths[line] = lengths.get(line, 1) * inside
        found = {}
        for name, size, inside, line, stride in placed:
            network = self.axes.get(name, self.network)
            ring, switch = network.closes(lengths[line]), not network.dims
            links = AxisLinks(inside, line, lengths[line], stride, network.bytes_per_s, network.latency_s, ring, switch)
            domains = (self._outside_links(size // inside, _OUTSIDE),) if inside < size else ()
            found[name] = (*domains, links)
        return found

    def _line(self, name: str, inside: int, lengths: Mapping[int, int]) -> int:
        """The line of an axis: a dimension of the torus, 0 for a switch, or its own number beyond these."""
        if name in self.axes:
            return -1 - list(self.axes).index(name)
        if inside == 1 or not self.network.dims:
            return 0
        used = sum(1 for line, length in lengths.items() if line >= 0 and length > 1)
        return min(used, self.network.dims - 1)


# test/machines/test_scatter_tiles.py compares with what libtpu does.
_TILES = ScatterTiles({"f32": 128, "bf16": 256}, 8, 128)


def _tpu(
    name: str,
    flops: Mapping[str, float],
    memory: tuple[float, float],
    network: Network,
    pod: int,
    dcn: float,
    clock_hz: float,
    chip_devices: int = 1,
    fused: bool = False,
    scatter_tiles: ScatterTiles | None = _TILES,
) -> Target:
    """`memory` is bytes and bytes per second; f32 matmuls use bf16 unless a higher precision is requested."""
    flops = {**flops, "f32": flops["bf16"]}
    outside = Network(dcn, 1e-5)
    return Target(name, flops, *memory, network, pod, outside, {}, chip_devices, fused, clock_hz, None, scatter_tiles)


def _gpu(
    name: str, flops: Mapping[str, float], memory: tuple[float, float], nvlink: float, domain: int, port: float
) -> Target:
    """`memory` is bytes and bytes per second, `nvlink` and `port` the bandwidth of a device inside and outside.

    Both 16-bit floats have one rate, and so have both f8 types.
    """
    alike = {"f16": "bf16", "f8E5M2": "f8E4M3FN"}
    flops = {**flops, **{element: flops[other] for element, other in alike.items() if other in flops}}
    return Target(name, flops, *memory, Network(nvlink, 3e-6), domain, Network(port, 1e-5))


_ICI_S = 1e-6
_HOPPER = {"f64": 67e12, "f32": 494e12, "bf16": 989e12, "f8E4M3FN": 1979e12, "i8": 1979e12}
_TARGETS = (
    _tpu("tpu-v3", {"bf16": 61.5e12}, (16 * GIB, 450e9), Network(50e9, _ICI_S, 2, 32), 2048, 3.125e9, 0.94e9, 2),
    _tpu(
        "tpu-v4",
        {"bf16": 275e12, "i8": 275e12},
        (32 * GIB, 1200e9),
        Network(45e9, _ICI_S, 3, 4),
        4096,
        6.25e9,
        1.05e9,
        2,
        True,
    ),
    _tpu("tpu-v5e", {"bf16": 197e12, "i8": 393e12}, (16e9, 819e9), Network(45e9, _ICI_S, 2, 16), 256, 3.125e9, 1.5e9),
    _tpu(
        "tpu-v5p", {"bf16": 459e12, "i8": 918e12}, (95 * GIB, 2765e9), Network(90e9, _ICI_S, 3, 4), 8960, 6.25e9, 1.75e9
    ),
    _tpu("tpu-v6e", {"bf16": 918e12, "i8": 1836e12}, (32e9, 1638e9), Network(90e9, _ICI_S, 2, 16), 256, 12.5e9, 1.75e9),
    _tpu(
        "tpu7x",
        {"bf16": 1153.5e12, "f8E4M3FN": 2307e12, "f8E5M2": 2307e12},
        (96 * GIB, 3700e9),
        Network(45e9, _ICI_S, 3, 4),
        18432,
        6.25e9,
        2.2e9,
        2,
        scatter_tiles=None,
    ),
    _gpu("a100", {"f64": 19.5e12, "f32": 156e12, "bf16": 312e12, "i8": 624e12}, (80e9, 2039e9), 300e9, 8, 25e9),
    _gpu("h100", _HOPPER, (80e9, 3350e9), 450e9, 8, 50e9),
    _gpu("h200", _HOPPER, (141e9, 4800e9), 450e9, 8, 50e9),
    _gpu(
        "b200",
        {"f64": 40e12, "f32": 1100e12, "bf16": 2250e12, "f8E4M3FN": 4500e12, "i8": 4500e12},
        (180e9, 8000e9),
        900e9,
        8,
        50e9,
    ),
    _gpu(
        "gb200",
        {"f64": 40e12, "f32": 1250e12, "bf16": 2500e12, "f8E4M3FN": 5000e12, "i8": 5000e12},
        (186e9, 8000e9),
        900e9,
        72,
        50e9,
    ),
)
TARGETS: Mapping[str, Target] = {target.name: target for target in _TARGETS}
MEGACORE = "-megacore"
TOPOLOGIES: Mapping[str, Target] = {
    **{t.name.removeprefix("tpu-"): t for t in _TARGETS if t.network.dims},
    **{
        t.name.removeprefix("tpu-") + MEGACORE: dataclasses.replace(t, chip_devices=1, fused=False)
        for t in _TARGETS
        if t.fused
    },
}
"""Targets for tori of any size, by their version in a name, such as `v5p` in `tpu:v5p:4x4x8`.

If compilers see several devices per chip, `-megacore` is the chip as one device.
"""
GPUS: Mapping[str, Target] = {t.name: t for t in _TARGETS if not t.network.dims}
"""Targets in domains, by their version in a name, such as `h100` in `gpu:h100:8*4`."""
NEUTRAL = "neutral"
