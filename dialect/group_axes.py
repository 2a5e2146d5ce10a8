"""Replica groups by mesh axes, `#stablehlo.replica_group_mesh_axes`, read and written without loss.

A group has the devices that differ along its axes only, ordered by these, the first most major. The mesh is a symbol of
the module, or is inline in the attribute; the latter is a mesh without a name. Groups without this attribute list their
devices.

Source: the StableHLO specification, replica groups of collectives.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from gspmd.dialect.axes import Axes, Axis, canonical, overlap
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import Cursor, quote, symbol, unquote


def names_axes(groups: ir.Attribute) -> bool:
    """Whether groups are given by mesh axes instead of lists of devices."""
    return not isinstance(groups, ir.DenseElementsAttr)


def print_group_axes(mesh: Mesh, axes: Axes) -> str:
    """The attribute's text. Parts of an axis that adjoin are written as one, as XLA ends the process at others."""
    refs = ", ".join(f"#stablehlo.axis_ref<{_print_ref(axis, mesh)}>" for axis in canonical(axes))
    where = symbol(mesh.name) if mesh.name else _print_mesh(mesh)
    return f"#stablehlo.replica_group_mesh_axes<mesh = {where}, axes = [{refs}]>"


def write_group_axes(mesh: Mesh, axes: Axes, context: ir.Context) -> ir.Attribute:
    """The attribute of groups along `axes`."""
    return ir.Attribute.parse(print_group_axes(mesh, axes), context)


def _print_ref(axis: Axis, mesh: Mesh) -> str:
    part = "" if mesh.is_full(axis) else f", sub_axis_info = ({axis.pre}){axis.size}"
    return f"name = {quote(axis.name)}{part}"


def _print_mesh(mesh: Mesh) -> str:
    axes = ", ".join(f"#stablehlo.mesh_axis<name = {quote(name)}, size = {size}>" for name, size in mesh.axes)
    ids = f", device_ids = dense<{list(mesh.device_ids)}> : tensor<{mesh.size}xi64>" if mesh.device_ids else ""
    return f"#stablehlo.mesh<axes = [{axes}]{ids}>"


def read_group_axes(groups: ir.Attribute, meshes: Mapping[str, Mesh]) -> tuple[Mesh, Axes]:
    """The mesh, one of `meshes` by symbol name or one of the attribute's own, and the axes.

    Errors: AnnotationError for another attribute, a mesh or an axis that is not there, and parts of an axis that
    overlap or do not nest.
    """
    if not stablehlo.ReplicaGroupMeshAxesAttr.isinstance(groups):
        raise AnnotationError(
            f"has replica groups that are neither lists nor axes of a mesh: '{groups}'", code=Code.DEVICE_LIST
        )
    parts = stablehlo.ReplicaGroupMeshAxesAttr(groups)
    mesh = _read_mesh(parts.mesh, meshes)
    cursor = Cursor(str(parts.axes))
    axes = cursor.listed("[", "]", lambda: _read_ref(cursor, mesh))
    for index, axis in enumerate(axes):
        if overlap([axis], axes[:index]) or not all(axis.nests(other) for other in axes[:index]):
            raise AnnotationError(
                f"has replica groups along parts of axes that overlap or do not nest: '{parts.axes}'",
                code=Code.DEVICE_LIST,
            )
    return mesh, canonical(axes)


def _read_mesh(attribute: ir.Attribute, meshes: Mapping[str, Mesh]) -> Mesh:
    if stablehlo.MeshAttr.isinstance(attribute):
        own = stablehlo.MeshAttr(attribute)
        cursor = Cursor(str(own.axes))
        sizes = cursor.listed("[", "]", lambda: _read_mesh_axis(cursor))
        ids = () if own.device_ids is None else np.array(ir.DenseIntElementsAttr(own.device_ids), np.int64).tolist()
        return Mesh(sizes, tuple(ids), "")
    text = str(attribute)[1:]
    name = unquote(text) if text.startswith('"') else text
    if name not in meshes:
        known = ", ".join(f"'@{known}'" for known in meshes) or "none"
        raise AnnotationError(
            f"has replica groups over mesh '@{name}', which the module does not have; its meshes are {known}",
            code=Code.MESH_UNKNOWN,
        )
    return meshes[name]


def _read_mesh_axis(cursor: Cursor) -> tuple[str, int]:
    name = _read_name(cursor, "mesh_axis")
    for token in (",", "size", "="):
        cursor.expect(token)
    size = cursor.integer()
    cursor.expect(">")
    return name, size


def _read_ref(cursor: Cursor, mesh: Mesh) -> Axis:
    name = _read_name(cursor, "axis_ref")
    if cursor.accept(">"):
        return mesh.axis(name)
    for token in (",", "sub_axis_info", "=", "("):
        cursor.expect(token)
    pre = cursor.integer()
    cursor.expect(")")
    axis = mesh.axis(name, pre, cursor.integer())
    cursor.expect(">")
    return axis


def _read_name(cursor: Cursor, mnemonic: str) -> str:
    """The beginning of an attribute, with the name in it: `#stablehlo.axis_ref<name = "x"`."""
    for token in ("#", "stablehlo", ".", mnemonic, "<", "name", "="):
        cursor.expect(token)
    return cursor.string()
