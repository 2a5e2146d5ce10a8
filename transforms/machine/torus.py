"""Placements of a mesh on a torus of chips, such that the axes with the most traffic get the best links.

Nothing here loops over devices.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import UsageError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.primes import divisors

MAX_PLACEMENTS = 4096


class Slot(NamedTuple):
    """A part of a mesh axis: `size` positions along dimension `dim` of a `Torus`, `stride` apart."""

    dim: int
    size: int
    stride: int


@dataclasses.dataclass(frozen=True, slots=True)
class Torus:
    """The chips in each dimension; the devices on each chip, and the tori, are two further dimensions.

    A switch is a torus of one dimension. Another network connects tori (slices, NVLink domains).
    """

    dims: tuple[int, ...]
    cores: int = 1
    slices: int = 1

    @property
    def devices(self) -> int:
        return math.prod(self.lengths)

    @property
    def lengths(self) -> tuple[int, ...]:
        return (*self.dims, self.cores, self.slices)

    @property
    def letters(self) -> str:
        """The names of dimensions, in the order of `lengths`."""
        return "XYZ"[: len(self.dims)] + "CS"

    @property
    def text(self) -> str:
        """The text in the name of a target: `4x4x8`, or `4x4x8*2` for two slices."""
        return "x".join(map(str, self.dims)) + (f"*{self.slices}" if self.slices > 1 else "")

    def box(self, devices: int) -> Torus:
        """A part with so many devices, in as few slices and as close to a whole torus as possible.

        Errors: UsageError if no part has that number.
        """
        if devices == self.devices:
            return self
        options = [
            Torus(dims, cores, slices)
            for slices in divisors(devices)
            if slices <= self.slices
            for cores in divisors(self.cores)
            for dims in itertools.product(*([d for d in divisors(devices // slices) if d <= n] for n in self.dims))
            if math.prod(dims) * cores * slices == devices
        ]
        if not options:
            raise UsageError(
                f"a mesh of {devices} devices does not fit a topology of {self.text} with {self.devices} devices",
                hint="choose a topology with as many devices as the mesh",
                code=Code.TOPOLOGY,
            )
        return max(options, key=self._nearness)

    def _nearness(self, part: Torus) -> tuple[int, int, int, tuple[int, ...]]:
        whole = sum(a == b for a, b in zip(part.dims, self.dims, strict=True))
        return -part.slices, part.cores, whole, part.dims


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """A placement of mesh axes: for each axis its slots, the most major first."""

    torus: Torus
    slots: tuple[tuple[str, tuple[Slot, ...]], ...]

    def coordinates(self, position: int) -> tuple[int, ...]:
        """The torus coordinates of a position of the mesh (row-major over its axes)."""
        found = [0] * len(self.torus.lengths)
        for _, slots in reversed(self.slots):
            for slot in reversed(slots):
                position, index = divmod(position, slot.size)
                found[slot.dim] += index * slot.stride
        return tuple(found)

    def describe(self, name: str) -> str:
        """The placement of an axis as text: `dimension 0 (8 of 8)`."""
        parts = []
        for slot in dict(self.slots)[name]:
            letter, length = self.torus.letters[slot.dim], self.torus.lengths[slot.dim]
            is_switch = len(self.torus.dims) == 1
            if letter == "C":
                parts.append(f"{slot.size} devices of a chip")
            elif letter == "S":
                parts.append(f"{slot.size} {'domains' if is_switch else 'slices'}")
            elif is_switch:
                parts.append(f"{slot.size} of {length} devices of a domain")
            else:
                apart = f", {slot.stride} apart" if slot.stride > 1 else ""
                parts.append(f"{letter} ({slot.size} of {length} chips{apart})")
        return ", ".join(parts) or "one device"


def best_placement(mesh: Mesh, torus: Torus, seconds: Callable[[Placement], float]) -> Placement:
    """The placement with the least `seconds`, with few slots among equals; the torus may be larger than the mesh.

    Errors: UsageError if the mesh does not fit.
    """

    def key(placement: Placement) -> tuple[float, int]:
        return float(f"{seconds(placement):.9g}"), sum(len(slots) for _, slots in placement.slots)

    found = min(placements(mesh, torus.box(mesh.size)), key=key, default=None)
    if found is None:
        axes = ", ".join(f"{name}={size}" for name, size in mesh.axes)
        raise UsageError(
            f"a mesh of {axes} does not fit the dimensions of a topology of {torus.text}",
            hint="choose axes that are products of parts of the topology's dimensions",
            code=Code.TOPOLOGY,
        )
    return found


@functools.lru_cache(maxsize=256)
def placements(mesh: Mesh, torus: Torus) -> tuple[Placement, ...]:
    """All placements of the axes along the dimensions; earlier axes get nearer devices."""
    names = [name for name, _ in mesh.axes]
    found: dict[Placement, None] = {}
    for order in itertools.permutations(range(len(names))):
        sizes = [mesh.axes[i][1] for i in order]
        for taken in _fillings(tuple(sizes), torus.lengths, (1,) * len(torus.lengths)):
            by_axis = dict(zip(order, taken, strict=True))
            found[Placement(torus, tuple((names[i], by_axis[i]) for i in range(len(names))))] = None
            if len(found) >= MAX_PLACEMENTS:
                return tuple(found)
    return tuple(found)


def _fillings(
    sizes: tuple[int, ...], left: tuple[int, ...], strides: tuple[int, ...]
) -> Iterator[tuple[tuple[Slot, ...], ...]]:
    if not sizes:
        yield ()
        return
    for parts in itertools.product(*map(divisors, left)):
        if math.prod(parts) != sizes[0]:
            continue
        outermost = (len(parts) - 1, *range(len(parts) - 1))  # neighbors are in one slice
        slots = tuple(Slot(dim, parts[dim], strides[dim]) for dim in outermost if parts[dim] > 1)
        rest = tuple(n // part for n, part in zip(left, parts, strict=True))
        steps = tuple(s * part for s, part in zip(strides, parts, strict=True))
        for others in _fillings(sizes[1:], rest, steps):
            yield (slots, *others)
