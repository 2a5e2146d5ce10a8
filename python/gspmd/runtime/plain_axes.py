"""Plain names for the axes of a program that XLA partitions, since it crashes on some names that need quotes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from gspmd.dialect.axes import Axes, Axis
from gspmd.dialect.group_axes import names_axes, read_group_axes, write_group_axes
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sdy_attrs import SdyCodec, read_manual_axes, write_manual_axes, write_mesh
from gspmd.dialect.sharding import TensorSharding
from gspmd.runtime.pjrt_mesh import plain_names
from gspmd.transforms.ir.modules import codec_of, context_of, mesh_operations, symbol
from gspmd.transforms.ir.operations import Operation

_GROUPS = "replica_groups"
_SHARDINGS = ("in_shardings", "out_shardings")


def rename_axes(module: Operation) -> None:
    """Give axes plain names if needed; the program has no shardings except those of manual computations."""
    codec = codec_of(module)
    names = {name: None for mesh in codec.meshes.values() for name, _ in mesh.axes}
    plain = dict(zip(names, plain_names(tuple(Axis(name, 1, 1) for name in names)), strict=True))
    if all(name == plain[name] for name in names):
        return
    renamed = SdyCodec(context_of(module), {name: _mesh(mesh, plain) for name, mesh in codec.meshes.items()})
    for op in module.walk():
        attributes = op.attributes
        if "manual_axes" in attributes:
            for key in _SHARDINGS:
                shardings = codec.read_list(attributes[key])
                attributes[key] = renamed.write_list(tuple(_sharding(each, plain) for each in shardings))
            named = read_manual_axes(attributes["manual_axes"])
            attributes["manual_axes"] = write_manual_axes((plain[name] for name in named), context_of(module))
        elif _GROUPS in attributes and names_axes(attributes[_GROUPS]):
            mesh, axes = read_group_axes(attributes[_GROUPS], codec.meshes)
            attributes[_GROUPS] = write_group_axes(_mesh(mesh, plain), _axes(axes, plain), context_of(module))
    for op in mesh_operations(module):
        op.attributes["mesh"] = write_mesh(renamed.meshes[symbol(op)], context_of(module))


def _mesh(mesh: Mesh, plain: Mapping[str, str]) -> Mesh:
    return dataclasses.replace(mesh, axes=tuple((plain[name], size) for name, size in mesh.axes))


def _axes(axes: Axes, plain: Mapping[str, str]) -> Axes:
    return tuple(Axis(plain[axis.name], axis.pre, axis.size) for axis in axes)


def _sharding(sharding: TensorSharding, plain: Mapping[str, str]) -> TensorSharding:
    return TensorSharding(
        _mesh(sharding.mesh, plain),
        tuple(dataclasses.replace(dim, axes=_axes(dim.axes, plain)) for dim in sharding.dims),
        _axes(sharding.replicated, plain),
        _axes(sharding.unreduced, plain),
        _axes(sharding.manual, plain),
    )
