"""Hardware that programs are priced for: known devices, and descriptions in TOML files.

Sources of the figures: for TPUs the pages of Cloud TPU's documentation on each version (arithmetic, memory, size of a
pod), and "How to Scale Your Model", chapter "How to Think About TPUs" (bytes a link carries in one direction, which
axes wrap around, DCN per chip, memory bandwidth of tpu7x); for GPUs NVIDIA's data sheets of A100 80GB SXM and H100 SXM
(dense arithmetic, memory, NVLink, half of it in each direction) and of DGX A100 and DGX H100 (one InfiniBand port a
GPU, 200 and 400 Gbit/s). Latencies are not published; 1 us a hop on a TPU follows the same book, the others are of the
usual order. Where JAX makes two devices of a chip (TPU v3, tpu7x), each has half of the chip's figures.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from gspmd.dialect.errors import UsageError
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.support.cost import AxisLinks, Hardware

GIB = 2**30


@dataclasses.dataclass(frozen=True, slots=True)
class Network:
    """What connects devices. `bytes_per_s` is of one link (of a switch: one device) in one direction.

    A torus has `dims` dimensions, each of which wraps around where its length is a multiple of `wrap` (0: never); a
    switch has none.
    """

    bytes_per_s: float
    latency_s: float
    dims: int = 0
    wrap: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A kind of device and its networks: `network` inside a domain (slice, NVLink domain) of `domain` devices,

    `outside` between domains; `axes` are networks of mesh axes by name, one line each, instead of these.
    """

    name: str
    flops: Mapping[str, float]
    memory_bytes: float
    memory_bytes_per_s: float
    network: Network
    domain: int = 0
    outside: Network | None = None
    axes: Mapping[str, Network] = dataclasses.field(default_factory=dict)

    def hardware(self, mesh: Mesh) -> Hardware:
        """The target as the axes of a mesh use it.

        Devices are taken to lie in the mesh's order: the last axis in the nearest devices. From the last to the first,
        each axis gets a dimension of the torus of its own; those that are left share the last dimension.
        Raises UsageError when the description has links for an axis that the mesh does not have.
        """
        for name in self.axes:
            if name not in dict(mesh.axes):
                known = ", ".join(f'"{axis}"' for axis, _ in mesh.axes) or "none"
                raise UsageError(f"target '{self.name}' has links for axis \"{name}\", the mesh has {known}")
        links = self._links(mesh)
        slowest = min((link.bytes_per_s for link in links.values()), default=self.network.bytes_per_s)
        return Hardware(
            slowest,
            self.network.latency_s,
            self.memory_bytes_per_s,
            min(self.flops.values()),
            self.name,
            self.memory_bytes,
            self.flops,
            links,
        )

    def _links(self, mesh: Mesh) -> dict[str, AxisLinks]:
        room = self.domain or mesh.size
        lengths: dict[int, int] = {}
        placed: list[tuple[str, int, int, int, int]] = []  # name, size, devices inside, line, stride
        for name, size in reversed(mesh.axes):
            inside = size if size <= room or name in self.axes else math.gcd(size, room)
            room = room // inside if inside == size else 1
            line = self._line(name, inside, lengths)
            placed.append((name, size, inside, line, lengths.get(line, 1)))
            lengths[line] = lengths.get(line, 1) * inside
        outside = self.outside or self.network
        found = {}
        for name, size, inside, line, stride in placed:
            network = self.axes.get(name, self.network)
            ring = bool(network.dims and network.wrap and lengths[line] % network.wrap == 0)
            found[name] = AxisLinks(
                size,
                line,
                lengths[line],
                stride,
                network.bytes_per_s,
                network.latency_s,
                ring,
                not network.dims,
                inside,
                outside.bytes_per_s,
                outside.latency_s,
            )
        return found

    def _line(self, name: str, inside: int, lengths: Mapping[int, int]) -> int:
        """The line an axis lies along: a dimension of the torus, 0 for a switch, beyond these what is its own."""
        if name in self.axes:
            return -1 - list(self.axes).index(name)
        if inside == 1 or not self.network.dims:
            return 0
        used = sum(1 for line, length in lengths.items() if line >= 0 and length > 1)
        return min(used, self.network.dims - 1)


def _tpu(
    name: str, flops: Mapping[str, float], memory: tuple[float, float], network: Network, pod: int, dcn: float
) -> Target:
    """`memory` is bytes and bytes a second; products of f32 are made of bf16 unless higher precision is asked for."""
    return Target(name, {**flops, "f32": flops["bf16"]}, *memory, network, pod, Network(dcn, 1e-5))


_ICI_S = 1e-6
_TARGETS = (
    _tpu("tpu-v3", {"bf16": 61.5e12}, (16 * GIB, 450e9), Network(50e9, _ICI_S, 2, 32), 2048, 3.125e9),
    _tpu("tpu-v4", {"bf16": 275e12, "i8": 275e12}, (32 * GIB, 1200e9), Network(45e9, _ICI_S, 3, 4), 4096, 6.25e9),
    _tpu("tpu-v5e", {"bf16": 197e12, "i8": 393e12}, (16e9, 819e9), Network(45e9, _ICI_S, 2, 16), 256, 3.125e9),
    _tpu("tpu-v5p", {"bf16": 459e12, "i8": 918e12}, (95 * GIB, 2765e9), Network(90e9, _ICI_S, 3, 4), 8960, 6.25e9),
    _tpu("tpu-v6e", {"bf16": 918e12, "i8": 1836e12}, (32e9, 1638e9), Network(90e9, _ICI_S, 2, 16), 256, 12.5e9),
    _tpu(
        "tpu7x",
        {"bf16": 1153.5e12, "f8E4M3FN": 2307e12, "f8E5M2": 2307e12},
        (96 * GIB, 3700e9),
        Network(45e9, _ICI_S, 3, 4),
        18432,
        6.25e9,
    ),
    Target(
        "a100",
        {"bf16": 312e12, "f16": 312e12, "f32": 156e12, "f64": 19.5e12, "i8": 624e12},
        80e9,
        2039e9,
        Network(300e9, 3e-6),
        8,
        Network(25e9, 1e-5),
    ),
    Target(
        "h100",
        {
            "bf16": 989e12,
            "f16": 989e12,
            "f8E4M3FN": 1979e12,
            "f8E5M2": 1979e12,
            "f32": 494e12,
            "f64": 67e12,
            "i8": 1979e12,
        },
        80e9,
        3350e9,
        Network(450e9, 3e-6),
        8,
        Network(50e9, 1e-5),
    ),
)
TARGETS: Mapping[str, Target] = {target.name: target for target in _TARGETS}
NEUTRAL = "neutral"
