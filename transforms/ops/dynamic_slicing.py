"""dynamic_slice and dynamic_update_slice: windows that start where scalars say.

Shards are read and written in place, however large they are: only windows are padded and shifted.
"""

from __future__ import annotations

from typing import Any

from gspmd.dialect.rule import REDUCTION, OpShardingRule, RuleBuilder, Stage
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.support.builder import read_type
from gspmd.transforms.support.halo import pad_dim
from gspmd.transforms.support.identity import identity_of, partial_combiner
from gspmd.transforms.support.indices import WindowDim, both, clamp, index_element, inside
from gspmd.transforms.support.local_op import LocalOp
from gspmd.transforms.support.op_definition import OpDef, op_table
from gspmd.transforms.support.op_info import OpInfo, TensorType


def dynamic_slice_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions kept whole pass through; of the others each device finds the part that it holds.

    The result's can be split by themselves: each device slices its part of the window.
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
        elif result[dim] and not element.startswith("!"):
            builder.factor([dim, *scalars], [None], size, REDUCTION)
            builder.factor([None, *scalars], [dim], result[dim])
    return builder.build()


def localize_dynamic_slice(op: LocalOp) -> None:
    """Slice what this shard has of the window, and bring it to its place; the rest becomes the neutral element."""
    emit, result = op.emit, op.local_result(0)
    dims = _dims(op, op.info.results[0], result, op.result_shardings[0])
    windows = _split(dims)
    op.ir.attributes["slice_sizes"] = emit.i64s(result.shape)
    if 0 in result.shape:
        op.replace([emit.constant(result, "zero")])
        return
    if not windows:
        op.keep()
        return
    neutral = identity_of(op.rule.combiner)
    starts = _starts(op, op.operands[1:], dims)
    type_ = op.local_operand(0)
    piece = tuple(min(n, w) for n, w in zip(type_.shape, result.shape, strict=True))
    value, begins = _take(op, op.operands[0], starts, piece)
    # A part may begin before the piece or end behind it by its whole length.
    moved = [w for w in windows if w.part > 1 and (w.axes or w.overhang)]
    if moved:
        shifts = [emit.constant(read_type(start), 0) for start in starts]
        for window in moved:
            value = pad_dim(emit, value, window.dim, window.part, window.part, neutral)
            shift = emit.binary("subtract", starts[window.dim], begins[window.dim])
            shifts[window.dim] = emit.binary("add", shift, emit.constant(read_type(shift), window.part))
        value, _ = _take(op, value, shifts, result.shape)
    found = None
    for window in windows:
        if window.axes and window.part == 1:
            found = both(emit, found, inside(emit, starts[window.dim], window.shard))
    if found is not None:
        value = emit.op("stablehlo.select", [found, value, emit.constant(result, neutral)], [result])
    op.replace([value])


