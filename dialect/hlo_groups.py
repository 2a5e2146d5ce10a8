"""Replica groups in HLO text in compact form: as iota, or by axes of a mesh.

`[8,4]<=[4,8]T(1,0)` is 8 groups of 4 partitions, and `mesh['x'=4,'y'=2], device_ids=([2,4]T(1,0)) {'x':(1)2,'y'}` has a
group for all partitions that differ along the axes in braces only. Text after the groups is ignored.

Source: how XLA prints `IotaReplicaGroupList` and `MeshAxesReplicaGroupList`.
"""

from __future__ import annotations

import dataclasses

from gspmd.dialect import device_order
from gspmd.dialect.axes import Axes, canonical
from gspmd.dialect.device_order import Iota
from gspmd.dialect.hlo_notation import (
    HloCursor,
    device_ids_at,
    iota_at,
    mesh_axes_at,
)
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import any_axis_at


@dataclasses.dataclass(frozen=True, slots=True)
class IotaGroups:
    """The partitions in an order, in groups of equal size."""

    number: int
    size: int
    order: Iota


@dataclasses.dataclass(frozen=True, slots=True)
class MeshGroups:
    """Groups along axes of a mesh."""

    mesh: Mesh
    axes: Axes


HloGroups = IotaGroups | MeshGroups


def parse_groups(text: str) -> HloGroups:
    """The groups at the start of a text. Raises ParseError or AnnotationError for another text."""
    cursor = HloCursor(text)
    if cursor.peek() == "[":
        return _iota_groups(cursor)
    axes = mesh_axes_at(cursor)
    ids: tuple[int, ...] = ()
    if cursor.accept(","):
        cursor.expect("device_ids")
        cursor.expect("=")
        ids = device_order.expand(device_ids_at(cursor))
    mesh = Mesh(axes, ids, "")
    return MeshGroups(mesh, canonical(cursor.listed("{", "}", lambda: any_axis_at(cursor, mesh)[0])))


def _iota_groups(cursor: HloCursor) -> IotaGroups:
    dims = cursor.listed("[", "]", cursor.integer)
    cursor.expect("<=")
    order = iota_at(cursor)
    if len(dims) != 2 or dims[0] * dims[1] != device_order.size(order):
        raise cursor.error(f"expected an order of as many partitions as {list(dims)} has,")
    return IotaGroups(*dims, order)
