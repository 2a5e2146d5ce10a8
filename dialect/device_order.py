"""Orders of all devices, and their factoring into parts of the whole.

An order is either a list of ids or an `Iota`: the numbers 0..n-1 reshaped, transposed, and read row-major, which is
listed only on request. Because a reshape factors n and a transpose orders the factors, an `Iota` is a list of parts
(`Axis`) of one axis that holds all devices: the part `(pre)size` of a device id d is `d // (n / (pre * size)) % size`.
The algebra of `axes` applies to these lists as to any other, and equal orders have equal canonical lists.

Source: the tile assignments of XLA's sharding notation, version 2 (`<=[4,2]T(1,0)`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

from gspmd.dialect.axes import Axes, Axis, canonical, size_of, take
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, Unsupported
from gspmd.dialect.limits import MAX_LISTED_DEVICES

ALL = "devices"  # the axis of all devices


@dataclasses.dataclass(frozen=True, slots=True)
class Iota:
    """The devices `transpose(reshape(0..n-1, dims), perm)`, row-major, in canonical form.

    Canonical: no dimension of size 1 (except `[1]` for one device), and dimensions that stay adjacent under `perm` are
    merged. Errors: AnnotationError for sizes below 1 or a `perm` that is not a permutation.
    """

    dims: tuple[int, ...]
    perm: tuple[int, ...]

    def __post_init__(self) -> None:
        for size in self.dims:
            if size < 1:
                raise AnnotationError(
                    f"device order is reshaped to {list(self.dims)}; sizes must be at least 1", code=Code.DEVICE_LIST
                )
        if sorted(self.perm) != list(range(len(self.dims))):
            raise AnnotationError(
                f"device order is transposed by {list(self.perm)}; expected a permutation of 0..{len(self.dims) - 1}",
                code=Code.DEVICE_LIST,
            )
        starts = [math.prod(self.dims[:i]) for i in range(len(self.dims))]
        parts = canonical(Axis(ALL, starts[dim], self.dims[dim]) for dim in self.perm)
        ascending = sorted(parts)
        object.__setattr__(self, "dims", tuple(part.size for part in ascending) or (1,))
        object.__setattr__(self, "perm", tuple(ascending.index(part) for part in parts) or (0,))

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(self.dims)

    @property
    def is_identity(self) -> bool:
        """Whether this is 0, 1, 2, ..."""
        return len(self.dims) == 1

    def parts(self) -> Axes:
        """The parts of the axis of all devices in this order, first most major; none for one device."""
        starts = [math.prod(self.dims[:i]) for i in range(len(self.dims))]
        return canonical(Axis(ALL, starts[dim], self.dims[dim]) for dim in self.perm)

    def position(self, device: int) -> int:
        """The position of the device in the order."""
        position = 0
        for part in self.parts():
            position = position * part.size + device // (self.size // part.end) % part.size
        return position

    def expand(self) -> tuple[int, ...]:
        """The ids as a list. Raises Unsupported for too many to list."""
        check_listed(self.size)
        ids = [0]
        for part in self.parts():
            stride = self.size // part.end
            ids = [first + step * stride for first in ids for step in range(part.size)]
        return tuple(ids)


DeviceOrder = Iota | tuple[int, ...]


def identity(count: int) -> Iota:
    """0, 1, 2, ..."""
    return Iota((count,), (0,))


def from_parts(parts: Iterable[Axis]) -> Iota:
    """The order with these parts, which cover the axis of all devices once."""
    parts = tuple(parts)
    ascending = sorted(parts)
    return Iota(tuple(part.size for part in ascending), tuple(ascending.index(part) for part in parts))


def check_listed(count: int) -> None:
    """Raise Unsupported if so many devices would have to be listed."""
    if count > MAX_LISTED_DEVICES:
        raise Unsupported(
            f"needs a list of {count} devices, expected at most {MAX_LISTED_DEVICES}",
            hint="use fewer devices, or shardings in the order of the mesh",
            code=Code.LIMIT,
        )


def check_ids(ids: tuple[int, ...]) -> None:
    """Raise AnnotationError unless the ids are each of 0..n-1 once."""
    seen: set[int] = set()
    for device in ids:
        if not 0 <= device < len(ids):
            raise AnnotationError(
                f"device {device} is out of range; expected the devices 0..{len(ids) - 1}", code=Code.DEVICE_LIST
            )
        if device in seen:
            missing = min(set(range(len(ids))) - set(ids))
            raise AnnotationError(
                f"device {device} is listed twice and device {missing} is missing", code=Code.DEVICE_LIST
            )
        seen.add(device)


def expand(order: DeviceOrder) -> tuple[int, ...]:
    """The ids as a list."""
    return order.expand() if isinstance(order, Iota) else order


def size(order: DeviceOrder) -> int:
    """The number of devices."""
    return order.size if isinstance(order, Iota) else len(order)


def position(order: DeviceOrder, device: int) -> int:
    """The position of the device in the order."""
    return order.position(device) if isinstance(order, Iota) else order.index(device)


def compact(order: DeviceOrder) -> DeviceOrder:
    """The order as an `Iota`, if it is one."""
    if isinstance(order, Iota):
        return order
    count, block, parts = len(order), 1, []
    while block < count:
        stride = order[block] - order[0]
        length = 1
        while length * block < count and order[length * block] == order[0] + length * stride:
            length += 1
        if stride < 1 or count % (stride * length) or count % (block * length):
            return order
        parts.append(Axis(ALL, count // (stride * length), length))
        block *= length
    product = 1
    for part in sorted(parts):
        if part.pre != product:
            return order
        product = part.end
    found = from_parts(reversed(parts))
    return found if found.expand() == order else order


def inverse(order: DeviceOrder) -> DeviceOrder:
    """The inverse order: `inverse(order)[order[i]] == i`."""
    if isinstance(order, Iota):
        place = tuple(order.perm.index(dim) for dim in range(len(order.perm)))
        return Iota(tuple(order.dims[dim] for dim in order.perm), place)
    positions = [0] * len(order)
    for index, device in enumerate(order):
        positions[device] = index
    return tuple(positions)


def compose(outer: DeviceOrder, inner: DeviceOrder) -> DeviceOrder:
    """The order that lists `outer[i]` for every i of `inner`; an `Iota` if it is one."""
    if isinstance(outer, Iota) and isinstance(inner, Iota):
        parts = regroup(inner.parts(), outer.parts())
        if parts is not None:
            return from_parts(parts)
    table = expand(outer)
    return compact(tuple(table[i] for i in expand(inner)))


def regroup(parts: Iterable[Axis], axes: Sequence[Axis]) -> Axes | None:
    """Rewrite parts of the whole as parts of `axes`, which side by side make up the whole.

    The whole is the product of `axes`, first most major, so each axis stands for one part of it. None
    when a part begins or ends where no sub-axis can, as 3 of 6 does on axes of sizes 2 and 3.
    """
    result: list[Axis] = []
    for part in parts:
        start, before = part.pre, 1
        for axis in axes:
            after = before * axis.size
            if start < after and before < part.end:
                end = min(part.end, after)
                if start % before or end % start or after % end:
                    return None
                result.append(Axis(axis.name, axis.pre * (start // before), end // start))
                start = end
            before = after
        if start != part.end:
            return None
    return canonical(result)


def split(order: DeviceOrder, dims: Sequence[int]) -> tuple[Axes, ...] | None:
    """The parts that each of `dims` consists of when the order is shaped so, or None if they do not nest."""
    order = compact(order)
    if not isinstance(order, Iota):
        return None
    lists, rest = [], order.parts()
    for dim in dims:
        taken, rest = take(rest, dim)
        if size_of(taken) != dim:
            return None
        lists.append(taken)
    return tuple(lists)
