"""dynamic_slice and dynamic_update_slice: windows with scalar start indices.

Shards are read and written in place: only windows are padded and shifted. A window of almost all of a dimension can
start only near its beginning: it is split like the dimension, and neighbors exchange the shifted elements.
"""

from __future__ import annotations

import dataclasses

from gspmd.dialect.rule import PERMUTATION, REDUCTION, OpShardingRule, RuleBuilder, Stage
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.emit.collective_builder import Cause
from gspmd.transforms.emit.indices import WindowDim, both, clamp, index_element, inside
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.exchange.halo import Windows, take_windows
from gspmd.transforms.exchange.pieces import pad_dim
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.reducers import identity_of, partial_combiner
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.op_definition import OpDef, op_table
from gspmd.transforms.ops.traits import MOVED, Traits

# A window is split like its dimension if it omits at most this fraction of the elements.
_SMALL = 4


def _is_most(window: int, size: int) -> bool:
    return 1 < window < size and _SMALL * (size - window) <= size


def _cause(op: LocalOp) -> Cause:
    return op.cause(f"'{op.info.name}' shifts a split dimension: neighbours give what moves to other shards")


def dynamic_slice_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions that are kept whole pass through, and those that are mostly kept stay split.

    Along other split dimensions, each device reads the part of the window in its shard. The dimension of the result is
    a separate factor: if it is split, each device slices its part of the window.
    """
    operand, result = info.operands[0].shape, info.results[0].shape
    element = info.results[0].element
    builder = RuleBuilder(
        [t.shape for t in info.operands], [result], stage=Stage.ELEMENTWISE, combiner=partial_combiner(element)
    )
    scalars = [None] * info.operands[0].rank
    for dim, size in enumerate(operand):
        if result[dim] == size:
            builder.factor([dim, *scalars], [dim], size)
        elif _is_most(result[dim], size):
            builder.factor([dim, *scalars], [dim], size, PERMUTATION)
        elif result[dim] and not element.startswith("!"):
            builder.factor([dim, *scalars], [None], size, REDUCTION)
            builder.factor([None, *scalars], [dim], result[dim])
    return builder.build()


def localize_dynamic_slice(op: LocalOp) -> None:
    """Slice the part of the window in this shard and move it into position; the rest becomes the neutral element."""
    emit, result = op.emit, op.local_result(0)
    if 0 in result.shape:
        op.replace([emit.constant(result, "zero")])
        return
    dims = _dims(op.info, op.operand_shardings[0], op.info.results[0], op.result_shardings[0])
    for d in dims:
        if d.axes and _is_most(d.window, d.size):
            reach = _reach_of_slice(d)
            op.operands[0] = take_windows(emit, op.operands[0], d.dim, d.axes, reach, None, _cause(op))
            dims[d.dim] = WindowDim(d.dim, reach.length, reach.length, (), d.part, d.part, ())
    windows = _split(dims)
    op.ir.attributes["slice_sizes"] = emit.i64s(result.shape)
    if not windows and op.operands[0] == op.ir.operands[0]:
        op.keep()
        return
    neutral = identity_of(op.rule.combiner)
    starts = _starts(op, op.operands[1:], dims)
    shape = op.operands[0].type.shape
    piece = tuple(min(n, w) for n, w in zip(shape, result.shape, strict=True))
    value, begins = _take(op, op.operands[0], starts, piece)
    # A part may start before the piece or end after it by its whole length.
    moved = [w for w in windows if w.part > 1 and (w.axes or w.overhang)]
    if moved:
        shifts = [emit.constant(start.type, 0) for start in starts]
        for window in moved:
            value = pad_dim(emit, value, window.dim, window.part, window.part, neutral)
            shift = emit.binary("subtract", starts[window.dim], begins[window.dim])
            shifts[window.dim] = emit.binary("add", shift, emit.constant(shift.type, window.part))
        value, _ = _take(op, value, shifts, result.shape)
    found = None
    for window in windows:
        if window.axes and window.part == 1:
            found = both(emit, found, inside(emit, starts[window.dim], window.shard))
    if found is not None:
        value = emit.op("stablehlo.select", [found, value, emit.constant(result, neutral)], [result])
    op.replace([value])


def _reach_of_slice(d: WindowDim) -> Windows:
    """A range that contains the part of the window, wherever the window starts."""
    return Windows(d.size, 0, d.part, d.part + d.size - d.window)


def dynamic_update_slice_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions that are written whole pass through, and those that are mostly written stay split.

    Along other split dimensions, each device writes the part in its shard, for which it needs the whole update.
    """
    operand, update = info.operands[0].shape, info.operands[1].shape
    builder = RuleBuilder([t.shape for t in info.operands], [operand], stage=Stage.ELEMENTWISE)
    scalars = [None] * info.operands[0].rank
    for dim, size in enumerate(operand):
        if _is_most(update[dim], size):
            builder.factor([dim, dim, *scalars], [dim], size, PERMUTATION)
        else:
            builder.factor([dim, dim if update[dim] == size else None, *scalars], [dim], size)
    return builder.build()


