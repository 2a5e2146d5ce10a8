"""A permute inside groups of devices, for control flow that not all devices enter.

`stablehlo.collective_permute` has no groups: XLA waits for every device of the program, even for those in another
branch. So an all-gather, which has groups, is used.
"""

from __future__ import annotations

import math

import numpy as np

from gspmd.dialect.axes import Axes, Axis, size_of
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.emit.collective_builder import Cause
from gspmd.transforms.emit.emitter import INDEX, Emitter
from gspmd.transforms.exchange.pieces import lookup
from gspmd.transforms.ir.groups import Ids, replica_groups
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.types import TensorType

ABSENT = -1


def permute(emit: Emitter, value: Value, pairs: Ids, axes: Axes, cause: Cause) -> Value:
    """The value of each target's source, for pairs of partition ids (`[pairs, 2]`); zero on all other devices."""
    type_ = value.type
    if not emit.apart or not math.prod(type_.shape):
        return emit.collective_permute(value, pairs, axes, cause)
    axes, source = sources(emit.mesh, pairs, axes)
    if not axes:
        return value
    gathered = emit.all_gather(emit.reshape(value, (1, *type_.shape)), 0, axes, cause)
    found = np.array(source, np.int64)
    present = found != ABSENT
    start = _scalar(emit, lookup(emit, axes, found, present, len(source) - 1))
    sizes = (1, *type_.shape)
    zeros = [emit.constant(INDEX, 0)] * type_.rank
    taken = emit.op(
        "stablehlo.dynamic_slice",
        [gathered, start, *zeros],
        [TensorType(sizes, type_.element)],
        slice_sizes=emit.i64s(sizes),
    )
    taken = emit.reshape(taken, type_.shape)
    if present.all():
        return taken
    named = _scalar(emit, lookup(emit, axes, present.astype(np.int64), np.ones_like(present), 1))
    is_named = emit.compare(named, "EQ", emit.constant(INDEX, 1))
    return emit.op("stablehlo.select", [is_named, taken, emit.constant(type_, "zero")], [type_])


def _scalar(emit: Emitter, index: int | Value) -> Value:
    return emit.constant(INDEX, index) if isinstance(index, int) else index


def sources(mesh: Mesh, pairs: Ids, axes: Axes) -> tuple[Axes, tuple[int, ...]]:
    """The axes along which the devices of pairs differ, preferably the given ones, and the source of each target.

    Both are numbered along these axes; a device without a source has `ABSENT`.
    """
    before, after = pairs[:, 0], pairs[:, 1]
    rows, columns = _group_positions(mesh, axes)
    if (rows[before] != rows[after]).any():
        axes = tuple(axis for axis in mesh.all_axes() if _differ(mesh, axis, before, after))
        rows, columns = _group_positions(mesh, axes)
    found = np.full(size_of(axes), ABSENT)
    found[columns[after]] = columns[before]
    return axes, tuple(int(source) for source in found)


def _differ(mesh: Mesh, axis: Axis, before: Ids, after: Ids) -> bool:
    _, columns = _group_positions(mesh, (axis,))
    return bool((columns[before] != columns[after]).any())


def _group_positions(mesh: Mesh, axes: Axes) -> tuple[Ids, Ids]:
    """The group of every partition, and its position in the group."""
    groups = replica_groups(mesh, axes)
    rows, columns = np.divmod(np.argsort(groups.reshape(-1)), groups.shape[1])
    return rows, columns
