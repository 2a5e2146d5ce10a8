"""reduce_window: every window combined, with any reducer and any number of operands."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.rule import PERMUTATION, REDUCTION, OpShardingRule, RuleBuilder
from gspmd.transforms.emit.bodies import mapped
from gspmd.transforms.emit.emitter import INDEX
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.exchange.halo import Windows, take_windows
from gspmd.transforms.exchange.pieces import resized
from gspmd.transforms.ir.op_info import OpInfo, combiner
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.reducers import identity_of, is_identity, reducer_operation
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.op_definition import OpDef, op_table
from gspmd.transforms.ops.reduction import on_first_shard
from gspmd.transforms.ops.traits import Flops, Traits
from gspmd.transforms.ops.windows import ShardOffset, Window, WindowRange, cut, set_padding, windows_of, without_cuts


def reduce_window_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions with windows of one element, in place, pass through.

    Other windows are fetched or, if they start or end at an end of the dimension, combined with the totals of other
    shards. A single window over a dimension leaves partial results.
    """
    count = len(info.results)
    operands, results = [t.shape for t in info.operands], [t.shape for t in info.results]
    reducer = _reducer(info)
    builder = RuleBuilder(operands, results, combiner=reducer or "add")
    for dim, window in enumerate(windows_of(info, info.ints("window_dimensions"))):
        size, made = operands[0][dim], results[0][dim]
        dims = [dim] * count + [None] * count
        if window.is_trivial:
            builder.factor(dims, [dim] * count, size)
        elif size > 1 and made == 1:
            builder.factor(dims, [None] * count, size, REDUCTION if reducer else PERMUTATION)
        elif size and made:
            builder.factor(dims, [dim] * count, max(size, made), PERMUTATION)
    return builder.build()


def _reducer(info: OpInfo) -> str | None:
    return combiner(info) if len(info.results) == 1 else None


def localize_reduce_window(op: LocalOp) -> None:
    """Fetch the windows along each split dimension, then reduce locally.

    Positions outside the operand are the identity of the reducer, since XLA skips them, or the initial value of an
    unknown reducer, which is its identity, too.
    """
    emit, count = op.emit, len(op.info.results)
    reducer = _reducer(op.info)
    starts = op.operands[count:]
    fills = starts
    if reducer:
        fills = [starts[0] if is_identity(starts[0], reducer) else emit.constant(starts[0].type, identity_of(reducer))]
    windows = windows_of(op.info, op.info.ints("window_dimensions"))
    partial: dict[int, Axes] = {}
    for dim, window in enumerate(windows):
        axes = op.operand_axes(0, dim)
        if not axes or window.is_trivial:
            continue
        if not op.result_shardings[0].dims[dim].axes:
            partial[dim] = axes
            windows[dim] = Window(op.local_operand(0).shape[dim])
            op.operands[:count] = [_own_taps(op, op.operands[i], dim, window, fills[i]) for i in range(count)]
        elif running := _running(op.info, dim, window, axes):
            op.operands[:count] = _combine_running(op, op.operands[:count], dim, running, fills)
            windows[dim] = Window(1)
        else:
            windows[dim] = _fetch(op, dim, window, fills)
    if not partial and windows == windows_of(op.info, op.info.ints("window_dimensions")):
        op.keep()
        return
    if reducer:
        _start_once(op, windows, tuple(a for axes in partial.values() for a in axes), reducer, fills[0])
        return
    values = reduce_windows(op, op.operands[:count], starts, windows)
    if not partial:
        op.replace(values)
        return
    cause = op.cause(f"'{op.info.name}' reduces a split dimension: the partial results of all shards are combined")
    values = [emit.all_gather_dims(value, partial, cause) for value in values]
    again = [Window(size_of(partial[dim]) if dim in partial else 1) for dim in range(len(windows))]
    op.replace(reduce_windows(op, values, starts, again))


def _start_once(op: LocalOp, windows: list[Window], axes: Axes, reducer: str, neutral: Value) -> None:
    """Reduce from the identity, and combine the initial value with the result, on one shard if it is partial."""
    emit, start = op.emit, op.operands[1]
    (value,) = reduce_windows(op, [op.operands[0]], [neutral], windows)
    if neutral != start:
        if axes and reducer not in ("max", "min", "and", "or"):
            start = on_first_shard(op, start, neutral, axes)
        result = op.local_result(0)
        starts = emit.broadcast_scalar(start, result) if result.shape else start
        value = emit.op(reducer_operation(reducer), [value, starts], [result])
    op.replace([value])


