"""Collectives and slices that together are less: reduce-scatter for an all-reduce of which one shard is used."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, atoms, canonical, overlap, remove_prefix, size_of, split_at, starts_with, without
from gspmd.transforms.emit.collective_builder import CollectiveBuilder
from gspmd.transforms.emit.emitter import INDEX, Emitter
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.optimize.partition_values import PartitionValues
from gspmd.transforms.optimize.program import (
    CollectivePass,
    DeviceProgram,
    LocalCollective,
    dim_after,
    dim_before,
    integers,
    keeps_elements,
    splat_number,
)

_SLICE = "stablehlo.dynamic_slice"
_PAD = "stablehlo.pad"
_STEPS = 32  # operations between a reduction and the slice that are looked through


@dataclasses.dataclass(frozen=True)
class FuseCollectives(CollectivePass):
    """Turn an all-reduce of which each device keeps its shard into a reduce-scatter.

    Elementwise operations and transposes may stand in between, which then work on the shard; zeros make uneven shards
    even. A reduce-scatter that is gathered again becomes an all-reduce. A gather of which each device keeps its own
    shard is left out; where nobody needs more, only what is kept is gathered.
    """

    argument = "gspmd-fuse-collectives"
    summary = "Turn all-reduce and slice into reduce-scatter, and what is undone again into less"

    def apply(self, program: DeviceProgram) -> None:
        if program.mesh is None:
            return
        values = PartitionValues(program.mesh)
        for gather in program.collectives("all_gather"):
            _unscatter(program, gather)
        for gather in program.collectives("all_gather"):
            _cut_gather(program, gather, values)
        for reduce in program.collectives("all_reduce"):
            left: LocalCollective | None = _padded_first(program, reduce, values)
            while left is not None:
                left = _scatter(program, left, values)


# ---- reduce-scatter, then all-gather --------------------------------------------------------------


def _unscatter(program: DeviceProgram, gather: LocalCollective) -> None:
    op = gather.operand.op
    if op is None or op.name != "stablehlo.reduce_scatter" or len(op.operands) != 1:
        return
    scatter = LocalCollective(op, "reduce_scatter", program.mesh)
    same = scatter.groups == gather.groups
    same = same and scatter.dimension("scatter_dimension") == gather.dimension("all_gather_dim")
    if not same or not gather.axes or scatter.combiner is None:
        return
    if scatter.result.only_user is None:
        program.decline(op, "made an all-reduce with the gather after it", "the shard has other users")
        return
    emit = program.emitter(gather.op)
    value = emit.all_reduce(scatter.operand, scatter.axes, scatter.combiner, scatter.cause)
    gather.result.replace_all_uses_with(value)
    gather.op.erase()
    scatter.op.erase()
    program.changed()


# ---- all-gather, then the own shard ---------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class ShardCut:
    """How a device's shard is cut from a value: by dimension its start (a scalar), its size and the axes."""

    starts: dict[int, Value]
    sizes: dict[int, int]
    dims: dict[int, Axes]
    index: TensorType  # what a start of 0 is, of the same type as the others

    def local_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self.sizes.get(dim, n) for dim, n in enumerate(shape))

    def before(self, op: Operation) -> ShardCut:
        """The cut of the operand of an elementwise operation or transpose."""
        return self._moved(lambda dim: dim_before(op, dim))

    def after(self, op: Operation) -> ShardCut:
        """The cut of the result of an elementwise operation or transpose."""
        return self._moved(lambda dim: dim_after(op, dim))

    def without(self, dims: Iterable[int]) -> ShardCut:
        dropped = set(dims)
        return self._moved(lambda dim: None if dim in dropped else dim)

    def _moved(self, to: Callable[[int], int | None]) -> ShardCut:
        moved = [(new, dim) for dim in self.dims if (new := to(dim)) is not None]
        return ShardCut(
            {new: self.starts[dim] for new, dim in moved},
            {new: self.sizes[dim] for new, dim in moved},
            {new: self.dims[dim] for new, dim in moved},
            self.index,
        )

    def slice(self, emit: CollectiveBuilder, value: Value) -> Value:
        if not self.dims:
            return value
        type_ = value.type
        zero = emit.constant(self.index, 0)
        starts = [self.starts.get(dim, zero) for dim in range(type_.rank)]
        local = self.local_shape(type_.shape)
        return emit.op(_SLICE, [value, *starts], [TensorType(local, type_.element)], slice_sizes=emit.i64s(local))


