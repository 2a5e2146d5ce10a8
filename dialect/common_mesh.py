"""One mesh for placements over several meshes or without one.

Every placement is a tiling of the devices (`Tiled`). A tiling fits on a mesh if, in positions of the mesh, each of its
dims is a list of parts of axes. The common mesh cuts the order of all devices wherever some tiling cuts it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence

from gspmd.dialect import device_order
from gspmd.dialect.axes import Axes, Axis, canonical
from gspmd.dialect.device_order import ALL, DeviceOrder, Iota
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, OrdersDiffer, Unsupported
from gspmd.dialect.hlo_sharding import Role, Tiled, normal_form
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import DimSharding, TensorSharding


def order_of(mesh: Mesh) -> DeviceOrder:
    """The device at each position of the mesh."""
    return mesh.device_ids or device_order.identity(mesh.size)


def written_ids(order: DeviceOrder) -> tuple[int, ...]:
    """The device ids of a mesh in this order; empty if ascending."""
    return () if isinstance(order, Iota) and order.is_identity else device_order.expand(order)


def tiling_of(mesh: Mesh) -> Tiled:
    """The tiling that splits one dimension over each axis of the mesh."""
    return Tiled(tuple(size for _, size in mesh.axes) or (1,), order_of(mesh))


def without_unit_axes(mesh: Mesh) -> Mesh:
    """The mesh without its axes of size 1."""
    return Mesh(tuple((name, size) for name, size in mesh.axes if size > 1), mesh.device_ids, mesh.name)


def from_positions(tiled: Tiled, base: DeviceOrder) -> Tiled:
    """The tiling in positions of `base` instead of devices, in normal form.

    A tiling that splits nothing and has one role, for which the order is irrelevant, becomes one dim of all devices.
    """
    order = device_order.compose(device_order.inverse(base), tiled.order)
    normal = normal_form(Tiled(tiled.dims, order, tiled.subgroups))
    if isinstance(normal, Tiled):
        return normal
    count = device_order.size(base)
    return Tiled((count,), device_order.identity(count))


def cut_mesh(tilings: Iterable[Tiled], base: DeviceOrder) -> Mesh | Tiled:
    """A mesh over `base` with axes `axis_0`, .. on which all tilings fit, or a tiling that fits on none.

    The axes are cut where tilings are, except for cuts that exclude each other, such as 2 and 3 of 6; sub-axes express
    these.
    """
    count = device_order.size(base)
    cuts = {1, count}
    for tiled in tilings:
        moved = from_positions(tiled, base)
        lists = device_order.split(moved.order, moved.dims)
        if lists is None:
            return tiled
        cuts.update(cut for parts in lists for part in parts for cut in (part.pre, part.end))
    nesting = sorted(a for a in cuts if all(a % b == 0 or b % a == 0 for b in cuts))
    sizes = [b // a for a, b in itertools.pairwise(nesting)] or [1]
    return Mesh(tuple((f"axis_{i}", size) for i, size in enumerate(sizes)), written_ids(base))


def axes_on(mesh: Mesh, tiled: Tiled) -> tuple[Axes, ...] | None:
    """The axes of the mesh over which each dim of the tiling is split.

    The tiling is over mesh positions. None if a dim is not a list of parts of axes.
    """
    lists = device_order.split(tiled.order, tiled.dims)
    if lists is None:
        return None
    result = []
    for parts in lists:
        axes = device_order.regroup(parts, mesh.all_axes())
        if axes is None:
            return None
        result.append(axes)
    return tuple(result)


def fits(mesh: Mesh, tiled: Tiled) -> bool:
    """Whether the tiling, over devices, can be expressed in axes of the mesh."""
    return axes_on(mesh, from_positions(tiled, order_of(mesh))) is not None


def find_mesh(meshes: Sequence[Mesh], tilings: Sequence[Tiled], num_devices: int) -> Mesh | tuple[Tiled, Tiled]:
    """A mesh on which the tilings and the meshes fit, or two tilings that have none in common.

    The first suitable one of `meshes` is used, without axes of size 1; otherwise a mesh with axes `axis_0`, .., over
    the devices in ascending order if each tiling alone fits on that, or in their joint order.
    """
    meshes = [without_unit_axes(mesh) for mesh in meshes]
    tilings = list(dict.fromkeys((*map(tiling_of, meshes), *tilings)))
    for mesh in meshes:
        if all(fits(mesh, tiled) for tiled in tilings):
            return mesh
    base: DeviceOrder = device_order.identity(num_devices)
    misfits = [tiled for tiled in tilings if isinstance(cut_mesh([tiled], base), Tiled)]
    if misfits:
        tilings = [*misfits, *(tiled for tiled in tilings if tiled not in misfits)]
        base = joint_order(tilings, num_devices)
    made = cut_mesh(tilings, base)
    if isinstance(made, Mesh):
        return made
    return tilings[0], made if made != tilings[0] else tilings[1]


def joint_order(tilings: Sequence[Tiled], num_devices: int) -> DeviceOrder:
    """The devices sorted by their shard in the first tiling, then in the second, and so on.

    The last keys are their numbers in manual and unreduced subgroups, and their ids. If all tilings fit on some mesh
    with these numbers and nested cuts, then they also fit on one in this order: it transposes the axes, and changes the
    order only among devices that are replicas in all tilings.
    """
    device_order.check_listed(num_devices)
    keys: list[list[int]] = [[] for _ in range(num_devices)]
    for of_value in (True, False):
        for tiled in tilings:
            roles = (None,) * tiled.rank + tiled.subgroups
            chosen = [i for i, role in enumerate(roles) if (role is None) == of_value and role is not Role.REPLICATED]
            strides = [math.prod(tiled.dims[i + 1 :]) for i in range(len(tiled.dims))]
            for position, device in enumerate(device_order.expand(tiled.order)):
                keys[device] += [position // strides[i] % tiled.dims[i] for i in chosen]
    return device_order.compact(tuple(sorted(range(num_devices), key=keys.__getitem__)))


def express(sharding: TensorSharding, mesh: Mesh) -> TensorSharding:
    """The sharding, expressed in axes of another mesh of the same devices.

    Errors: Unsupported if an axis of the sharding is not a list of parts of axes of the mesh.
    """
    source = sharding.mesh
    before = {name: math.prod(s for _, s in source.axes[:i]) for i, (name, _) in enumerate(source.axes)}
    moved = device_order.compose(device_order.inverse(order_of(mesh)), order_of(source))

    def translate(axes: Axes) -> Axes:
        if without_unit_axes(source) == without_unit_axes(mesh):
            return canonical(axes)
        found: Axes | None = tuple(Axis(ALL, before[a.name] * a.pre, a.size) for a in axes if a.size > 1)
        if found:
            found = device_order.regroup(found, moved.parts()) if isinstance(moved, Iota) else None
        if found:
            found = device_order.regroup(found, mesh.all_axes())
        if found is None:
            names = ", ".join(f'"{axis.name}"' for axis in axes)
            raise Unsupported(
                f'axes {names} of mesh "@{source.name}" are not parts of axes of mesh "@{mesh.name}"',
                code=Code.DEVICE_ORDERS,
            )
        return found

    dims = []
    for dim in sharding.dims:
        axes = translate(dim.axes)
        dims.append(DimSharding(axes, dim.is_open, dim.priority if axes or dim.is_open else None))
    lists = (sharding.replicated, sharding.unreduced, sharding.manual)
    return TensorSharding(mesh, tuple(dims), *(canonical(mesh.sorted(translate(axes))) for axes in lists))


def unify_meshes(meshes: Sequence[Mesh]) -> tuple[Mesh, Callable[[TensorSharding], TensorSharding]]:
    """A mesh whose axes can express all of the meshes, and the conversion of shardings to it.

    The first mesh that has parts for all axes of the others keeps its name and its axes' names, except axes of
    size 1, which are dropped; meshes of one position are placeholders for it.

    Errors: Unsupported for meshes with different numbers of devices, and for maximal and other meshes together;
    OrdersDiffer for device orders that do not factor together; AnnotationError without any mesh.
    """
    if not meshes:
        raise AnnotationError("there is no mesh; define one with 'sdy.mesh'", code=Code.MESH_UNKNOWN)
    real = [mesh for mesh in dict.fromkeys(meshes) if mesh.size > 1 or mesh.is_maximal]
    if not real:
        real = [without_unit_axes(meshes[0])]
    for mesh in real:
        if mesh.is_maximal and len(real) > 1:
            raise Unsupported(
                f'mesh "@{mesh.name}" of device {mesh.device_ids[0]} only',
                hint="use one mesh of all devices",
            )
        if mesh.size != real[0].size:
            raise Unsupported(
                f'mesh "@{mesh.name}" has {mesh.size} devices but mesh "@{real[0].name}" has {real[0].size}',
                hint="use all devices in every mesh",
                code=Code.DEVICE_COUNT,
            )
    found = real[0] if real[0].size == 1 else find_mesh(real, [], real[0].size)
    if not isinstance(found, Mesh):
        raise OrdersDiffer(
            f"the device orders of meshes {', '.join(map(_describe, real))} do not factor together",
            hint="give them the same device_ids",
        )
    return found, lambda sharding: translated(sharding, found)


def translated(sharding: TensorSharding, mesh: Mesh) -> TensorSharding:
    """The sharding in axes of the mesh; that on a placeholder mesh, too. Errors: as `express`."""
    if sharding.mesh.size == 1 and not sharding.mesh.is_maximal:
        dims = (DimSharding(is_open=d.is_open, priority=d.priority if d.is_open else None) for d in sharding.dims)
        return TensorSharding(mesh, tuple(dims))
    return express(sharding, mesh)


def repeated(mesh: Mesh, base: Mesh) -> Mesh:
    """A mesh of all devices of `base` that repeats `mesh` along an additional first axis.

    If it has the default device order, and each of its axes matches one of `base` by name and size, or by size, it is
    repeated along the other axes of `base`. Otherwise its devices are those of each part of `base`, in order.

    Errors: AnnotationError if its number of devices does not divide that of `base`.
    """
    if base.size % mesh.size:
        raise AnnotationError(
            f"uses a mesh of {mesh.size} devices in a program of {base.size}",
            hint="use all devices, or a number of them that divides all",
            code=Code.DEVICE_COUNT,
        )
    copies = base.size // mesh.size
    order = device_order.expand(order_of(base))
    split = None if mesh.device_ids else _matching_axes(mesh, base)
    if split is not None:
        rest = [index for index in range(len(base.axes)) if index not in split]
        places = Iota(tuple(size for _, size in base.axes), (*rest, *split)).expand()
    else:
        own = device_order.expand(order_of(mesh))
        places = tuple(copy * mesh.size + device for copy in range(copies) for device in own)
    first = "copies"
    while any(name == first for name, _ in mesh.axes):
        first += "_"
    ids = device_order.compact(tuple(order[place] for place in places))
    return Mesh(((first, copies), *mesh.axes), written_ids(ids), mesh.name)


def _matching_axes(mesh: Mesh, base: Mesh) -> list[int] | None:
    """The axes of `base`, by index, that match those of `mesh` with sizes above 1; None if one has no match."""
    wanted = [axis for axis in mesh.axes if axis[1] > 1]
    found = {axis: base.axes.index(axis) for axis in wanted if axis in base.axes}
    for axis in wanted:
        if axis not in found:
            free = (i for i, (_, size) in enumerate(base.axes) if size == axis[1] and i not in found.values())
            index = next(free, None)
            if index is None:
                return None
            found[axis] = index
    return [found[axis] for axis in wanted]


def _describe(mesh: Mesh) -> str:
    return f'"@{mesh.name}" of {list(mesh.device_ids) if len(mesh.device_ids) <= 16 else "its own order"}'
