"""From XLA's shardings to shardings in mesh axes, and back.

Without counterpart: shard groups and metadata stay with the `HloSharding`; conversion to HLO drops priorities, open
dimensions and axes that must stay replicated (write the open dimensions as `unspecified_dims` if they matter); a value
on a single device of a larger program is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gspmd.dialect.axes import Axes, canonical
from gspmd.dialect.common_mesh import axes_on, express, find_mesh, from_positions, order_of, unify_meshes, written_ids
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, OrdersDiffer, Unsupported
from gspmd.dialect.hlo_notation import print_hlo_sharding
from gspmd.dialect.hlo_sharding import (
    HloSharding,
    Maximal,
    Named,
    Role,
    Tiled,
    TupleOf,
    Whole,
    normal_form,
    tile,
)
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sharding import CLOSED, OPEN, DimSharding, TensorSharding

__all__ = ["common_mesh", "to_hlo_sharding", "to_tensor_sharding", "unify_meshes"]


def common_mesh(shardings: Iterable[HloSharding], num_devices: int) -> Mesh:
    """The mesh for a program with these shardings.

    Keeps the mesh of named shardings, the first that the others can be written in. Otherwise the devices are
    cut into axes `axis_0`, .. (major to minor) wherever a sharding cuts them. A device list that is no
    reshape and transpose of 0..n-1 becomes the device ids of the mesh, if the other shardings factor over it.

    Errors: AnnotationError for shardings over another number of devices; OrdersDiffer for device orders
    that do not factor together.
    """
    meshes: dict[Mesh, None] = {}
    tilings: dict[Tiled, None] = {}
    leaves = [leaf for s in shardings for leaf in (s.body.leaves if isinstance(s.body, TupleOf) else (s,))]
    for leaf in leaves:
        count = leaf.num_devices()
        if count is not None and count != num_devices:
            raise AnnotationError(
                f"sharding '{_excerpt(leaf)}' is over {count} devices in a program of {num_devices}; use all of them",
                code=Code.DEVICE_COUNT,
            )
        if isinstance(leaf.body, Named) and leaf.body.sharding.mesh.axes:
            meshes[mesh_of(leaf.body)] = None
            tilings[cuts_of(leaf.body)] = None
        elif isinstance(leaf.body, Tiled):
            tilings[leaf.body] = None
    found = find_mesh(tuple(meshes), tuple(tilings), num_devices)
    if isinstance(found, Mesh):
        return found
    one, other = (_excerpt(HloSharding(tiled)) for tiled in found)
    raise OrdersDiffer(
        f"the device orders of '{one}' and '{other}' do not factor into the axes of one mesh",
        hint="list the devices of all shardings in the order of one mesh",
    )


def to_tensor_sharding(sharding: HloSharding, rank: int, mesh: Mesh, open_dims: Collection[int] = ()) -> TensorSharding:
    """The sharding of a value of this rank in axes of the mesh; `open_dims` are open, the others closed.

    Manual and unreduced devices become the axes of that name (on a mesh of one device all roles are the
    same and there are none); what else divides nothing is replicated. A sharding that is `unknown` is open in
    all dims, a named one where it says so.

    Errors: AnnotationError for another rank or number of devices and for a tuple; Unsupported for a value on
    one device, and for a device order that does not factor over the mesh.
    """
    sharding.check(rank, mesh.size)
    body = sharding.body
    for dim in open_dims:
        if not 0 <= dim < rank:
            raise AnnotationError(f"open dimension {dim} does not exist in a tensor of rank {rank}", code=Code.RANK)
    if isinstance(body, Maximal) or (isinstance(body, Tiled) and Role.MAXIMAL in body.subgroups):
        raise Unsupported(
            f"sharding '{_excerpt(sharding)}' keeps a value on one device",
            hint="replicate it or divide it over all devices",
        )
    if isinstance(body, Named) and body.sharding.mesh.axes:
        return _opened(_named(body, rank, mesh), open_dims)
    normal = normal_form(body)
    if isinstance(normal, Tiled):
        return _opened(_tiled(sharding, normal, mesh), open_dims)
    is_open = isinstance(body, Whole) and body.role is Role.UNKNOWN
    dims = (OPEN if is_open else CLOSED,) * rank
    if isinstance(body, Named) and body.sharding.dims:
        dims = body.sharding.dims
    role = normal.role if isinstance(normal, Whole) else Role.REPLICATED
    return _opened(
        TensorSharding(
            mesh,
            dims,
            unreduced=mesh.all_axes() if role is Role.UNREDUCED else (),
            manual=mesh.all_axes() if role is Role.MANUAL else (),
        ),
        open_dims,
    )


def to_hlo_sharding(sharding: TensorSharding) -> HloSharding:
    """The same placement for XLA, in the form that XLA gives it.

    An iota where the order of the mesh's devices allows it, else a device list. What is open, user
    priorities, and axes that must stay replicated have no such form and are dropped.
    """
    mesh = sharding.mesh
    if mesh.is_maximal:
        return HloSharding(Maximal(mesh.device_ids[0]))
    return HloSharding(tile(sharding, order_of(mesh))).normal(keep_numbers=True)


def _tiled(sharding: HloSharding, normal: Tiled, mesh: Mesh) -> TensorSharding:
    moved = from_positions(normal, order_of(mesh))
    axes = axes_on(mesh, moved)
    if axes is None:
        raise Unsupported(
            f"the device order of '{_excerpt(sharding)}' does not factor over the axes of mesh \"@{mesh.name}\"",
            hint="use the order of the mesh for all shardings",
            code=Code.DEVICE_ORDERS,
        )
    groups: dict[Role, Axes] = dict(zip(moved.subgroups, axes[moved.rank :], strict=True))
    return TensorSharding(
        mesh,
        tuple(DimSharding(dim) for dim in axes[: moved.rank]),
        unreduced=canonical(mesh.sorted(groups.get(Role.UNREDUCED, ()))),
        manual=canonical(mesh.sorted(groups.get(Role.MANUAL, ()))),
    )


def _named(named: Named, rank: int, mesh: Mesh) -> TensorSharding:
    own = named.sharding
    source = TensorSharding(mesh_of(named), own.dims or (CLOSED,) * rank, own.replicated, own.unreduced, own.manual)
    return express(source, mesh)


def cuts_of(named: Named) -> Tiled:
    """A tiling that cuts the axes of the mesh wherever the sharding does, its explicit replication included."""
    own = named.sharding
    dims = (*own.dims, DimSharding(own.replicated))
    return tile(TensorSharding(own.mesh, dims, (), own.unreduced, own.manual), named.order)


def mesh_of(named: Named) -> Mesh:
    """The mesh with its device ids written out."""
    mesh = named.sharding.mesh
    return Mesh(mesh.axes, written_ids(named.order), mesh.name)


def _opened(sharding: TensorSharding, open_dims: Collection[int]) -> TensorSharding:
    dims = tuple(DimSharding(dim.axes, dim.is_open or i in open_dims) for i, dim in enumerate(sharding.dims))
    return TensorSharding(sharding.mesh, dims, sharding.replicated, sharding.unreduced, sharding.manual)


def _excerpt(sharding: HloSharding) -> str:
    text = print_hlo_sharding(sharding)
    return text if len(text) <= 80 else f"{text[:60]}..{text[-16:]}"