def cut_of(slice_op: Operation, values: PartitionValues) -> ShardCut | str:
    """What a dynamic slice keeps: the axes of each dimension that it splits, or why that cannot be said."""
    shape = slice_op.operands[0].type.shape
    sizes = integers(slice_op.attributes["slice_sizes"])
    starts: dict[int, Value] = {}
    dims: dict[int, Axes] = {}
    for dim, (n, size) in enumerate(zip(shape, sizes, strict=True)):
        if n == size:
            continue  # starts are limited to 0
        if size == 0 or n % size:
            return f"the slice of {size} of {n} elements is no shard of dim {dim}"
        axes = values.shard_axes(slice_op.operands[1 + dim], size, n // size)
        if axes is None:
            return f"the slice of dim {dim} does not begin at the device's own shard"
        starts[dim], dims[dim] = slice_op.operands[1 + dim], axes
    return ShardCut(starts, {dim: sizes[dim] for dim in dims}, dims, slice_op.operands[-1].type)


def _cut_gather(program: DeviceProgram, gather: LocalCollective, values: PartitionValues) -> None:
    dim, axes = gather.dimension("all_gather_dim"), gather.axes
    rests: dict[Operation, Axes] = {}  # of each slice, what is still to be gathered for it
    for user in gather.result.users:
        if user.name != _SLICE or user.operands[0] != gather.result or not axes:
            continue
        cut = cut_of(user, values)
        if not isinstance(cut, str) and list(cut.dims) == [dim] and starts_with(axes, cut.dims[dim]):
            rests[user] = remove_prefix(axes, cut.dims[dim])
    is_instead = len(rests) == len(gather.result.users)
    if not is_instead or sum(size_of(rest) - 1 for rest in rests.values()) > size_of(axes) - 1:
        rests = {user: rest for user, rest in rests.items() if not rest}  # more would be sent
    for user, rest in rests.items():
        value = gather.operand
        if rest:
            value = program.emitter(user).all_gather(value, dim, rest, gather.cause)
        user.replace([value])
        program.changed()
    if not gather.result.is_used:
        gather.op.erase()
        program.changed()


# ---- all-reduce, then the own shard ---------------------------------------------------------------


def _scatter(program: DeviceProgram, reduce: LocalCollective, values: PartitionValues) -> LocalCollective | None:
    """Make the reduction one that scatters; what is left to be reduced over other axes, if anything is."""
    path = _path_to_slice(reduce)
    if not path:
        return None
    what = "made a reduce-scatter"
    cut = cut_of(path[-1], values)
    if isinstance(cut, str):
        program.decline(reduce.op, what, cut)
        return None
    for op in reversed(path[:-1]):
        cut = cut.before(op)
    if not any(overlap(axes, reduce.axes) for axes in cut.dims.values()):
        program.decline(reduce.op, what, "the shards are not cut along axes that it reduces over")
        return None
    if any(value.only_user is None for value in (reduce.result, *(op.results[0] for op in path[:-1]))):
        program.decline(reduce.op, what, "more than the shard of its result is used")
        return None
    shard = _shard_of_sum(program, reduce, cut, path[-1])
    if isinstance(shard, str):
        program.decline(reduce.op, what, shard)
        return None
    last, whole = shard.maker, reduce.result
    for op in path[:-1]:
        cut = cut.after(op)
        shard, whole = _on_shards(program, op, whole, shard, cut, path[-1]), op.results[0]
    path[-1].results[0].replace_all_uses_with(shard)
    for op in reversed((reduce.op, *path)):
        op.erase()
    program.changed()
    return LocalCollective(last, "all_reduce", program.mesh) if last.name == "stablehlo.all_reduce" else None


def _padded_first(program: DeviceProgram, reduce: LocalCollective, values: PartitionValues) -> LocalCollective:
    """A sum that is padded with zeros for shards to be even, and then cut, as a sum of padded values.

    The reduction itself otherwise. What stands between reduction and padding keeps it from being moved, and so does
    padding of which more would be sent than the reduction sends twice.
    """
    pad = reduce.result.only_user
    if pad is None or pad.name != _PAD or reduce.combiner != "add" or not _adds_zeros_behind(pad):
        return reduce
    cut = pad.results[0].only_user
    if cut is None or cut.name != _SLICE or not program.is_along_axes(reduce):
        return reduce
    found = cut_of(cut, values)
    if isinstance(found, str) or not any(overlap(axes, reduce.axes) for axes in found.dims.values()):
        return reduce
    scattered = size_of([axis for axes in found.dims.values() for axis in axes if overlap([axis], reduce.axes)])
    padded, whole = (math.prod(value.type.shape) for value in (pad.results[0], reduce.result))
    if _sent_in_parts(padded, scattered, size_of(reduce.axes)) > _sent_in_parts(whole, 1, size_of(reduce.axes)):
        return reduce
    emit = program.emitter(pad, reduce.op.location)
    value = emit.pad_to(reduce.operand, pad.results[0].type.shape)
    value = emit.all_reduce(value, reduce.axes, reduce.combiner, reduce.cause)
    pad.replace([value])
    reduce.op.erase()
    program.changed()
    return LocalCollective(value.maker, "all_reduce", program.mesh)


def _sent_in_parts(size: float, scattered: int, devices: int) -> float:
    """What a device sends to reduce a value over devices, of which `scattered` get a part each."""
    rest = max(1, devices // scattered)
    return size * (scattered - 1) / scattered + 2 * size / scattered * (rest - 1) / rest


def _adds_zeros_behind(pad: Operation) -> bool:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    low, high, interior = (integers(pad.attributes[name]) for name in names)
    return not any(low) and not any(interior) and min(high) >= 0 and splat_number(pad.operands[1]) == 0


def _path_to_slice(reduce: LocalCollective) -> list[Operation]:
    """The elementwise operations and transposes between a reduction and the slice that follows, and that slice.

    Where a value has several users, the slice among them or the first is followed.
    """
    path: list[Operation] = []
    value = reduce.result
    while len(path) < _STEPS:
        following = value.users
        slices = [op for op in following if op.name == _SLICE and op.operands[0] == value]
        if slices:
            return [*path, slices[0]]
        if not following or not keeps_elements(following[0], value):
            return []
        path.append(following[0])
        value = following[0].results[0]
    return []


def _shard_of_sum(program: DeviceProgram, reduce: LocalCollective, cut: ShardCut, before: Operation) -> Value | str:
    """The shard of the reduction's result by reduce-scatters, or why there is none."""
    combiner, axes, rest = reduce.combiner, reduce.axes, reduce.axes
    if combiner is None or not program.is_along_axes(reduce):
        return "its groups or its reducer are of an unknown form"
    dims = {dim: mine for dim, mine in cut.dims.items() if overlap(mine, axes)}
    try:
        cuts = atoms([*dims.values(), axes])
        parts = {dim: split_at(mine, cuts) for dim, mine in dims.items()}
        summed = split_at(axes, cuts)
        scattered = {dim: tuple(axis for axis in mine if axis in summed) for dim, mine in parts.items()}
        for mine in scattered.values():
            rest = without(rest, mine)
    except ValueError:
        return "its shards are cut along parts of an axis that do not fit"
    others = cut.without(dims)
    if before.block != reduce.op.block:
        if others.dims:
            return "its shard is cut in another block, along other dimensions too"
        before = reduce.op
    emit = program.emitter(before)
    value = others.slice(emit, reduce.operand)
    for dim, mine in parts.items():
        value = _cut_between(emit, value, dim, mine, scattered[dim])
        value = emit.reduce_scatter(value, dim, canonical(scattered[dim]), combiner, reduce.cause)
    return emit.all_reduce(value, rest, combiner, reduce.cause) if rest else value


def _cut_between(emit: Emitter, value: Value, dim: int, axes: Axes, kept: Axes) -> Value:
    """Of a dimension to be split over `axes`, the device's own part along those that are not `kept`."""
    if axes == kept:
        return value
    type_ = value.type
    shape, size, zero = type_.shape, type_.shape[dim] // size_of(axes), emit.constant(INDEX, 0)
    apart = (*shape[:dim], *(axis.size for axis in axes), size, *shape[dim + 1 :])
    own = tuple(1 if place < len(axes) and axes[place] not in kept else n for place, n in enumerate(apart[dim:]))
    starts = [zero] * dim + [zero if axis in kept else emit.shard_index((axis,)) for axis in axes]
    starts += [zero] * (len(apart) - len(starts))
    value = emit.dynamic_slice(emit.reshape(value, apart), starts, (*apart[:dim], *own))
    return emit.reshape(value, (*shape[:dim], size_of(kept) * size, *shape[dim + 1 :]))


def _on_shards(
    program: DeviceProgram, op: Operation, whole: Value, shard: Value, cut: ShardCut, before: Operation
) -> Value:
    """The operation on shards: `whole` is the operand whose shard is known; the others are cut."""
    emit = program.emitter(before, op.location)
    operands = [shard if operand == whole else _cut_operand(emit, operand, cut) for operand in op.operands]
    result = op.results[0].type
    result = TensorType(cut.local_shape(result.shape), result.element)
    return emit.op(op.name, operands, [result], **dict(op.attributes))


def _cut_operand(emit: CollectiveBuilder, value: Value, cut: ShardCut) -> Value:
    """The shard of a value that is whole on every device; what is the same everywhere is made anew."""
    type_ = value.type
    if not type_.rank:
        return value
    op = value.op
    local = TensorType(cut.local_shape(type_.shape), type_.element)
    if op is not None and op.name == "stablehlo.broadcast_in_dim" and not op.operands[0].type.rank:
        return emit.broadcast_scalar(op.operands[0], local)
    if op is not None and op.name == "stablehlo.constant" and not type_.element.startswith("complex"):
        attribute = op.attributes["value"]
        if attribute.is_splat:
            splat = ir.DenseElementsAttr.get_splat(emit.mlir_type(local), attribute.get_splat_value())
            return emit.op("stablehlo.constant", [], [local], value=splat)
    return cut.slice(emit, value)
