"""Replica groups that name mesh axes, as JAX 0.12 writes those of shard_map, become lists of partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sdy_attrs import SdyCodec
from gspmd.transforms.support.groups import replica_groups
from gspmd.transforms.support.mlir import located

_MESH = re.compile(r'mesh\s*=\s*@"?([^",>]+)"?')
_AXIS = re.compile(r'axis_ref<name\s*=\s*"([^"]*)"(?:,\s*sub_axis_info\s*=\s*\((\d+)\)(\d+))?')


def list_groups(module: ir.Module, collectives: Iterable[Any]) -> None:
    """Write out the groups of these operations where they name axes of one of the module's meshes.

    Errors: AnnotationError (located) for a mesh or an axis that is not there.
    """
    meshes: dict[str, Mesh] | None = None
    for op in collectives:
        attribute = op.attributes.get("replica_groups")
        if attribute is None or isinstance(attribute, ir.DenseElementsAttr):
            continue
        if meshes is None:
            meshes = SdyCodec.of_module(module).meshes
        with located(op):
            groups = replica_groups(*named_groups(str(attribute), meshes))
            op.attributes["replica_groups"] = ir.DenseElementsAttr.get(np.ascontiguousarray(groups))


def named_groups(text: str, meshes: dict[str, Mesh]) -> tuple[Mesh, tuple[Any, ...]]:
    """The mesh and axes of `#stablehlo.replica_group_mesh_axes<mesh = @m, axes = [..]>`."""
    name = _MESH.search(text)
    if name is None or name[1] not in meshes:
        raise AnnotationError(f"has replica groups over a mesh the module does not have: '{text}'")
    mesh = meshes[name[1]]
    return mesh, tuple(
        mesh.axis(axis, int(pre), int(size)) if pre else mesh.axis(axis) for axis, pre, size in _AXIS.findall(text)
    )