def reduce_windows(
    op: LocalOp, values: Sequence[Value], starts: Sequence[Value], windows: Sequence[Window]
) -> list[Value]:
    """The operation with other operands and windows."""
    values, windows = list(values), list(windows)
    for dim, window in enumerate(windows):
        for index, start in enumerate(starts):
            values[index], windows[dim] = without_cuts(op.emit, values[index], dim, window, start)
    clone = op.ir.clone().insert(op.emit.point)
    for index, operand in enumerate((*values, *starts)):
        clone.operands[index] = operand
    set_padding(clone, op.emit, windows, "base_dilations")
    clone.attributes["window_dimensions"] = op.emit.i64s([w.taps for w in windows])
    clone.attributes["window_strides"] = op.emit.i64s([w.stride for w in windows])
    clone.attributes["window_dilations"] = op.emit.i64s([w.dilation for w in windows])
    for value, result in zip(values, clone.results, strict=True):
        type_ = value.type
        shape = tuple(w.count(n) for n, w in zip(type_.shape, windows, strict=True))
        result.type = TensorType(shape, type_.element)
    return list(clone.results)


def _fetch(op: LocalOp, dim: int, window: Window, fills: Sequence[Value]) -> Window:
    """Fetch the part of a dimension that this device's windows span; returns the windows over it."""
    reach = _reach(op.info, dim, window, op.operand_axes(0, dim))
    for index, fill in enumerate(fills):
        op.operands[index], found = reach.fetch(op, op.operands[index], dim, fill)
    return dataclasses.replace(window, low=found.low, high=found.high, spread=found.spread)


