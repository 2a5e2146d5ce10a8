"""The per-device form of the `sdy` collectives, uneven dimensions included."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from gspmd.dialect.axes import Axes, canonical, size_of, without
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.own_attributes import CAUSE, COMBINER, SOURCE_DEVICE_IDS, TARGET_DEVICE_IDS
from gspmd.dialect.sdy_attrs import read_axes, read_axis_lists, read_axis_moves
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.emit.collective_builder import Cause
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.exchange.blocks import AxisMoves, all_to_all_moves, exchange_between_orders, nests_either_way
from gspmd.transforms.exchange.direct import Retiling, changed_dims, direct_way
from gspmd.transforms.exchange.grouped_permute import permute
from gspmd.transforms.exchange.halo import realignments, redistribute
from gspmd.transforms.ir.groups import permutation_pairs
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.localize.blocks import all_to_all_dims, exchange_blocks
from gspmd.transforms.parsing.attribute_text import required_text

RESHARD = sdy.ReshardOp.OPERATION_NAME


class GlobalCollective:
    """One `sdy` collective: `type` is global, `before` and `after` its shardings, `value` per-device."""

    def __init__(
        self,
        op: Operation,
        type_: TensorType,
        before: TensorSharding,
        after: TensorSharding,
        value: Value,
        emit: Emitter,
    ) -> None:
        self.op = op
        self.type = type_
        self.before = before
        self.after = after
        self.value = value
        self.emit = emit
        attributes = op.attributes
        text = required_text(attributes, CAUSE) if CAUSE in attributes else "written by the user"
        self.cause = Cause(text, op.location)
        self.combiner = required_text(attributes, COMBINER) if COMBINER in attributes else "add"

    @property
    def local_shape(self) -> tuple[int, ...]:
        """Per-device shape of the result."""
        return self.after.local_shape(self.type.shape)

    def dims(self, name: str) -> dict[int, Axes]:
        """A list of axis lists, one a dimension, without the empty ones."""
        return {
            dim: axes for dim, axes in enumerate(read_axis_lists(self.op.attributes[name], self.before.mesh)) if axes
        }


def _all_gather(c: GlobalCollective) -> Any:
    gathered = c.emit.all_gather_dims(c.value, c.dims("gathering_axes"), c.cause)
    return c.emit.slice(gathered, c.local_shape)


def _all_slice(c: GlobalCollective) -> Any:
    return c.emit.shard_dims(c.value, c.dims("slicing_axes"))


def _all_reduce(c: GlobalCollective) -> Any:
    axes = read_axes(c.op.attributes["reduction_axes"], c.before.mesh)
    return c.emit.all_reduce(c.value, axes, c.combiner, c.cause)


def _reduce_scatter(c: GlobalCollective) -> Any:
    value = c.value
    local = list(c.before.local_shape(c.type.shape))
    for dim, axes in c.dims("reduce_scatter_axes").items():
        local[dim] = -(-local[dim] // size_of(axes)) * size_of(axes)
        value = c.emit.reduce_scatter(c.emit.pad_to(value, local), dim, axes, c.combiner, c.cause)
        local[dim] //= size_of(axes)
    return value


def _all_to_all(c: GlobalCollective) -> Any:
    return _moved(c, read_axis_moves(c.op.attributes["params"], c.before.mesh))


def _moved(c: GlobalCollective, moves: AxisMoves) -> Any:
    """All-to-alls of axes that go to other dimensions: one if all of these divide, else one after the other."""
    before, after = list(c.before.dim_axes()), c.after.dim_axes()
    if len(moves) > 1 and all(map(nests_either_way, c.type.shape, before, after)):
        return _at_once(c, moves)
    value = c.value
    for axes, source, target in moves:
        count, local = size_of(axes), list(value.type.shape)
        local[target] = -(-local[target] // count) * count
        value = c.emit.all_to_all(c.emit.pad_to(value, local), target, source, axes, c.cause)
        sizes = c.type.shape[source], c.type.shape[target]
        counts = size_of(before[source]), size_of(before[target])
        before[source], before[target] = without(before[source], axes), canonical(before[target] + axes)
        for dim, exchange in zip((source, target), realignments(sizes, counts, count), strict=True):
            value = redistribute(c.emit, value, dim, before[dim], before[dim], exchange, c.cause)
    assert tuple(before) == after
    return value


def _at_once(c: GlobalCollective, moves: AxisMoves) -> Any:
    held, goal = c.before.local_shape(c.type.shape), c.local_shape
    counts = [math.prod(size_of(axes) for axes, _, to in moves if to == d) for d in range(len(held))]
    padded = [m * count if count > 1 else n for n, m, count in zip(held, goal, counts, strict=True)]
    value = c.value
    if padded != list(held):
        # Pieces that are nothing but padding must not become constants: see `CollectiveBuilder.all_to_all`.
        value = c.emit.kept_apart(c.emit.pad_to(value, padded))
    return c.emit.slice(all_to_all_dims(c.emit, value, moves, c.after.dim_axes(), c.cause), goal)


def _reshard(c: GlobalCollective) -> Any:
    """The direct exchange: other tiles of one dimension, an all-to-all of several, or blocks in rounds."""
    before, after, shape = c.before.dim_axes(), c.after.dim_axes(), c.type.shape
    if SOURCE_DEVICE_IDS in c.op.attributes:
        names = (SOURCE_DEVICE_IDS, TARGET_DEVICE_IDS)
        source, target = (tuple(ir.DenseI64ArrayAttr(c.op.attributes[name])) for name in names)
        exchange = exchange_between_orders(c.before.mesh, shape, before, after, source, target)
        assert exchange is not None, "it was there when the reshard was chosen"
        return c.emit.slice(exchange_blocks(c.emit, c.value, exchange, c.cause), c.local_shape)
    changed = changed_dims(before, after)
    if not changed:
        return c.value
    if len(changed) > 1:
        moves = all_to_all_moves(before, after)
        if moves and all(map(nests_either_way, shape, before, after)):
            return _at_once(c, moves)
    way = direct_way(c.before.mesh, shape, before, after, (*c.before.unreduced, *c.before.manual))
    if way is None:
        raise Unsupported("of these dimensions takes too many messages", hint="write one for each dimension")
    if isinstance(way, Retiling):
        return redistribute(c.emit, c.value, way.dim, before[way.dim], way.joint, way.exchange, c.cause)
    return c.emit.slice(exchange_blocks(c.emit, c.value, way, c.cause), c.local_shape)


def _collective_permute(c: GlobalCollective) -> Any:
    before = tuple(axis for axes in c.before.dim_axes() for axis in axes)
    after = tuple(axis for axes in c.after.dim_axes() for axis in axes)
    mesh = c.before.mesh
    return permute(c.emit, c.value, permutation_pairs(mesh, before, after), after, c.cause)


COLLECTIVES: dict[str, Callable[[GlobalCollective], Any]] = {
    sdy.AllGatherOp.OPERATION_NAME: _all_gather,
    sdy.AllSliceOp.OPERATION_NAME: _all_slice,
    sdy.AllReduceOp.OPERATION_NAME: _all_reduce,
    sdy.ReduceScatterOp.OPERATION_NAME: _reduce_scatter,
    sdy.AllToAllOp.OPERATION_NAME: _all_to_all,
    sdy.CollectivePermuteOp.OPERATION_NAME: _collective_permute,
    RESHARD: _reshard,
}
