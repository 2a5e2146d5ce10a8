"""Replica groups by mesh axes in the form that every client of PJRT takes, and the proof that it reads them as meant.

Clients in the process get groups by axes. For plugins jaxlib writes modules in a version of StableHLO of some months
ago; where that has no groups by axes (before 1.16, as in jaxlib 0.10), it lists them, if their axes are whole ones.
Before, jaxlib brings all meshes onto one, the module's first of that size: version 0.10 by the names of the axes,
whatever their sizes, and every version without regard to the order of devices and to what is escaped in names. So all
groups here are along whole axes of the one mesh that there is (`pjrt_mesh.py`); others are lists.
"""

from __future__ import annotations

from collections.abc import Mapping

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes
from gspmd.dialect.group_axes import names_axes, read_group_axes, write_group_axes
from gspmd.dialect.mesh import Mesh
from gspmd.runtime.group_check import check_groups
from gspmd.runtime.pjrt_mesh import PjrtMesh
from gspmd.transforms.ir.groups import Ids, replica_groups
from gspmd.transforms.ir.modules import codec_of, context_of, mesh_operations
from gspmd.transforms.ir.operations import Operation

_GROUPS = "replica_groups"
Groups = Mapping[ir.Attribute, tuple[Mesh, Axes]]


def groups_by_axes(module: Operation) -> Groups:
    """What the groups of a module that name axes mean. Errors: AnnotationError for axes that are not there."""
    named = dict.fromkeys(op.attributes[_GROUPS] for op in _collectives(module))
    meshes = codec_of(module).meshes if named else {}
    return {groups: read_group_axes(groups, meshes) for groups in named}


def _collectives(module: Operation) -> list[Operation]:
    """Those whose groups name axes."""
    return [op for op in module.walk() if _GROUPS in op.attributes and names_axes(op.attributes[_GROUPS])]


def write_groups(module: Operation, meant: Groups, mesh: PjrtMesh) -> None:
    """Give the groups of a module that name axes whole axes of the mesh, or lists; within the module's context.

    The mesh stands in the groups themselves; the module's own meshes are taken out.

    Errors: InternalError where jaxlib would have a client read other groups than those that are meant.
    """
    if meant:
        written = {groups: _written(over, axes, mesh, context_of(module)) for groups, (over, axes) in meant.items()}
        check_groups(
            [(written[groups], replica_groups(*meant[groups])) for groups in meant], mesh.mesh, context_of(module)
        )
        for op in _collectives(module):
            op.attributes[_GROUPS] = written[op.attributes[_GROUPS]]
    for op in mesh_operations(module):
        op.erase()


def _written(over: Mesh, axes: Axes, mesh: PjrtMesh, context: ir.Context) -> ir.Attribute:
    """The same groups in the form that clients take."""
    if over == mesh.source and axes and mesh.is_cut_for(axes):
        return write_group_axes(mesh.unnamed, mesh.whole(axes), context)
    return _lists(replica_groups(over, axes), context)


def _lists(groups: Ids, context: ir.Context) -> ir.Attribute:
    return ir.DenseElementsAttr.get(groups, context=context)
