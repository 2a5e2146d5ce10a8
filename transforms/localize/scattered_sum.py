"""Sums that a manual computation returns, of which each device then takes only its shard."""

from __future__ import annotations

from collections.abc import Mapping

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.mesh import Mesh
from gspmd.transforms.emit.collective_builder import Cause
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.ir.collective_groups import groups_of, kind_of
from gspmd.transforms.ir.groups import run_along
from gspmd.transforms.ir.operations import Point, Value
from gspmd.transforms.ir.program import MANUAL
from gspmd.transforms.ir.reducers import combiner_of

_WHY = "written by the user, who takes shards of the sum"


def scatter_sum(emit: Emitter, taken: Value, dims: tuple[Axes, ...], meshes: Mapping[str, Mesh]) -> bool:
    """Let a manual computation return only the shard over `dims` of its result `taken`, if that is an all-reduce.

    The user's all-reduce becomes a reduce-scatter, which sends half as much. Nothing else may read either value, and
    the shards have to be even, along one dimension, and over the axes of the all-reduce. `meshes` are those of the
    module, by name. Returns whether it was done.
    """
    split = [dim for dim, axes in enumerate(dims) if axes]
    manual = taken.op
    if manual is None or manual.name != MANUAL or len(split) != 1 or not taken.is_used_once:
        return False
    terminator = manual.regions[0].terminator
    summed = terminator.operands[taken.index]
    reduction = summed.op
    if reduction is None or kind_of(reduction) != "all_reduce" or len(reduction.results) != 1:
        return False
    (dim,) = split
    shape, count = summed.type.shape, size_of(dims[dim])
    if not summed.is_used_once or 0 in shape or shape[dim] % count or combiner_of(reduction.regions[0]) != "add":
        return False
    if not run_along(groups_of(reduction), emit.mesh, dims[dim], meshes):
        return False
    emit.point = Point.at(reduction)
    scattered = emit.reduce_scatter(reduction.operands[0], dim, dims[dim], "add", Cause(_WHY, reduction.location))
    terminator.operands[taken.index] = scattered
    reduction.erase()
    taken.type = scattered.type
    return True
