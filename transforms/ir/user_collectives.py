"""Collectives in manual computations, along manual axes.

Their groups list partitions of the whole mesh. They must be the same at every position of the free axes, because along
these a value is global.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.device_order import check_listed
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, Unsupported
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_axes
from gspmd.transforms.ir.annotated import AnnotatedProgram
from gspmd.transforms.ir.collective_groups import DEVICE_IDS, FLAGGED, groups_of, has_channel, is_collective
from gspmd.transforms.ir.collective_notes import notes
from gspmd.transforms.ir.groups import check_partitions, replica_groups
from gspmd.transforms.ir.manual import check_free, ops_in_regions
from gspmd.transforms.ir.modules import context_of
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.program import MANUAL
from gspmd.transforms.ir.ragged_call import is_ragged
from gspmd.transforms.ir.reducers import combiner_of
from gspmd.transforms.parsing.mlir import located

Ids = npt.NDArray[np.int64]


def check_manual(annotated: AnnotatedProgram) -> None:
    """Check manual computations, and annotate their collectives with axes and cause.

    A collective with groups of one device, such as along an axis of size 1, has no effect and gets no axes.

    Errors (located): Unsupported for collectives and device ids along axes that are not manual; AnnotationError for
    shardings over manual axes.
    """
    program, mesh = annotated.program, annotated.mesh
    sought = DEVICE_IDS | {MANUAL}
    if not any(op.info.name in sought or is_collective(op.ir) for op in program.ops):
        return
    for op, held, _ in ops_in_regions(program, annotated.codec, mesh):
        name = op.info.name
        if is_collective(op.ir):
            with located(op.ir):
                _check_collective(op.ir, name, held, mesh)
        elif name in DEVICE_IDS:
            with located(op.ir):
                _check_device(held, mesh)
        elif held:
            said = annotated.of_op(op) or ()
            entering = annotated.region(op).in_shardings if name == MANUAL else ()
            check_free(op, said + entering, held)


def summed_axes(op: Operation, mesh: Mesh, manual: Collection[str]) -> Axes:
    """The axes over which an all-reduce in a manual computation over the named axes sums; () if it does not."""
    if not has_channel(op) or "use_global_device_ids" not in op.attributes or combiner_of(op.regions[0]) != "add":
        return ()
    held = tuple(axis for axis in mesh.all_axes() if axis.name in manual)
    groups = _ids(groups_of(op), mesh)
    axes = _axes_of(groups, held, mesh) or ()
    return axes if groups.shape[1] == size_of(axes) and (groups >= 0).all() else ()


def _check_device(held: Axes, mesh: Mesh) -> None:
    if held == mesh.all_axes():
        return
    if not held:
        raise Unsupported(
            "depends on the device it runs on",
            hint="give a program for one device; the partitioner adds what devices need",
            code=Code.COMMUNICATION,
        )
    raise Unsupported(
        f"depends on axes that the manual computation around it does not hold: it holds {print_axes(held, mesh)}",
        hint="put it into a manual computation over all axes, as 'jax.lax.axis_index' does",
        code=Code.MANUAL,
    )


def _check_collective(op: Operation, name: str, held: Axes, mesh: Mesh) -> None:
    attributes = op.attributes
    if not has_channel(op) or (name in FLAGGED and "use_global_device_ids" not in attributes):
        has = "a 'channel_id'" if is_ragged(op) else "a channel handle and 'use_global_device_ids'"
        raise Unsupported("has groups of replicas", hint=f"name partitions: give it {has}", code=Code.COMMUNICATION)
    groups = _ids(groups_of(op), mesh)
    axes = _axes_of(groups, held, mesh)
    if axes is None and not held:
        raise Unsupported(
            "communicates between devices",
            hint="give a program for one device, or put it into a manual computation",
            code=Code.COMMUNICATION,
        )
    if axes is None:
        raise AnnotationError(
            f"has groups that do not stay within the manual axes {print_axes(held, mesh)}, alike along all others",
            hint="group partitions that differ along axes of the manual computation only",
            code=Code.MANUAL,
        )
    if not axes and len(groups) < mesh.size:
        axes = held  # groups of one device, which do not include all devices
    for note, said in notes(axes, mesh, "written by the user", context_of(op)).items():
        attributes[note] = said


def _ids(attribute: ir.Attribute, mesh: Mesh) -> Ids:
    """Partition ids, `[groups, devices in a group]`; shorter groups end with -1.

    An empty list means one group of all.
    """
    if not isinstance(attribute, ir.DenseElementsAttr):
        raise Unsupported("has groups that are not lists of partitions", hint="list the partitions of each group")
    check_listed(mesh.size)
    found = np.array(ir.DenseIntElementsAttr(attribute), np.int64)
    if not found.size:
        return np.arange(mesh.size, dtype=np.int64).reshape(1, -1)
    check_partitions(found, mesh.size)
    return found.reshape(ir.ShapedType(attribute.type).shape)


def _axes_of(groups: Ids, held: Axes, mesh: Mesh) -> Axes | None:
    """The manual axes along which the devices of a group differ.

    None if they differ along free axes, or if groups differ between positions along these.
    """
    table = replica_groups(mesh, held)
    order = np.argsort(table.reshape(-1))
    free, manual = np.divmod(order, table.shape[1])
    absent = groups < 0
    free = np.where(absent, free[groups[:, :1]], free[groups])
    manual = np.where(absent, -1, manual[groups])
    if (free != free[:, :1]).any():
        return None
    rows = np.concatenate([free[:, :1], manual], axis=1)
    rows = rows[np.lexsort(rows.T[::-1])]
    if len(rows) % len(table) or (rows[:, 0] != np.repeat(np.arange(len(table)), len(rows) // len(table))).any():
        return None
    alike = rows[:, 1:].reshape(len(table), -1)
    if (alike != alike[0]).any():
        return None
    members = np.where(manual < 0, manual[:, :1], manual)
    coordinates = np.unravel_index(members, [axis.size for axis in held]) if held else ()
    return tuple(axis for axis, where in zip(held, coordinates, strict=True) if (where != where[:, :1]).any())