def localize_dynamic_update_slice(op: LocalOp) -> None:
    """Write the part of the update in this shard: assemble a piece of the update's size and write it back."""
    emit, operand, local, window = op.emit, op.operands[0], op.local_operand(0), op.local_operand(1)
    if 0 in window.shape:
        op.replace([operand])
        return
    dims = _dims(op.info, op.operand_shardings[0], op.info.operands[1], op.operand_shardings[1])
    windows = _split(dims)
    if not windows:
        op.keep()
        return
    # A window that is split like the dimension is whole here: each device has the elements for its shard.
    dims = [dataclasses.replace(d, part=d.window, part_axes=()) if d in windows else d for d in dims]
    windows = _split(dims)
    starts = _starts(op, op.operands[2:], dims)
    shape = tuple(min(d.shard, d.part) for d in dims)
    old, begins = _take(op, operand, starts, shape)
    update = _shifted_update(op, windows, starts, begins, shape)
    piece = TensorType(shape, local.element)
    new = emit.op("stablehlo.select", [_written(op, windows, starts, begins, shape), update, old], [piece])
    if shape != local.shape:
        new = emit.op("stablehlo.dynamic_update_slice", [operand, new, *begins], [local])
    op.replace([new])


def _shifted_update(
    op: LocalOp, windows: list[WindowDim], starts: list[Value], begins: list[Value], shape: tuple[int, ...]
) -> Value:
    """The update's elements, aligned with the piece of a shard that starts at `begins`."""
    emit, update = op.emit, op.operands[1]
    shifts = [emit.constant(start.type, 0) for start in starts]
    for window in windows:
        dim, room = window.dim, window.size - window.window
        shift = emit.binary("subtract", begins[dim], starts[dim])
        if op.operand_axes(1, dim):
            reach = _reach_of_update(window)
            update = take_windows(emit, update, dim, window.axes, reach, None, _cause(op))
            # Relative to the shard, `reach` starts at -room.
            shift = emit.binary("subtract", shift, emit.shard_offset(window.axes, window.shard, shift.type.element))
            margin = room
        elif window.part > 1:
            margin = shape[dim]
            update = pad_dim(emit, update, dim, margin, margin, 0)
        else:
            continue
        shifts[dim] = emit.binary("add", shift, emit.constant(shift.type, margin))
    return _take(op, update, shifts, shape)[0]


def _reach_of_update(d: WindowDim) -> Windows:
    """The part of the update that may fall into a shard."""
    room = d.size - d.window
    return Windows(d.window, -room, d.shard, d.shard + room)


def _written(
    op: LocalOp, windows: list[WindowDim], starts: list[Value], begins: list[Value], shape: tuple[int, ...]
) -> Value:
    """The mask of the piece of a shard that starts at `begins`: elements that the update overwrites."""
    emit, found = op.emit, None
    places = TensorType(shape, index_element(op.info.operands[0].shape))
    for window in windows:
        if window.part == 1:
            here = inside(emit, starts[window.dim], window.shard)
            found = both(emit, found, emit.broadcast_scalar(here, places.of_element("i1")))
            continue
        shift = emit.binary("subtract", begins[window.dim], starts[window.dim])
        place = emit.op("stablehlo.iota", [], [places], iota_dimension=emit.i64(window.dim))
        place = emit.binary("add", place, emit.broadcast_scalar(shift, places))
        found = both(emit, found, inside(emit, place, window.part))
    assert found is not None, "there are windows"
    return found


def _dims(info: OpInfo, operand: TensorSharding, whole: TensorType, window: TensorSharding) -> list[WindowDim]:
    """Every dimension of an operand with this sharding, and of a window that is `whole` globally."""
    shape, local, parts = info.operands[0].shape, operand.local_shape(info.operands[0].shape), window.dim_axes()
    part = window.local_shape(whole.shape)
    return [
        WindowDim(d, n, local[d], operand.dims[d].axes, whole.shape[d], part[d], parts[d]) for d, n in enumerate(shape)
    ]


def _split(dims: list[WindowDim]) -> list[WindowDim]:
    """The split dimensions of which the window is only a part."""
    return [d for d in dims if d.is_split and d.window < d.size]


def _starts(op: LocalOp, starts: list[Value], dims: list[WindowDim]) -> list[Value]:
    """The start indices of this device's part of the window in its shard, clamped globally first, in one type."""
    element = index_element(op.info.operands[0].shape)
    clamped = [clamp(op.emit, start, 0, d.size - d.window, element) for start, d in zip(starts, dims, strict=True)]
    split = _split(dims)
    return [d.position(op.emit, start) if d in split else start for start, d in zip(clamped, dims, strict=True)]


def _take(op: LocalOp, value: Value, starts: list[Value], shape: tuple[int, ...]) -> tuple[Value, list[Value]]:
    """A window of this shape and its start indices, clamped explicitly.

    XLA adds the starts of a slice of a slice without clamping the inner one.
    """
    type_ = value.type
    room = [n - w for n, w in zip(type_.shape, shape, strict=True)]
    begins = [clamp(op.emit, start, 0, most, start.type.element) for start, most in zip(starts, room, strict=True)]
    if type_.shape == tuple(shape):
        return value, begins
    return op.emit.dynamic_slice(value, begins, shape), begins


OPS = op_table(
    [
        OpDef(
            "stablehlo.dynamic_slice",
            dynamic_slice_rule,
            localize_dynamic_slice,
            traits=Traits(linear=((0,),), flops=MOVED, stays_on_host=True, looks_up=True),
        ),
        OpDef(
            "stablehlo.dynamic_update_slice",
            dynamic_update_slice_rule,
            localize_dynamic_update_slice,
            traits=Traits(linear=((0, 1),), flops=MOVED, stays_on_host=True, in_place=True, update=1),
        ),
    ]
)