def dynamic_update_slice_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions written whole pass through; of the others each device writes the part that it holds,

    for which it needs the whole update.
    """
    operand, update = info.operands[0].shape, info.operands[1].shape
    builder = RuleBuilder([t.shape for t in info.operands], [operand], stage=Stage.ELEMENTWISE)
    scalars = [None] * info.operands[0].rank
    for dim, size in enumerate(operand):
        builder.factor([dim, dim if update[dim] == size else None, *scalars], [dim], size)
    return builder.build()


def localize_dynamic_update_slice(op: LocalOp) -> None:
    """Write what falls into this shard: a piece of it, as long as the update, is put together and written back."""
    emit, operand, update = op.emit, op.operands[0], op.operands[1]
    local, window = op.local_operand(0), op.local_operand(1)
    dims = _dims(op, op.info.operands[1], window, op.operand_shardings[1])
    windows = _split(dims)
    if 0 in window.shape:
        op.replace([operand])
        return
    if not windows:
        op.keep()
        return
    starts = _starts(op, op.operands[2:], dims)
    shape = tuple(min(n, w) for n, w in zip(local.shape, window.shape, strict=True))
    old, begins = _take(op, operand, starts, shape)
    piece = TensorType(shape, local.element)
    wide = [w for w in windows if w.part > 1]
    if wide:
        shifts = [emit.constant(read_type(start), 0) for start in starts]
        for w in wide:
            margin = shape[w.dim]
            update = pad_dim(emit, update, w.dim, margin, margin, 0)
            shift = emit.binary("subtract", begins[w.dim], starts[w.dim])
            shifts[w.dim] = emit.binary("add", shift, emit.constant(read_type(shift), margin))
        update, _ = _take(op, update, shifts, shape)
    new = emit.op("stablehlo.select", [_written(op, windows, starts, begins, shape), update, old], [piece])
    if shape != local.shape:
        new = emit.op("stablehlo.dynamic_update_slice", [operand, new, *begins], [local])
    op.replace([new])


def _written(
    op: LocalOp, windows: list[WindowDim], starts: list[Any], begins: list[Any], shape: tuple[int, ...]
) -> Any:
    """Which elements of the piece of a shard that begins at `begins` the update has."""
    emit, found = op.emit, None
    places = TensorType(shape, index_element(op.info.operands[0].shape))
    for window in windows:
        if window.part == 1:
            here = inside(emit, starts[window.dim], window.shard)
            found = both(emit, found, emit.broadcast_scalar(here, places._replace(element="i1")))
            continue
        shift = emit.binary("subtract", begins[window.dim], starts[window.dim])
        place = emit.op("stablehlo.iota", [], [places], iota_dimension=emit.i64(window.dim))
        place = emit.binary("add", place, emit.broadcast_scalar(shift, places))
        found = both(emit, found, inside(emit, place, window.part))
    return found


def _dims(op: LocalOp, whole: TensorType, window: TensorType, sharding: TensorSharding) -> list[WindowDim]:
    """Every dimension, of a window that is `whole` globally, and per device of type `window`, split so."""
    shape, local, axes = op.info.operands[0].shape, op.local_operand(0).shape, sharding.dim_axes()
    return [
        WindowDim(d, n, local[d], op.operand_axes(0, d), whole.shape[d], window.shape[d], axes[d])
        for d, n in enumerate(shape)
    ]


def _split(dims: list[WindowDim]) -> list[WindowDim]:
    """Those split dimensions that the window is only part of."""
    return [d for d in dims if d.is_split and d.window < d.size]


def _starts(op: LocalOp, starts: list[Any], dims: list[WindowDim]) -> list[Any]:
    """Start indices of this device's part of the window in its shard, of one type; clamped globally first."""
    element = index_element(op.info.operands[0].shape)
    clamped = [clamp(op.emit, start, 0, d.size - d.window, element) for start, d in zip(starts, dims, strict=True)]
    split = _split(dims)
    return [d.position(op.emit, start) if d in split else start for start, d in zip(clamped, dims, strict=True)]


def _take(op: LocalOp, value: Any, starts: list[Any], shape: tuple[int, ...]) -> tuple[Any, list[Any]]:
    """A window of this shape, and where it begins, which is limited as the operation does anyway.

    Written out, because XLA adds up the starts of a slice of a slice without limiting the inner one.
    """
    type_ = read_type(value)
    room = [n - w for n, w in zip(type_.shape, shape, strict=True)]
    begins = [
        clamp(op.emit, start, 0, most, read_type(start).element) for start, most in zip(starts, room, strict=True)
    ]
    if type_.shape == shape:
        return value, begins
    result = TensorType(shape, type_.element)
    return op.emit.op("stablehlo.dynamic_slice", [value, *begins], [result], slice_sizes=op.emit.i64s(shape)), begins


OPS = op_table(
    [
        OpDef("stablehlo.dynamic_slice", dynamic_slice_rule, localize_dynamic_slice),
        OpDef("stablehlo.dynamic_update_slice", dynamic_update_slice_rule, localize_dynamic_update_slice),
    ]
)