def _reach(info: OpInfo, dim: int, window: Window, axes: Axes) -> WindowRange:
    made = -(-info.results[0].shape[dim] // size_of(axes))
    length = (made - 1) * window.stride + window.extent
    shift = ShardOffset(axes, window.stride * made)
    return WindowRange(info.operands[0].shape[dim], axes, window.spread, -window.low, length, (shift,))


def _taken(window: Window, size: int) -> range:
    """The mask of the elements of a dimension at the taps of its only window, every `dilation` positions."""
    first, end = max(0, -(window.low // window.spread)), min(size, -((window.low - window.extent) // window.spread))
    common = math.gcd(window.spread, window.dilation)
    if window.low % common:
        return range(0)
    period = window.dilation // common
    place = -window.low // common * pow(window.spread // common, -1, period) % period
    return range(first + (place - first) % period, end, period)


def _own_taps(op: LocalOp, value: Value, dim: int, window: Window, fill: Value) -> Value:
    """The elements of this shard in the only window of a dimension; the others become `fill`."""
    emit, type_, size = op.emit, value.type, op.info.operands[0].shape[dim]
    axes = op.operand_axes(0, dim)
    taken = _taken(window, size)
    if taken == range(type_.shape[dim] * size_of(axes)):
        return value
    first, last = (taken[0], taken[-1]) if taken else (0, -1)
    period = taken.step if len(taken) > 1 else 1
    places_type = TensorType(type_.shape, INDEX.element)
    places = emit.op("stablehlo.iota", [], [places_type], iota_dimension=emit.i64(dim))
    begin = emit.shard_offset(axes, type_.shape[dim])
    places = emit.binary("add", places, emit.broadcast_scalar(begin, places_type))
    low, high = emit.constant(places_type, first), emit.constant(places_type, last)
    here = emit.binary("and", emit.compare(places, "GE", low), emit.compare(places, "LE", high))
    if period > 1:
        rest = emit.binary("remainder", emit.binary("subtract", places, low), emit.constant(places_type, period))
        here = emit.binary("and", here, emit.compare(rest, "EQ", emit.constant(places_type, 0)))
    return emit.op("stablehlo.select", [here, value, emit.broadcast_scalar(fill, type_)], [type_])


# ---- windows that start or end at an end of the dimension, as in cumulative sums ----


@dataclasses.dataclass(frozen=True, slots=True)
class _CumulativeWindows:
    """Every device reads `length` elements from `begin` plus `tile` times its shard index.

    `tile` of these, from `tile_at` on, are counted into its total. Its results are the total of the shards before or
    after it, with what `window` covers of the elements from `taps_at` on, as many as it has taps, if it has some.
    """

    before: bool
    begin: int
    length: int
    tile: int
    tile_at: int
    taps_at: int
    window: Window

    def windows(self, info: OpInfo, dim: int) -> Windows:
        return Windows(info.operands[0].shape[dim], self.begin, self.tile, self.length)


def _running(info: OpInfo, dim: int, window: Window, axes: Axes) -> _CumulativeWindows | None:
    """How to compute windows that all extend to one end of the dimension; None for others."""
    size, made = info.operands[0].shape[dim], info.results[0].shape[dim]
    if window.dilation != 1 or window.spread != 1:
        return None
    local, stride = -(-made // size_of(axes)), window.stride
    tile, moved = local * stride, (local - 1) * stride
    if (made - 1) * stride <= window.low:
        end = window.extent - window.low  # of the first window
        begin, ahead = min(end, 0), max(end, 0)
        taps = moved + ahead
        return _CumulativeWindows(True, begin, max(tile, taps), tile, 0, 0, Window(taps, stride, 1, moved, 0))
    if window.extent - window.low >= size:
        # Tiles start so late that each window starts before the end of its own tile and extends to the end.
        shift = max(0, -stride - window.low, size - size_of(axes) * tile)
        begin = min(shift, -window.low)
        length, taps = tile + shift - begin, tile + shift + window.low
        return _CumulativeWindows(
            False, begin, length, tile, shift - begin, -window.low - begin, Window(taps, stride, 1, 0, moved)
        )  # fmt: skip
    return None


def _combine_running(
    op: LocalOp, values: Sequence[Value], dim: int, how: _CumulativeWindows, neutral: Sequence[Value]
) -> list[Value]:
    """Each device combines its own elements with the gathered totals of the shards on one side."""
    emit, axes, rank = op.emit, op.operand_axes(0, dim), op.info.operands[0].rank

    def reduced(values: Sequence[Value], window: Window) -> list[Value]:
        return reduce_windows(op, values, neutral, [window if d == dim else Window(1) for d in range(rank)])

    cause = op.cause(f"windows of '{op.info.name}' reach into other shards of a split dimension")
    windows = how.windows(op.info, dim)
    values = [take_windows(emit, v, dim, axes, windows, n, cause) for v, n in zip(values, neutral, strict=True)]
    totals = reduced([cut(emit, value, dim, how.tile_at, (), how.tile) for value in values], Window(how.tile))
    others = reduced(_totals_of_others(op, totals, dim, how, neutral), Window(size_of(axes)))
    if not how.window.taps:
        return others
    own = reduced([cut(emit, value, dim, how.taps_at, (), how.window.taps) for value in values], how.window)
    made = op.local_result(0).shape[dim]
    every = emit.i64s(list(range(rank)))
    others = [
        emit.op("stablehlo.broadcast_in_dim", [other], [resized(mine.type, dim, made)], broadcast_dimensions=every)
        for other, mine in zip(others, own, strict=True)
    ]
    return _combined(op, others, own) if how.before else _combined(op, own, others)


def _totals_of_others(
    op: LocalOp, totals: Sequence[Value], dim: int, how: _CumulativeWindows, neutral: Sequence[Value]
) -> list[Value]:
    """The gathered totals of all shards, with the neutral element for those that a device does not count."""
    emit, axes = op.emit, op.operand_axes(0, dim)
    cause = op.cause(f"windows of '{op.info.name}' span shards of a split dimension, of which totals are gathered")
    gathered = [emit.all_gather(total, dim, axes, cause) for total in totals]
    places_type = TensorType(gathered[0].type.shape, INDEX.element)
    places = emit.op("stablehlo.iota", [], [places_type], iota_dimension=emit.i64(dim))
    here = emit.broadcast_scalar(emit.shard_index(axes), places_type)
    counted = emit.compare(places, "LT" if how.before else "GT", here)
    return [
        emit.op("stablehlo.select", [counted, value, emit.broadcast_scalar(fill, value.type)], [value.type])
        for value, fill in zip(gathered, neutral, strict=True)
    ]


def _combined(op: LocalOp, first: Sequence[Value], second: Sequence[Value]) -> list[Value]:
    """Combine two values of every result elementwise with the body of the operation."""
    reducer = _reducer(op.info)
    if reducer is None:
        return mapped(op.emit, op.ir.regions[0], [*first, *second])
    return [op.emit.op(reducer_operation(reducer), [first[0], second[0]], [first[0].type])]


def reduce_window_flops(info: OpInfo) -> float:
    window = math.prod(info.ints("window_dimensions"))
    return float(len(info.results) * (window - 1) * math.prod(info.results[0].shape))


OPS = op_table(
    [
        OpDef(
            "stablehlo.reduce_window",
            reduce_window_rule,
            localize_reduce_window,
            traits=Traits(flops=Flops("reduction", reduce_window_flops)),
        )
    ]
)
