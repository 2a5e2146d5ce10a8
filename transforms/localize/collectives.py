"""The per-device form of the `sdy` collectives, uneven dimensions included."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_axes
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.support.collective_builder import Cause
from gspmd.transforms.support.emitter import Emitter
from gspmd.transforms.support.groups import permutation_pairs
from gspmd.transforms.support.op_info import TensorType


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
    local = list(c.before.local_shape(c.type.shape))
    counts = list(c.before.shard_counts())
    for part in text.split("{")[1:]:
        axes_text, where = part.split("}", 1)
        axes = parse_axes("{" + axes_text + "}", c.before.mesh)
        source, target = (int(n) for n in where.strip(" :,").split("->"))
        count = size_of(axes)
        local[target] = -(-local[target] // count) * count
        value = c.emit.all_to_all(c.emit.pad_to(value, local), target, source, axes, c.cause)
        counts[source] //= count
        counts[target] *= count
        local = [-(-n // k) for n, k in zip(c.type.shape, counts, strict=True)]
        value = c.emit.slice(value, local)
    return value


def _collective_permute(c: Collective) -> Any:
    before = tuple(axis for axes in c.before.dim_axes() for axis in axes)
    after = tuple(axis for axes in c.after.dim_axes() for axis in axes)
    mesh = c.before.mesh
    return c.emit.collective_permute(c.value, permutation_pairs(mesh, before, after), after, c.cause)


COLLECTIVES: dict[str, Callable[[Collective], Any]] = {
    sdy.AllGatherOp.OPERATION_NAME: _all_gather,
    sdy.AllSliceOp.OPERATION_NAME: _all_slice,
    sdy.AllReduceOp.OPERATION_NAME: _all_reduce,
    sdy.ReduceScatterOp.OPERATION_NAME: _reduce_scatter,
    sdy.AllToAllOp.OPERATION_NAME: _all_to_all,
    sdy.CollectivePermuteOp.OPERATION_NAME: _collective_permute,
}
