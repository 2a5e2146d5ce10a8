"""Annotations over several device orders, brought onto one mesh.

The device of a shard is visible only where a value enters or leaves the program. Inside, only two things matter: how a
value is split, and that shards which are combined are on one device. So if orders do not factor over one mesh, the
program gets one order, and annotations over another are read with renamed devices: the device at a position of the one
is the device at the same position of the other.
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
    """The device order of annotations: the tiling of a mesh with its axes and their cuts, or a single tiling.

    `bytes` are those of the arguments and results with this order.
    """

    tiling: Tiled
    mesh: Mesh | None = None
    cuts: tuple[Tiled, ...] = ()
    bytes: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Orders:
    """The `mesh` of the program, and for every tiling in the source the device at each position of that mesh."""

    mesh: Mesh
    _orders: Mapping[Tiled, DeviceOrder]

    def of(self, tiling: Tiled) -> DeviceOrder:
        """The device order of a tiling, or of that of a mesh."""
        return self._orders[tiling]

    def renamed_mesh(self, mesh: Mesh) -> Mesh:
        """The mesh with its devices renamed to those of the program."""
        return renamed(mesh, self.of(tiling_of(mesh)), self.mesh)

    def renamed(self, sharding: HloSharding) -> HloSharding:
        """The sharding with its devices renamed to those of the program; unchanged if it does not list devices."""
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
    """The key of a sharding of one value in `Orders`; None if it does not list devices."""
    match sharding.body:
        case Tiled() as tiled:
            return tiled
        case Named() as named if named.sharding.mesh.axes:
            return tiling_of(mesh_of(named))
    return None


def written_by(sharding: HloSharding) -> AnnotationOrder | None:
    """The device order of a sharding of one value; None if it does not list devices."""
    tiling = tiling_written(sharding)
    if tiling is None:
        return None
    if isinstance(sharding.body, Named):
        return AnnotationOrder(tiling, mesh_of(sharding.body), (cuts_of(sharding.body),))
    return AnnotationOrder(tiling)


def choose_orders(written: Iterable[AnnotationOrder], num_devices: int, whole: Collection[Mesh] = ()) -> Orders:
    """The order in which most bytes enter and leave, with a mesh on which all tilings fit after renaming.

    Tilings that factor together share an order; ties go to the first. The axes of the meshes `whole` become whole axes
    of the common mesh, if the cuts allow it.
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
    """For each device: the device of the mesh at its position in `order`."""
    return device_order.compose(order_of(mesh), device_order.inverse(order))


def _renamed(tiling: Tiled, renaming: DeviceOrder) -> Tiled:
    return dataclasses.replace(tiling, order=device_order.compose(renaming, tiling.order))


def _aligned(mesh: Mesh, base: Mesh) -> DeviceOrder:
    """The order of the mesh with its axes in the order of those of `base`, matched by name, or by size.

    Then shardings that are equal over both stay equal.
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
    """The device of `mesh` at each position of `base`, if their device orders do not factor together.

    A sharding over the one is then read over the other with renamed devices; None if this is not necessary.
    """
    axes = TensorSharding(mesh, tuple(DimSharding((axis,)) for axis in mesh.all_axes()))
    try:
        translated(axes, base)
    except Unsupported:
        return _aligned(mesh, base)
    return None


def renamed(mesh: Mesh, order: DeviceOrder, base: Mesh) -> Mesh:
    """The mesh with each device of `order` replaced by that of `base` at the same position."""
    return dataclasses.replace(
        mesh, device_ids=device_order.expand(device_order.compose(_renaming(order, base), order_of(mesh)))
    )


def has_whole_axes(base: Mesh, mesh: Mesh, order: DeviceOrder) -> bool:
    """Whether every axis of `mesh` is a list of whole axes of `base` in `order`."""
    positions = device_order.compose(device_order.inverse(order), order_of(mesh))
    lists = device_order.split(positions, tiling_of(mesh).dims)
    found = [] if lists is None else [device_order.regroup(parts, base.all_axes()) for parts in lists]
    return lists is not None and all(axes is not None and all(map(base.is_full, axes)) for axes in found)
