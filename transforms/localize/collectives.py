"""The per-device form of the `sdy` collectives, uneven dimensions included."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from gspmd.dialect.axes import Axes, canonical, size_of, without
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_axes
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.support.builder import read_type
from gspmd.transforms.support.collective_builder import Cause
from gspmd.transforms.support.emitter import Emitter
from gspmd.transforms.support.grouped_permute import permute
from gspmd.transforms.support.groups import permutation_pairs
from gspmd.transforms.support.halo import realignments, redistribute, retiling
from gspmd.transforms.support.op_info import TensorType

RESHARD = sdy.ReshardOp.OPERATION_NAME


class Collective:
    """One `sdy` collective: `type` is global, `before` and `after` its shardings, `value` per-device."""

    def __init__(
        self, op: Any, type_: TensorType, before: TensorSharding, after: TensorSharding, value: Any, emit: Emitter
    ) -> None:
        self.op = op
        self.type = type_
        self.before = before
        self.after = after
        self.value = value
        self.emit = emit
        attributes = op.attributes
        text = ir.StringAttr(attributes["gspmd.cause"]).value if "gspmd.cause" in attributes else "written by the user"
        self.cause = Cause(text, op.location)
        self.combiner = ir.StringAttr(attributes["gspmd.combiner"]).value if "gspmd.combiner" in attributes else "add"

    @property
    def local_shape(self) -> tuple[int, ...]:
        """Per-device shape of the result."""
        return self.after.local_shape(self.type.shape)

    def dims(self, name: str) -> dict[int, Axes]:
        """A list of axis lists, one a dimension, without the empty ones."""
        return {
            dim: axes for dim, axes in enumerate(_axis_lists(str(self.op.attributes[name]), self.before.mesh)) if axes
        }


@functools.lru_cache(maxsize=4096)
def _axis_lists(text: str, mesh: Mesh) -> tuple[Axes, ...]:
    """`#sdy<list_of_axis_ref_lists[{"x"}, {}]>`."""
    inner = text.split("[", 1)[1].rsplit("]", 1)[0]
    return tuple(parse_axes("{" + part.split("}")[0] + "}", mesh) for part in inner.split("{")[1:])


def _all_gather(c: Collective) -> Any:
    gathered = c.emit.all_gather_dims(c.value, c.dims("gathering_axes"), c.cause)
    return c.emit.slice(gathered, c.local_shape)


def _all_slice(c: Collective) -> Any:
    return c.emit.shard_dims(c.value, c.dims("slicing_axes"))


def _all_reduce(c: Collective) -> Any:
    text = str(c.op.attributes["reduction_axes"])
    axes = parse_axes("{" + text.split("{", 1)[1].rsplit("}", 1)[0] + "}", c.before.mesh)
    return c.emit.all_reduce(c.value, axes, c.combiner, c.cause)


def _reduce_scatter(c: Collective) -> Any:
    value = c.value
    local = list(c.before.local_shape(c.type.shape))
    for dim, axes in c.dims("reduce_scatter_axes").items():
        local[dim] = -(-local[dim] // size_of(axes)) * size_of(axes)
        value = c.emit.reduce_scatter(c.emit.pad_to(value, local), dim, axes, c.combiner, c.cause)
        local[dim] //= size_of(axes)
    return value


def _all_to_all(c: Collective) -> Any:
    value = c.value
    text = str(c.op.attributes["params"]).split("[", 1)[1].rsplit("]", 1)[0]
    before, after = list(c.before.dim_axes()), c.after.dim_axes()
    for part in text.split("{")[1:]:
        axes_text, where = part.split("}", 1)
        axes = parse_axes("{" + axes_text + "}", c.before.mesh)
        source, target = (int(n) for n in where.strip(" :,").split("->"))
        count, local = size_of(axes), list(read_type(value).shape)
        local[target] = -(-local[target] // count) * count
        value = c.emit.all_to_all(c.emit.pad_to(value, local), target, source, axes, c.cause)
        sizes = c.type.shape[source], c.type.shape[target]
        counts = size_of(before[source]), size_of(before[target])
        before[source], before[target] = without(before[source], axes), canonical(before[target] + axes)
        for dim, exchange in zip((source, target), realignments(sizes, counts, count), strict=True):
            value = redistribute(c.emit, value, dim, before[dim], before[dim], exchange, c.cause)
    assert tuple(before) == after
    return value


def _reshard(c: Collective) -> Any:
    """Other tiles for one dimension."""
    value = c.value
    changed = [d for d, (a, b) in enumerate(zip(c.before.dim_axes(), c.after.dim_axes(), strict=True)) if a != b]
    if len(changed) > 1:
        raise Unsupported("of more than one dimension is not supported", hint="write one for each dimension")
    for dim in changed:
        axes = c.before.dims[dim].axes, c.after.dims[dim].axes
        value = redistribute(c.emit, value, dim, *axes, retiling(c.type.shape[dim], *axes), c.cause)
    return value


def _collective_permute(c: Collective) -> Any:
    before = tuple(axis for axes in c.before.dim_axes() for axis in axes)
    after = tuple(axis for axes in c.after.dim_axes() for axis in axes)
    mesh = c.before.mesh
    return permute(c.emit, c.value, permutation_pairs(mesh, before, after), after, c.cause)


COLLECTIVES: dict[str, Callable[[Collective], Any]] = {
    sdy.AllGatherOp.OPERATION_NAME: _all_gather,
    sdy.AllSliceOp.OPERATION_NAME: _all_slice,
    sdy.AllReduceOp.OPERATION_NAME: _all_reduce,
    sdy.ReduceScatterOp.OPERATION_NAME: _reduce_scatter,
    sdy.AllToAllOp.OPERATION_NAME: _all_to_all,
    sdy.CollectivePermuteOp.OPERATION_NAME: _collective_permute,
    RESHARD: _reshard,
}
