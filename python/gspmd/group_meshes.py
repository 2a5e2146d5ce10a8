"""Replica groups by mesh axes in the form that every PJRT plugin takes.

jaxlib writes modules for plugins in a version of StableHLO of some months ago, in which groups are lists, and expands
groups by axes. For that it wants meshes in StableHLO's notation (`stablehlo.mesh`) in the device order 0, 1, 2, ...,
and whole axes.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, atoms, split_at
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_mesh
from gspmd.dialect.sdy_attrs import SdyCodec
from gspmd.transforms.ingest.group_lists import named_groups
from gspmd.transforms.support.groups import replica_groups

_GROUPS = "replica_groups"


def write_group_meshes(module: ir.Module) -> None:
    """Give every group whole axes of a mesh whose axes are cut where the group's begin and end; inside a context."""
    writer = _Writer(module)

    def visit(op: Any) -> ir.WalkResult:
        if _GROUPS in op.attributes:
            groups = op.attributes[_GROUPS]
            if not isinstance(groups, ir.DenseElementsAttr):
                op.attributes[_GROUPS] = writer.written(groups)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


class _Writer:
    """Meshes of one module; equal groups are written once."""

    def __init__(self, module: ir.Module) -> None:
        self._module = module
        self._meshes = SdyCodec.of_module(module).meshes
        self._names: dict[Mesh, str] = {}
        self._written: dict[ir.Attribute, ir.Attribute] = {}

    def written(self, groups: ir.Attribute) -> ir.Attribute:
        found = self._written.get(groups)
        if found is None:
            mesh, axes = named_groups(str(groups), self._meshes)
            lists = bool(mesh.device_ids)
            found = ir.DenseElementsAttr.get(replica_groups(mesh, axes)) if lists else self._by_parts(mesh, axes)
            self._written[groups] = found
        return found

    def _by_parts(self, mesh: Mesh, axes: Axes) -> ir.Attribute:
        cuts = atoms([mesh.all_axes(), axes])
        parts = split_at(mesh.all_axes(), cuts)
        names = {part: part.name if mesh.is_full(part) else f"{part.name}.{part.pre}" for part in parts}
        name = self._name(Mesh(tuple((names[part], part.size) for part in parts)))
        refs = ", ".join(f'#stablehlo.axis_ref<name = "{names[part]}">' for part in split_at(axes, cuts))
        return ir.Attribute.parse(f"#stablehlo.replica_group_mesh_axes<mesh = @{name}, axes = [{refs}]>")

    def _name(self, mesh: Mesh) -> str:
        """The symbol of an operation that defines the mesh in both notations."""
        found = self._names.get(mesh)
        if found is None:
            found = self._names[mesh] = self._free_name()
            sizes = ", ".join(f'{{name = "{name}", size = {size} : i64}}' for name, size in mesh.axes)
            attributes = {
                "sym_name": ir.StringAttr.get(found),
                "mesh": ir.Attribute.parse(f"#sdy.mesh{print_mesh(mesh)}"),
                "stablehlo.mesh": ir.Attribute.parse(f"{{axes = [{sizes}]}}"),
            }
            point = ir.InsertionPoint.at_block_begin(self._module.body)
            ir.Operation.create("sdy.mesh", attributes=attributes, ip=point, loc=ir.Location.unknown())
        return found

    def _free_name(self) -> str:
        taken = {*self._meshes, *self._names.values()}
        return next(name for i in range(len(taken) + 1) if (name := f"groups_{i}") not in taken)
