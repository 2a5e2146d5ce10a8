"""Replica groups that name mesh axes, as in shard_map of JAX 0.12, become lists of partitions."""

from __future__ import annotations

from collections.abc import Iterable

from jaxlib.mlir import ir

from gspmd.dialect.group_axes import names_axes, read_group_axes
from gspmd.transforms.ir.groups import replica_groups
from gspmd.transforms.ir.modules import codec_of
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.parsing.mlir import located

_GROUPS = "replica_groups"


def list_groups(module: Operation, collectives: Iterable[Operation]) -> None:
    """Expand the groups of these operations where they name axes of a mesh.

    Errors: AnnotationError (located) for an unknown mesh or axis.
    """
    named = [op for op in collectives if _GROUPS in op.attributes and names_axes(op.attributes[_GROUPS])]
    if named:
        meshes = codec_of(module).meshes
        for op in named:
            with located(op):
                groups = replica_groups(*read_group_axes(op.attributes[_GROUPS], meshes))
                op.attributes[_GROUPS] = ir.DenseElementsAttr.get(groups)
