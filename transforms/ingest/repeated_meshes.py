"""Manual computations over fewer devices than the program has: groups of devices do the same work.

Their bodies contain device ids of the smaller mesh. An attribute of the computation keeps the devices for each id until
the body is in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from jaxlib.mlir import ir

from gspmd.dialect import device_order
from gspmd.dialect.common_mesh import order_of
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.own_attributes import REPEATED
from gspmd.transforms.ingest.annotations import Annotations
from gspmd.transforms.ingest.orders import rename_partition_id
from gspmd.transforms.ir.collective_groups import groups_of, is_collective, set_groups
from gspmd.transforms.ir.groups import Ids, check_partitions
from gspmd.transforms.ir.modules import context_of
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.program import MANUAL
from gspmd.transforms.parsing.mlir import located


def held_axes(annotations: Annotations, mesh: Mesh, names: Sequence[str]) -> Sequence[str]:
    """The manual axes of a computation over `mesh`: if all axes in the source are manual, so is the axis of copies.

    The body may then read the partition id, which is the same for all copies.
    """
    written = annotations.written_as(mesh)
    if written is None or any(size > 1 and name not in names for name, size in written.axes):
        return names
    return [mesh.axes[0][0], *names]


def mark_repeated(op: Operation, annotations: Annotations, meshes: Iterable[Mesh]) -> None:
    """Mark the devices for each id in the body, if the source has a smaller mesh."""
    for mesh in meshes:
        written = annotations.written_as(mesh)
        if written is not None:
            table = np.empty((mesh.size // written.size, written.size), np.int64)
            devices = np.array(device_order.expand(order_of(mesh))).reshape(table.shape)
            table[:, list(device_order.expand(order_of(written)))] = devices
            op.attributes[REPEATED] = ir.DenseElementsAttr.get(table, context=context_of(op))


def number_all_devices(main: Operation) -> None:
    """Rewrite the bodies of marked computations to ids of all devices, and remove the marks.

    Raises Unsupported (located) for a nested computation over other devices.
    """
    for op in [op for op in main.walk() if op.name == MANUAL]:
        if REPEATED not in op.attributes:  # nested ones are handled with the outer one
            continue
        mark = op.attributes[REPEATED]
        del op.attributes[REPEATED]
        table = np.array(mark)
        numbers = np.empty(table.size, np.int64)
        numbers[table] = np.arange(table.shape[1])
        for inner in list(op.walk()):
            if inner.name == MANUAL:
                _check_inside(inner, mark)
            elif is_collective(inner):
                with located(inner):
                    set_groups(inner, _for_each_copy(np.array(groups_of(inner)), table, context_of(op)))
            elif inner.name == "stablehlo.partition_id":
                rename_partition_id(inner, numbers)


def _check_inside(op: Operation, mark: ir.Attribute) -> None:
    if REPEATED not in op.attributes or op.attributes[REPEATED] != mark:
        with located(op):
            raise Unsupported(
                "manual computation inside one over fewer devices", hint="use one mesh for both", code=Code.MANUAL
            )
    del op.attributes[REPEATED]


def _for_each_copy(groups: Ids, table: Ids, context: ir.Context) -> ir.Attribute:
    """The groups or pairs in the source, extended to all devices; an empty list means one group of all."""
    if not groups.size:
        groups = np.arange(table.shape[1]).reshape(1, -1) if groups.shape[-1:] != (2,) else groups
    check_partitions(groups, table.shape[1])
    copies = [np.where(groups < 0, -1, devices[groups]) for devices in table]
    return ir.DenseElementsAttr.get(np.ascontiguousarray(np.concatenate(copies), np.int64), context=context)
