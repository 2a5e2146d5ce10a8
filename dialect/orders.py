"""Annotations that were written over several orders of the devices, brought onto one mesh.

Which device holds which shard shows only where a value enters or leaves a program. Inside, a sharding says how a value
is divided, and all that counts is that shards which meet are on one device. So where orders do not factor over one
mesh, the program has an order of its own, and what is written over another is read with its devices renamed: the
device at a position there is the one at that position here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from gspmd.dialect import device_order
from gspmd.dialect.common_mesh import cut_mesh, find_mesh, fits, order_of, tiling_of, translated, without_unit_axes
from gspmd.dialect.device_order import DeviceOrder, Iota
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.hlo_convert import cuts_of, mesh_of
from gspmd.dialect.hlo_sharding import HloSharding, Named, Tiled
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import DimSharding, TensorSharding


@dataclasses.dataclass(frozen=True, slots=True)
class AnnotationOrder:
    """What annotations are written over: the tiling of a mesh, with its axes and the cuts of these, or one tiling.

    `bytes` are those of the arguments and results that are placed so.
    """

    tiling: Tiled
    mesh: Mesh | None = None
    cuts: tuple[Tiled, ...] = ()
    bytes: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Orders:
    """The program's `mesh`, and for every tiling that was written the device at each position of that mesh."""

    mesh: Mesh
    _orders: Mapping[Tiled, DeviceOrder]

    def of(self, tiling: Tiled) -> DeviceOrder:
        """The order that a tiling, or that of a mesh, was written over."""
        return self._orders[tiling]

    def renamed_mesh(self, mesh: Mesh) -> Mesh:
        """The mesh of the same axes, over the program's devices."""
        return renamed(mesh, self.of(tiling_of(mesh)), self.mesh)

    def renamed(self, sharding: HloSharding) -> HloSharding:
        """The sharding over the program's devices; one that names no devices as it is."""
        key = tiling_written(sharding)
        if key is None:
            return sharding
        renaming = _renaming(self.of(key), self.mesh)
        match sharding.body:
            case Tiled() as tiled:
                return dataclasses.replace(sharding, body=_renamed(tiled, renaming))
            case Named(order=order) as named:
                body = dataclasses.replace(named, order=device_order.compose(renaming, order))
                return dataclasses.replace(sharding, body=body)
        raise AssertionError("only these name devices")


def tiling_written(sharding: HloSharding) -> Tiled | None:
    """What `Orders` knows a sharding of one value by; None for one that names no devices."""
    match sharding.body:
        case Tiled() as tiled:
            return tiled
        case Named() as named if named.sharding.mesh.axes:
            return tiling_of(mesh_of(named))
    return None


def written_by(sharding: HloSharding) -> AnnotationOrder | None:
    """What a sharding of one value is written over; None for one that names no devices."""
    tiling = tiling_written(sharding)
    if tiling is None:
        return None
    if isinstance(sharding.body, Named):
        return AnnotationOrder(tiling, mesh_of(sharding.body), (cuts_of(sharding.body),))
    return AnnotationOrder(tiling)


