"""Several device orders: the choice of that of the program, and annotations over the others.

Arguments and results of @main keep their orders in an attribute, for `gspmd-order`. Bodies of manual computations
contain device ids in the order of their mesh, which are renamed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np
import numpy.typing as npt
from jaxlib.mlir import ir

from gspmd.dialect import device_order
from gspmd.dialect.common_mesh import order_of, tiling_of
from gspmd.dialect.device_order import DeviceOrder
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, Unsupported
from gspmd.dialect.hlo_sharding import Tiled
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.orders import AnnotationOrder, Orders, choose_orders, tiling_written, written_by
from gspmd.dialect.own_attributes import DEVICE_IDS
from gspmd.transforms.emit.builder import Builder, bytes_of
from gspmd.transforms.ingest.annotations import Annotations, OpAnnotation, given
from gspmd.transforms.ir.boundary_orders import order_attribute
from gspmd.transforms.ir.collective_groups import groups_of, is_collective, set_groups
from gspmd.transforms.ir.groups import renamed_groups
from gspmd.transforms.ir.modules import context_of, function_types
from gspmd.transforms.ir.operations import Operation, Point
from gspmd.transforms.ir.program import MANUAL
from gspmd.transforms.parsing.mlir import located


def several_orders(annotations: Annotations, main: Operation, whole: Collection[Mesh]) -> Orders:
    """The device orders of all annotations; those of the arguments and results of `main` count.

    Axes of the meshes `whole`, those of manual computations, become whole axes.
    """
    weights = _weights(annotations, main)
    found: dict[Tiled, AnnotationOrder] = {}
    used = {sharding.mesh for sharding in annotations.shardings if sharding.mesh.size > 1}
    named = [mesh for mesh in annotations.meshes if mesh in used]
    for mesh in (*named, *sorted(used.difference(named), key=repr)):
        found[tiling_of(mesh)] = AnnotationOrder(tiling_of(mesh), mesh)
    for sharding in annotations.hlo_shardings():
        one = written_by(sharding)
        if one is not None:
            known = found.get(one.tiling, one)
            found[one.tiling] = dataclasses.replace(known, cuts=known.cuts + one.cuts)
    for one in found.values():
        first = next(iter(found.values())).tiling.num_devices
        if one.tiling.num_devices != first:
            raise AnnotationError(
                f"shardings over {first} and over {one.tiling.num_devices} devices",
                hint="use all devices in every one",
                code=Code.DEVICE_COUNT,
            )
    written = [dataclasses.replace(one, bytes=weights.get(one.tiling, 0)) for one in found.values()]
    orders = choose_orders(written, written[0].tiling.num_devices, whole)
    name = orders.mesh.name or next((mesh.name for mesh in annotations.meshes if mesh.name), "mesh")
    return dataclasses.replace(orders, mesh=dataclasses.replace(orders.mesh, name=name))


def _weights(annotations: Annotations, main: Operation) -> dict[Tiled, int]:
    """The bytes of arguments and results of @main, by device order."""
    inputs, results = function_types(main)
    found = dict[Tiled, int]()
    for name, types in (("arg_attrs", inputs), ("res_attrs", results)):
        entries = given(main.attributes, name) or ()
        for entry, type_ in zip(entries, types, strict=False):
            tiling = _tiling_said(annotations.of(entry))
            if tiling is not None:
                found[tiling] = found.get(tiling, 0) + int(bytes_of(type_))
    return found


def _tiling_said(said: OpAnnotation | None) -> Tiled | None:
    """The mesh or order of the annotation of a value; None if the value is not split."""
    if said is None:
        return None
    if said.sdy is not None:
        sharding = said.sdy[0]
        return tiling_of(sharding.mesh) if sharding.mesh.size > 1 and sharding.used_axes() else None
    assert said.hlo is not None
    return tiling_written(said.hlo.sharding.leaves(1)[0])


def order_written(orders: Orders, said: OpAnnotation) -> DeviceOrder | None:
    """The device order of the annotation of a value; None if the value is not split."""
    tiling = _tiling_said(said)
    return None if tiling is None else orders.of(tiling)


def order_of_mesh(mesh: Mesh, orders: Orders | None) -> DeviceOrder | None:
    """The device order of a mesh, in the form that `mark_orders` takes."""
    return None if orders is None or mesh.size == 1 else orders.of(tiling_of(mesh))


def mark_orders(op: Operation, found: set[DeviceOrder | None]) -> None:
    """Mark the device order of a manual computation, None if it is irrelevant. Raises Unsupported for several."""
    orders = [order for order in found if order is not None]
    if len(orders) > 1:
        raise Unsupported(
            "manual computation whose operands and results are over several device orders",
            hint="use one mesh for all of them",
            code=Code.DEVICE_ORDERS,
        )
    for order in orders:
        op.attributes[DEVICE_IDS] = order_attribute(order, context_of(op))


def rename_devices(main: Operation, mesh: Mesh) -> None:
    """Rename the device ids in the bodies of marked manual computations, and remove the marks.

    Raises Unsupported (located) for nested manual computations over different orders.
    """
    for op in [op for op in main.walk() if op.name == MANUAL]:
        if DEVICE_IDS in op.attributes:  # nested ones are handled with the outer one
            mark = op.attributes[DEVICE_IDS]
            renaming = np.empty(mesh.size, np.int64)
            renaming[np.array(ir.DenseI64ArrayAttr(mark))] = device_order.expand(order_of(mesh))
            for inner in list(op.walk()):
                _rename(inner, mark, renaming)
            del op.attributes[DEVICE_IDS]


def _rename(op: Operation, mark: ir.Attribute, renaming: npt.NDArray[np.int64]) -> None:
    """`renaming`: the device id of the program by that in the source."""
    attributes = op.attributes
    if op.name == MANUAL and DEVICE_IDS in attributes:
        if attributes[DEVICE_IDS] != mark:
            with located(op):
                raise Unsupported(
                    "manual computation inside one over another device order",
                    hint="use one mesh for both",
                    code=Code.DEVICE_ORDERS,
                )
        del attributes[DEVICE_IDS]
    elif (renaming == np.arange(len(renaming))).all():
        return
    elif is_collective(op):
        groups = groups_of(op)
        if isinstance(groups, ir.DenseElementsAttr):
            with located(op):
                set_groups(op, renamed_groups(groups, renaming))
    elif op.name == "stablehlo.partition_id":
        rename_partition_id(op, np.argsort(renaming))


def rename_partition_id(op: Operation, names: npt.NDArray[np.int64]) -> None:
    """Replace a `stablehlo.partition_id` by the renamed id of each device."""
    build = Builder(context_of(op))
    build.point, build.location = Point.at(op), op.location
    op.replace([build.partition_named(names)])
