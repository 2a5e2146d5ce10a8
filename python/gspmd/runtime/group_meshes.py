"""Replica groups by mesh axes, in a form that every PJRT client reads correctly.

In-process clients get groups by axes. For plugins, jaxlib writes a StableHLO version that is some months old. If that
version has no groups by axes (before 1.16, as in jaxlib 0.10), jaxlib lists them, provided that their axes are whole.
Before that, jaxlib replaces all meshes by the first mesh of that size: version 0.10 matches axes by name regardless of
their sizes, and every version ignores device orders and misreads escaped names. So all groups here are along whole axes
of the only mesh of the module (`pjrt_mesh.py`); other groups become lists.
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
    """The device groups of a module's groups by axes. Errors: AnnotationError for unknown axes."""
    named = dict.fromkeys(op.attributes[_GROUPS] for op in _collectives(module))
    meshes = codec_of(module).meshes if named else {}
    return {groups: read_group_axes(groups, meshes) for groups in named}


def _collectives(module: Operation) -> list[Operation]:
    """The collectives with groups by axes."""
    return [op for op in module.walk() if _GROUPS in op.attributes and names_axes(op.attributes[_GROUPS])]


def write_groups(module: Operation, meant: Groups, mesh: PjrtMesh) -> None:
    """Rewrite a module's groups by axes to whole axes of the mesh, or to lists; within the module's context.

    The groups contain the mesh; the meshes of the module are removed.

    Errors: InternalError if a client would read other groups.
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
    """The same groups in a form that clients read correctly."""
    if over == mesh.source and axes and mesh.is_cut_for(axes):
        return write_group_axes(mesh.unnamed, mesh.whole(axes), context)
    return _lists(replica_groups(over, axes), context)


def _lists(groups: Ids, context: ir.Context) -> ir.Attribute:
    return ir.DenseElementsAttr.get(groups, context=context)
