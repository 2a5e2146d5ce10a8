"""Random meshes and shardings, and what they mean, device by device, worked out the slow way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gspmd.dialect.axes import Axis, canonical
from gspmd.dialect.device_order import DeviceOrder, Iota
from gspmd.dialect.hlo_sharding import HloSharding, Named, Role, Tiled, TupleOf, Whole
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import DimSharding, TensorSharding

MAX_DEVICES = 24
ROLES = (Role.REPLICATED, Role.MANUAL, Role.UNREDUCED)


@st.composite
def factorings(draw: st.DrawFn, size: int, units: bool = True) -> tuple[int, ...]:
    """Ordered factors of a number; with `units` some of them may be 1."""
    factors: list[int] = []
    while size > 1:
        factor = draw(st.sampled_from([f for f in range(2, size + 1) if size % f == 0]))
        factors.append(factor)
        size //= factor
    if units:
        for _ in range(draw(st.integers(0, 2))):
            factors.insert(draw(st.integers(0, len(factors))), 1)
    return tuple(factors)


device_counts = st.integers(1, MAX_DEVICES)


@st.composite
def permutations(draw: st.DrawFn, count: int) -> tuple[int, ...]:
    return tuple(draw(st.permutations(range(count))))


@st.composite
def meshes(draw: st.DrawFn, count: int | None = None, ids: bool = True, names: Sequence[str] = "abcdefg") -> Mesh:
    """A mesh of up to 24 devices, some with axes of size 1, some with explicit device ids."""
    size = draw(device_counts) if count is None else count
    sizes = draw(factorings(size)) or (1,)
    order: tuple[int, ...] = ()
    if ids and draw(st.booleans()):
        order = draw(permutations(size)) if draw(st.booleans()) else expand(draw(iotas(size)))
    return Mesh(tuple(zip(names, sizes, strict=False)), order)


@st.composite
def axis_parts(draw: st.DrawFn, mesh: Mesh) -> list[Axis]:
    """Every axis of the mesh cut into parts, in random order."""
    parts = []
    for name, size in mesh.axes:
        pre = 1
        for factor in draw(factorings(size, units=False)):
            parts.append(Axis(name, pre, factor))
            pre *= factor
    return list(draw(st.permutations(parts)))


@st.composite
def tensor_shardings(
    draw: st.DrawFn,
    mesh: Mesh | None = None,
    rank: int | None = None,
    priorities: bool = True,
    roles: Sequence[str] = ("copies", "replicated", "unreduced", "manual"),
) -> TensorSharding:
    """A sharding with every feature: sub-axes, open dims, priorities, and axes of all roles."""
    mesh = draw(meshes()) if mesh is None else mesh
    rank = draw(st.integers(0, 3)) if rank is None else rank
    homes: dict[object, list[Axis]] = {home: [] for home in (*range(rank), *roles)}
    if not homes:
        homes["copies"] = []
    for part in draw(axis_parts(mesh)):
        homes[draw(st.sampled_from(list(homes)))].append(part)
    dims = []
    for dim in range(rank):
        axes, is_open = canonical(homes[dim]), draw(st.booleans())
        has_priority = priorities and (axes or is_open) and draw(st.booleans())
        dims.append(DimSharding(axes, is_open, draw(st.integers(0, 3)) if has_priority else None))
    lists = (canonical(mesh.sorted(tuple(homes.get(r, ())))) for r in ("replicated", "unreduced", "manual"))
    return TensorSharding(mesh, tuple(dims), *lists)


# ---- HLO shardings --------------------------------------------------------------------------------


@st.composite
def iotas(draw: st.DrawFn, count: int) -> Iota:
    dims = draw(factorings(count)) or (1,)
    return Iota(dims, draw(permutations(len(dims))))


@st.composite
def orders(draw: st.DrawFn, count: int) -> DeviceOrder:
    """An iota, the list of one, or any list."""
    kind = draw(st.sampled_from(("iota", "written", "any")))
    if kind == "any":
        return draw(permutations(count))
    iota = draw(iotas(count))
    return iota if kind == "iota" else expand(iota)


@st.composite
def tilings(
    draw: st.DrawFn, count: int | None = None, order: DeviceOrder | None = None, roles: Sequence[Role] = ROLES
) -> Tiled:
    count = draw(device_counts) if count is None else count
    dims = draw(factorings(count)) or (1,)
    subgroups = draw(st.lists(st.sampled_from(roles), max_size=len(dims))) if roles else []
    return Tiled(dims, draw(orders(count)) if order is None else order, tuple(subgroups))


@st.composite
def named_shardings(draw: st.DrawFn, count: int | None = None) -> Named:
    mesh = draw(meshes(count, ids=False))
    sharding = draw(tensor_shardings(mesh, priorities=False))
    return Named(sharding, draw(orders(mesh.size)))


@st.composite
def bodies(draw: st.DrawFn, count: int | None = None) -> Whole | Tiled | Named:
    return draw(
        st.one_of(st.sampled_from([Whole(r) for r in (*ROLES, Role.UNKNOWN)]), tilings(count), named_shardings(count))
    )


def leaves(sharding: HloSharding) -> tuple[HloSharding, ...]:
    return sharding.body.leaves if isinstance(sharding.body, TupleOf) else (sharding,)


# ---- what it means --------------------------------------------------------------------------------


def expand(order: DeviceOrder) -> tuple[int, ...]:
    """The ids of an order, by numpy."""
    if not isinstance(order, Iota):
        return order
    array = np.arange(math.prod(order.dims)).reshape(order.dims).transpose(order.perm)
    return tuple(int(i) for i in array.reshape(-1))


Placement = tuple[Any, ...]


def placement(tiled: Tiled) -> Placement:
    """What a tiling says: the shard on every device, and which devices have each role together.

    Over manual and unreduced subgroups the devices with equal index belong together, whatever the
    index is. One role and no division is that role alone.
    """
    rank, ids = tiled.rank, np.array(expand(tiled.order)).reshape(tiled.dims)
    shards: dict[int, tuple[int, ...]] = {}
    indices: dict[Role, dict[int, tuple[int, ...]]] = {Role.MANUAL: {}, Role.UNREDUCED: {}}
    for index in np.ndindex(*tiled.dims):
        device = int(ids[index])
        shards[device] = index[:rank]
        for role, of_device in indices.items():
            of_device[device] = tuple(
                i
                for i, r, n in zip(index[rank:], tiled.subgroups, tiled.dims[rank:], strict=True)
                if r is role and n > 1
            )
    groups = tuple(classes(of_device) for of_device in indices.values())
    sizes = {r: math.prod(n for n, s in zip(tiled.dims[rank:], tiled.subgroups, strict=True) if s is r) for r in ROLES}
    present = [role for role in ROLES if sizes[role] > 1]
    if len(ids.reshape(-1)) == 1:
        kinds = set(tiled.subgroups)
        return (kinds.pop() if len(kinds) == 1 else Role.REPLICATED,)
    if math.prod(tiled.dims[:rank]) == 1 and len(present) == 1:
        return (present[0],)
    return tiled.dims[:rank], tuple(sorted(shards.items())), groups


def classes(index_of: dict[int, tuple[int, ...]]) -> frozenset[frozenset[int]]:
    """The sets of devices with equal index."""
    members: dict[tuple[int, ...], set[int]] = {}
    for device, index in index_of.items():
        members.setdefault(index, set()).add(device)
    return frozenset(frozenset(m) for m in members.values())


def coordinates(mesh: Mesh, position: int) -> dict[str, int]:
    """The index along every axis of the device at a position."""
    sizes = [size for _, size in mesh.axes]
    digits = np.unravel_index(position, sizes) if sizes else ()
    return {name: int(digit) for (name, _), digit in zip(mesh.axes, digits, strict=True)}


def index_along(mesh: Mesh, axes: Sequence[Axis], position: int) -> int:
    """The index along a list of axis parts of the device at a position."""
    index, where = 0, coordinates(mesh, position)
    for axis in axes:
        full = mesh.axis_size(axis.name)
        _, digit, _ = np.unravel_index(where[axis.name], (axis.pre, axis.size, full // axis.end))
        index = index * axis.size + int(digit)
    return index


def device_at(mesh: Mesh, position: int) -> int:
    return mesh.device_ids[position] if mesh.device_ids else position
