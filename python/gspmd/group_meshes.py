"""Replica groups by mesh axes in the form that every client of PJRT takes, and the proof that it reads them as meant.

Clients in the process get groups by axes. For plugins jaxlib writes modules in a version of StableHLO of some months
ago; where that has no groups by axes (before 1.16, as in jaxlib 0.10), it lists them, if their axes are whole ones.
Before, jaxlib brings all meshes onto one, the module's first of that size: version 0.10 by the names of the axes,
whatever their sizes, and every version without regard to the order of devices and to what is escaped in names. So all
groups here are along whole axes of one mesh in the order 0, 1, 2, ..., the only mesh there is; others are lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, Axis, atoms, split_at
from gspmd.dialect.group_axes import names_axes, read_group_axes, write_group_axes
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sdy_attrs import SdyCodec
from gspmd.group_check import check_groups
from gspmd.transforms.support.groups import Ids, replica_groups

_GROUPS = "replica_groups"
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_Meant = Mapping[ir.Attribute, tuple[Mesh, Axes]]


def write_group_meshes(module: ir.Module) -> None:
    """Give every group that names axes whole axes of one mesh, cut where any of them is; inside a context.

    That mesh stands in the groups themselves; the module's are taken out.

    Errors: AnnotationError for groups along axes that are not there; InternalError where jaxlib would have a client
    read other groups than these.
    """
    found: list[Any] = []

    def visit(op: Any) -> ir.WalkResult:
        if _GROUPS in op.attributes and names_axes(op.attributes[_GROUPS]):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if found:
        meshes = SdyCodec.of_module(module).meshes
        named = dict.fromkeys(op.attributes[_GROUPS] for op in found)
        meant = {groups: read_group_axes(groups, meshes) for groups in named}
        written = _written(meant, module.context)
        check_groups([(written[groups], replica_groups(*meant[groups])) for groups in meant], module.context)
        for op in found:
            op.attributes[_GROUPS] = written[op.attributes[_GROUPS]]
    for op in [view.operation for view in module.body.operations if view.operation.name == "sdy.mesh"]:
        op.erase()


def _written(meant: _Meant, context: ir.Context) -> dict[ir.Attribute, ir.Attribute]:
    """By groups of the module: the same in the form that clients take."""
    mesh = next((mesh for mesh, _ in meant.values() if not mesh.device_ids), None)
    nested: dict[ir.Attribute, Axes] = {}
    for groups, (over, axes) in meant.items():
        if over == mesh and axes and _nest([mesh.all_axes(), *nested.values(), axes]):
            nested[groups] = axes
    written = {groups: _lists(replica_groups(*meant[groups]), context) for groups in meant if groups not in nested}
    if mesh is not None:
        cuts = atoms([mesh.all_axes(), *nested.values()])
        parts = split_at(mesh.all_axes(), cuts)
        wholes = {part: Axis(name, 1, part.size) for part, name in zip(parts, _names(parts), strict=True)}
        cut_mesh = Mesh(tuple((wholes[part].name, part.size) for part in parts), name="")
        for groups, axes in nested.items():
            whole = tuple(wholes[part] for part in split_at(axes, cuts))
            written[groups] = write_group_axes(cut_mesh, whole, context)
    return written


def _nest(lists: Iterable[Axes]) -> bool:
    try:
        atoms(lists)
    except ValueError:
        return False
    return True


def _names(parts: Axes) -> list[str]:
    """Names for parts of axes that every reader of HLO takes: as `x`, and `x.2` for what is after two of `x`."""
    found: list[str] = []
    for part in parts:
        stem = part.name if _PLAIN.fullmatch(part.name) else "axis"
        candidates = (stem, f"{stem}.{part.pre}", *(f"{stem}.{part.pre}.{i}" for i in range(len(parts))))
        found.append(next(name for name in candidates if name not in found))
    return found


def _lists(groups: Ids, context: ir.Context) -> ir.Attribute:
    return ir.DenseElementsAttr.get(groups, context=context)