def choose_orders(written: Iterable[AnnotationOrder], num_devices: int, whole: Collection[Mesh] = ()) -> Orders:
    """The order in which most bytes enter and leave, with a mesh on which everything fits, renamed to that order.

    What factors together shares an order; between equals the first is taken. The axes of the meshes `whole` become axes
    of the common one, not parts of these, where cuts allow it.
    """
    groups: list[tuple[list[AnnotationOrder], Mesh]] = []
    for one in sorted(written, key=lambda w: -w.bytes):
        for index, (members, _) in enumerate(groups):
            found = _common_mesh([*members, one], num_devices)
            if found is not None:
                groups[index] = ([*members, one], found)
                break
        else:
            alone = _common_mesh([one], num_devices)
            assert alone is not None, "a tiling fits on a mesh in its own order"
            groups.append(([one], alone))
    base = max(groups, key=lambda group: sum(member.bytes for member in group[0]))[1]
    orders: dict[Tiled, DeviceOrder] = {}
    moved: list[Tiled] = []
    for members, mesh in groups:
        order = order_of(base) if mesh is base else _aligned(mesh, base)
        renaming = _renaming(order, base)
        for member in members:
            orders[member.tiling] = order
            moved += [_renamed(tiling, renaming) for tiling in (member.tiling, *member.cuts)]
    given = {without_unit_axes(one.mesh) for members, _ in groups for one in members if one.mesh is not None}
    does = base in given and all(fits(base, tiling) for tiling in moved)
    if not does or not all(has_whole_axes(base, mesh, orders[tiling_of(mesh)]) for mesh in whole):
        cut = cut_mesh(moved, order_of(base))
        assert isinstance(cut, Mesh), "in the positions of its order every tiling is a list of parts"
        base = dataclasses.replace(cut, name=base.name)
    return Orders(base, orders)


def _common_mesh(written: Sequence[AnnotationOrder], num_devices: int) -> Mesh | None:
    meshes = [one.mesh for one in written if one.mesh is not None]
    tilings = [tiling for one in written for tiling in (one.tiling, *one.cuts)]
    found = find_mesh(meshes, tilings, num_devices)
    return found if isinstance(found, Mesh) else None


def _renaming(order: DeviceOrder, mesh: Mesh) -> DeviceOrder:
    """By device: the device of the mesh that is where this one is in `order`."""
    return device_order.compose(order_of(mesh), device_order.inverse(order))


def _renamed(tiling: Tiled, renaming: DeviceOrder) -> Tiled:
    return dataclasses.replace(tiling, order=device_order.compose(renaming, tiling.order))


def _aligned(mesh: Mesh, base: Mesh) -> DeviceOrder:
    """The mesh's order with its axes in those places where `base` has the same, by name, or else by size.

    Then what is split alike over both stays split alike.
    """
    own, wanted = list(without_unit_axes(mesh).axes), without_unit_axes(base).axes
    if sorted(own) == sorted(wanted):
        permutation = [own.index(axis) for axis in wanted]
    elif sorted(size for _, size in own) == sorted(size for _, size in wanted):
        left = list(range(len(own)))
        permutation = []
        for _, size in wanted:
            index = next(i for i in left if own[i][1] == size)
            left.remove(index)
            permutation.append(index)
    else:
        return order_of(mesh)
    return device_order.compose(
        order_of(mesh), Iota(tuple(size for _, size in own) or (1,), tuple(permutation) or (0,))
    )


def aligned_order(mesh: Mesh, base: Mesh) -> DeviceOrder | None:
    """The device of `mesh` at each position of `base`, where the two are over device orders that do not factor.

    Then a sharding over the one is read over the other with devices renamed; None where it need not be.
    """
    axes = TensorSharding(mesh, tuple(DimSharding((axis,)) for axis in mesh.all_axes()))
    try:
        translated(axes, base)
    except Unsupported:
        return _aligned(mesh, base)
    return None


def renamed(mesh: Mesh, order: DeviceOrder, base: Mesh) -> Mesh:
    """A mesh over the devices of `base` at the positions at which `order` has its own."""
    return dataclasses.replace(
        mesh, device_ids=device_order.expand(device_order.compose(_renaming(order, base), order_of(mesh)))
    )


def has_whole_axes(base: Mesh, mesh: Mesh, order: DeviceOrder) -> bool:
    """Whether every axis of `mesh` is a list of whole axes of `base`, whose devices `order` lists for the mesh."""
    positions = device_order.compose(device_order.inverse(order), order_of(mesh))
    lists = device_order.split(positions, tiling_of(mesh).dims)
    found = [] if lists is None else [device_order.regroup(parts, base.all_axes()) for parts in lists]
    return lists is not None and all(axes is not None and all(map(base.is_full, axes)) for axes in found)
