"""Which partitions a collective of HLO joins: groups as lists, as iota or by axes of a mesh, and pairs of permutes.

Source: how XLA prints `CollectiveDeviceList`, `IotaReplicaGroupList` and `MeshAxesReplicaGroupList`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from gspmd.dialect.errors import InputError

_GROUPS = re.compile(r"replica_groups=(?P<list>\{[\d,{}]*\})|replica_groups=(?P<other>\S.*)")
_IOTA = re.compile(r"\[(?P<number>\d+),(?P<size>\d+)\]<=(?P<order>\[[\d,]+\](?:T\([\d,]+\))?)")
_MESH = re.compile(r"mesh\[(?P<axes>[^\]]*)\](?:, device_ids=\((?P<ids>[^{]*)\))? \{(?P<group>[^}]*)\}")
_AXIS = re.compile(r"'([^']*)'=(\d+)")
_AXIS_OF_GROUP = re.compile(r"'([^']*)'(?::\((\d+)\)(\d+))?")
_ORDER = re.compile(r"\[([\d,]+)\](?:T\(([\d,]+)\))?")
_PAIRS = re.compile(r"source_target_pairs=\{([\d,{}]*)\}")


def first_group(attributes: str, partitions: int) -> tuple[int, ...]:
    """The partitions of the first replica group of a collective; all `partitions` where none are named.

    Errors: InputError for groups in a form that is not known.
    """
    found = _GROUPS.search(attributes)
    if found is None or found["list"] == "{}":
        return tuple(range(partitions))
    if found["list"]:
        return _numbers(found["list"].lstrip("{").partition("}")[0])
    if iota := _IOTA.match(found["other"]):
        return _Order(iota["order"]).first(int(iota["size"]))
    if mesh := _MESH.match(found["other"]):
        return _of_mesh(mesh)
    raise InputError(f"cannot read the groups of a collective: '{found['other'][:80]}'")


def pairs(attributes: str) -> tuple[tuple[int, int], ...]:
    """The sources and targets of a permute."""
    found = _PAIRS.search(attributes)
    if not found:
        return ()
    return tuple((int(a), int(b)) for a, b in re.findall(r"\{(\d+),(\d+)\}", found[1]))


class _Order:
    """Iota over dimensions, transposed, or a list: `[8,16]T(1,0)`, `[8]`, `0,2,1,3`."""

    def __init__(self, text: str) -> None:
        found = _ORDER.fullmatch(text)
        self._listed = () if found else _numbers(text)
        self._dims = _numbers(found[1]) if found else ()
        self._permutation = (_numbers(found[2]) if found[2] else tuple(range(len(self._dims)))) if found else ()

    def __getitem__(self, position: int) -> int:
        if self._listed:
            return self._listed[position]
        index = [0] * len(self._dims)
        for dim in reversed(self._permutation):
            position, index[dim] = divmod(position, self._dims[dim])
        found = 0
        for size, i in zip(self._dims, index, strict=True):
            found = found * size + i
        return found

    def first(self, count: int) -> tuple[int, ...]:
        return tuple(self[position] for position in range(count))


def _of_mesh(mesh: re.Match[str]) -> tuple[int, ...]:
    """The group at the origin of a mesh's other axes."""
    sizes = {name: int(size) for name, size in _AXIS.findall(mesh["axes"])}
    strides, stride = {}, math.prod(sizes.values())
    for name, size in sizes.items():
        stride //= size
        strides[name] = stride
    parts = []
    for name, before, part in _AXIS_OF_GROUP.findall(mesh["group"]):
        # `before` is the product of the parts of the axis that are more major than this one.
        size, outer = (int(part), int(before)) if part else (sizes[name], 1)
        parts.append((size, strides[name] * (sizes[name] // (outer * size))))
    positions = tuple(_positions(parts))
    order = _Order(mesh["ids"]) if mesh["ids"] else None
    return tuple(order[position] for position in positions) if order else positions


def _positions(parts: list[tuple[int, int]]) -> Iterator[int]:
    """All sums of multiples: of each part `size` and `stride`, the first most major."""
    if not parts:
        yield 0
        return
    size, stride = parts[0]
    for index in range(size):
        yield from (index * stride + rest for rest in _positions(parts[1:]))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)
