"""One step of a reshard: chosen by the search, written as an `sdy` collective, and emitted.

For example, `f32[8,4] [{"x"}, {}] -> [{}, {"x"}]` over x=4 is one step: `kind` is "all_to_all", `after` is [{}, {"x"}],
and `moves` is ((x, 0, 1),). It is emitted as one all-to-all, for which a device sends 24 bytes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, canonical, size_of, without
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.sdy_attrs import (
    read_axes,
    read_axis_lists,
    read_axis_moves,
    write_axes,
    write_axis_lists,
    write_axis_moves,
)
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.emit.collective_builder import Cause
from gspmd.transforms.emit.counting import CountingEmitter, Sent, counting_context, mesh_along
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.emit.local_op import local_type
from gspmd.transforms.exchange.block_emission import exchange_blocks
from gspmd.transforms.exchange.blocks import AxisMoves, exchange_between_orders, misaligned, nests_either_way
from gspmd.transforms.exchange.direct import AxisSwap, DirectExchange, direct_exchange
from gspmd.transforms.exchange.grouped_permute import permute
from gspmd.transforms.exchange.halo import realignment, realignments, redistribute
from gspmd.transforms.exchange.sparse_gather import gather_into_place, is_mostly_padding
from gspmd.transforms.ir.groups import permutation_pairs
from gspmd.transforms.ir.operations import Block, Value
from gspmd.transforms.ir.types import TensorType


@dataclasses.dataclass(frozen=True, slots=True)
class ReshardStep:
    """One step: `kind` is the name of the `sdy` operation; `after` the resulting sharding.

    `dims` are the axes per dimension of an all_gather, all_slice or reduce_scatter; `axes` those of an all_reduce;
    `moves` the (axes, source dim, target dim) of an all_to_all. A `reshard` changes the tiles of dimensions, and
    the boundaries before and after need not nest. `orders` are the device orders before and after a reshard, if they
    differ, as the device at each position of the mesh.
    """

    kind: str
    after: TensorSharding
    dims: tuple[Axes, ...] = ()
    axes: Axes = ()
    moves: AxisMoves = ()
    orders: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    def emit(self, emit: Emitter, held: ShardedValue, cause: Cause, combiner: str = "add") -> Value:
        """A device's shard after the step; `combiner` reduces partial values.

        Raises Unsupported for a reshard that takes too many messages.
        """
        return _KINDS[self.kind].emit(_Emission(self, emit, held, cause, combiner))

    @functools.lru_cache(maxsize=2**14)  # noqa: B019  (steps are values, and searches repeat the same calls)
    def sent(self, type_: TensorType, before: TensorSharding) -> tuple[Sent, ...]:
        """The collectives of the step for a value of this global type with the sharding `before`."""
        location = ir.Location.unknown(counting_context())
        entry = Block([local_type(type_, before)], [location])
        emit = CountingEmitter(counting_context(), mesh_along(before.mesh, self._axes(type_, before)), entry)
        (value,) = entry.arguments
        self.emit(emit, ShardedValue(type_, before, value), Cause("", location))
        return tuple(emit.sent)

    def _axes(self, type_: TensorType, before: TensorSharding) -> Axes:
        """The axes along which the step may send."""
        if self.orders is not None:
            return before.mesh.all_axes()
        used = (*before.used_axes(), *self.after.used_axes(), *self.axes)
        direct = _direct_exchange(type_, before, self.after) if self.kind == "reshard" else None
        return used if direct is None else used + direct.axes


@dataclasses.dataclass(frozen=True, slots=True)
class ShardedValue:
    """The shard `value` of a value of a global `type` with a sharding."""

    type: TensorType
    sharding: TensorSharding
    value: Value


class _Emission:
    """The emission of a step."""

    def __init__(self, step: ReshardStep, emit: Emitter, held: ShardedValue, cause: Cause, combiner: str) -> None:
        self.step = step
        self.emit = emit
        self.type, self.before, self.value = held.type, held.sharding, held.value
        self.after = step.after
        self.cause = cause
        self.combiner = combiner

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The per-device shape of the result."""
        return self.after.local_shape(self.type.shape)

    def dims(self) -> dict[int, Axes]:
        """The axes of the step's dimensions."""
        return {dim: axes for dim, axes in enumerate(self.step.dims) if axes}


def _all_gather(e: _Emission) -> Value:
    shape, before, after = e.type.shape, e.before.dim_axes(), e.after.dim_axes()
    crossed = misaligned(shape, before, after)
    if not crossed and is_mostly_padding(shape, before, after):
        return gather_into_place(e.emit, e.value, e.dims(), e.local_shape, e.cause)
    value = e.emit.all_gather_dims(e.value, e.dims(), e.cause)
    local = [n if dim in crossed else m for dim, (n, m) in enumerate(zip(value.type.shape, e.local_shape, strict=True))]
    value = e.emit.slice(value, local)
    for dim in crossed:
        count, axes = size_of(before[dim]), after[dim]
        exchange = realignment(shape[dim], count, count // size_of(axes))
        value = redistribute(e.emit, value, dim, axes, axes, exchange, e.cause)
    return value


def _all_slice(e: _Emission) -> Value:
    return e.emit.shard_dims(e.value, e.dims())


def _all_reduce(e: _Emission) -> Value:
    return e.emit.all_reduce(e.value, e.step.axes, e.combiner, e.cause)


def _reduce_scatter(e: _Emission) -> Value:
    value = e.value
    local = list(e.before.local_shape(e.type.shape))
    for dim, axes in e.dims().items():
        local[dim] = -(-local[dim] // size_of(axes)) * size_of(axes)
        value = e.emit.reduce_scatter(e.emit.pad_to(value, local), dim, axes, e.combiner, e.cause)
        local[dim] //= size_of(axes)
    return value


def _all_to_all(e: _Emission) -> Value:
    """All-to-alls of axes that change their dimension: one if all are even, else one after the other."""
    before, after, shape, moves = list(e.before.dim_axes()), e.after.dim_axes(), e.type.shape, e.step.moves
    if len(moves) > 1 and all(map(nests_either_way, shape, before, after)):
        return AxisSwap(shape, e.before.dim_axes(), after, moves).emit(e.emit, e.value, e.cause)
    value = e.value
    for axes, source, target in moves:
        count, local = size_of(axes), list(value.type.shape)
        local[target] = -(-local[target] // count) * count
        value = e.emit.all_to_all(e.emit.pad_to(value, local), target, source, axes, e.cause)
        sizes = shape[source], shape[target]
        counts = size_of(before[source]), size_of(before[target])
        before[source], before[target] = without(before[source], axes), canonical(before[target] + axes)
        for dim, exchange in zip((source, target), realignments(sizes, counts, count), strict=True):
            value = redistribute(e.emit, value, dim, before[dim], before[dim], exchange, e.cause)
    assert tuple(before) == after
    return value


def _reshard(e: _Emission) -> Value:
    if e.step.orders is not None:
        dims = e.before.dim_axes(), e.after.dim_axes()
        exchange = exchange_between_orders(e.before.mesh, e.type.shape, *dims, *e.step.orders)
        assert exchange is not None, "it existed when the reshard was chosen"
        return e.emit.slice(exchange_blocks(e.emit, e.value, exchange, e.cause), e.local_shape)
    if e.before.dim_axes() == e.after.dim_axes():
        return e.value
    direct = _direct_exchange(e.type, e.before, e.after)
    if direct is None:
        raise Unsupported("of these dimensions takes too many messages", hint="write one for each dimension")
    return direct.emit(e.emit, e.value, e.cause)


def _direct_exchange(type_: TensorType, before: TensorSharding, after: TensorSharding) -> DirectExchange | None:
    return direct_exchange(
        before.mesh, type_.shape, before.dim_axes(), after.dim_axes(), (*before.unreduced, *before.manual)
    )


def _collective_permute(e: _Emission) -> Value:
    before, after = ([axis for axes in s.dim_axes() for axis in axes] for s in (e.before, e.after))
    pairs = permutation_pairs(e.emit.mesh, tuple(before), tuple(after))
    made: Value = permute(e.emit, e.value, pairs, tuple(after), e.cause)
    return made


class Attribute(NamedTuple):
    """The attribute of an `sdy` operation besides its result sharding, and the field of the step that it holds."""

    name: str
    field: str
    write: Callable[[Any, Mesh, ir.Context], ir.Attribute]
    read: Callable[[ir.Attribute, Mesh], Any]


def _axis_lists(name: str) -> Attribute:
    return Attribute(name, "dims", write_axis_lists, read_axis_lists)


class _Kind(NamedTuple):
    """The emission of a kind of step, its attribute, and whether it reduces partial values.

    Without an attribute, the shardings before and after determine the step.
    """

    emit: Callable[[_Emission], Value]
    attribute: Attribute | None = None
    reduces: bool = False


_KINDS = {
    "all_gather": _Kind(_all_gather, _axis_lists("gathering_axes")),
    "all_slice": _Kind(_all_slice, _axis_lists("slicing_axes")),
    "all_reduce": _Kind(_all_reduce, Attribute("reduction_axes", "axes", write_axes, read_axes), reduces=True),
    "reduce_scatter": _Kind(_reduce_scatter, _axis_lists("reduce_scatter_axes"), reduces=True),
    "all_to_all": _Kind(_all_to_all, Attribute("params", "moves", write_axis_moves, read_axis_moves)),
    "collective_permute": _Kind(_collective_permute),
    "reshard": _Kind(_reshard),
}
KINDS = frozenset(_KINDS)
"""The kinds of steps: names of `sdy` operations."""
REDUCTIONS = frozenset(name for name, kind in _KINDS.items() if kind.reduces)
"""The kinds that reduce partial values."""
ATTRIBUTES = {name: kind.attribute for name, kind in _KINDS.items() if kind.attribute is not None}
"""By kind, the attributes of the `sdy` operations that have one."""
