"""select_and_scatter: the gradient of pooling, which adds each window's source to the element it selects."""

from __future__ import annotations

import dataclasses
import math

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.rule import PERMUTATION, OpShardingRule, RuleBuilder
from gspmd.dialect.sharding import TensorSharding
from gspmd.transforms.emit.bodies import inline_body, op_with_body
from gspmd.transforms.emit.emitter import INDEX
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.exchange.halo import Windows, take_windows
from gspmd.transforms.exchange.pieces import pad_dim, resized
from gspmd.transforms.ir.op_info import OpInfo, combiner
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.reducers import identity_of, is_identity, reducer_operation
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.op_definition import OpDef, op_table
from gspmd.transforms.ops.traits import Flops, Traits
from gspmd.transforms.ops.windows import ShardOffset, Window, cut, set_padding, windows_of


def select_and_scatter_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions with windows of one element pass through; along others, devices fetch the windows over their shard."""
    operand, source = info.operands[0].shape, info.operands[1].shape
    builder = RuleBuilder([operand, source, ()], [operand])
    for dim, window in enumerate(windows_of(info, info.ints("window_dimensions"))):
        size, count = operand[dim], source[dim]
        if window.is_trivial:
            builder.factor([dim, dim, None], [dim], size)
        elif size and count:
            builder.factor([dim, dim, None], [dim], size, PERMUTATION)
    return builder.build()


@dataclasses.dataclass(frozen=True, slots=True)
class _Piece:
    """A device's work along a dimension split over `axes` in shards of `local` elements.

    The dimension has `size` elements and `count` windows. A device computes `part` elements of the result, a multiple
    of the stride, from `windows` whole windows, starting with number `first` on the first shard.
    """

    dim: int
    axes: Axes
    size: int
    count: int
    window: Window
    local: int
    part: int
    first: int
    windows: int
    left: bool
    right: bool

    @property
    def begin(self) -> int:
        """The position in the operand at which the first shard's windows start."""
        return self.first * self.window.stride - self.window.low

    @property
    def shift(self) -> ShardOffset:
        """The offset of other shards' windows from there."""
        return ShardOffset(self.axes, self.part)

    @property
    def length(self) -> int:
        return (self.windows - 1) * self.window.stride + self.window.taps

    def of_source(self) -> Windows:
        return Windows(self.count, self.first, self.part // self.window.stride, self.windows)

    def of_operand(self) -> Windows:
        return Windows(self.size, self.begin, self.part, self.length)

    def of_result(self) -> Windows:
        return Windows(self.size, 0, self.local, self.local)


def _pieces(info: OpInfo, operand: TensorSharding) -> list[_Piece]:
    """The split dimensions with windows."""
    return [
        _piece(info, dim, window, operand.dims[dim].axes)
        for dim, window in enumerate(windows_of(info, info.ints("window_dimensions")))
        if operand.dims[dim].axes and not window.is_trivial
    ]


def _piece(info: OpInfo, dim: int, window: Window, axes: Axes) -> _Piece:
    """A range with all windows that overlap the part of a shard; some windows do not overlap or do not exist."""
    size, count = (info.operands[i].shape[dim] for i in range(2))
    local = -(-size // size_of(axes))
    part = -(-local // window.stride) * window.stride
    first = -((window.taps - 1 - window.low) // window.stride)
    last = (part - 1 + window.low) // window.stride
    end = (count - 1) * window.stride - window.low + window.taps
    windows = max(last - first + 1, 1)
    return _Piece(dim, axes, size, count, window, local, part, first, windows, left=window.low > 0, right=end > size)


def localize_select_and_scatter(op: LocalOp) -> None:
    """Each device evaluates all windows over its part of the result, and keeps that part.

    Beyond each end of the operand, the element at that end is repeated. Every window that extends there covers it,
    so what such a window scatters outside is added to it. Windows that do not exist scatter the identity of the
    reducer; if the reducer is unknown, its initial value is taken for the identity.
    """
    windows = windows_of(op.info, op.info.ints("window_dimensions"))
    pieces = _pieces(op.info, op.operand_shardings[0])
    if not pieces:
        op.keep()
        return
    emit, start = op.emit, op.operands[2]
    reducer = combiner(dataclasses.replace(op.info, body=op.info.body[-2:]))
    neutral = start
    if reducer and not is_identity(start, reducer):
        neutral = emit.constant(start.type, identity_of(reducer))
    operand, source = op.operands[:2]
    cause = op.cause(f"windows of '{op.info.name}' reach into other shards of a split dimension")
    for piece in pieces:
        dim = piece.dim
        source = take_windows(emit, source, dim, piece.axes, piece.of_source(), neutral, cause)
        operand = take_windows(emit, operand, dim, piece.axes, piece.of_operand(), None, cause)
        operand = _repeat_ends(op, operand, piece)
        windows[dim] = dataclasses.replace(piece.window, low=0, high=0)
    value = _scatter(op, operand, source, neutral, windows)
    for piece in reversed(pieces):
        value = _own_part(op, _collect_ends(op, value, piece, neutral), piece, neutral)
    if neutral != start:
        result = op.local_result(0)
        value = emit.op(reducer_operation(str(reducer)), [value, emit.broadcast_scalar(start, result)], [result])
    op.replace([value])


def _scatter(op: LocalOp, operand: Value, source: Value, start: Value, windows: list[Window]) -> Value:
    clone = op.ir.clone().insert(op.emit.point)
    for index, value in enumerate((operand, source, start)):
        clone.operands[index] = value
    set_padding(clone, op.emit, windows)
    clone.results[0].type = operand.type
    return clone.results[0]


def _own_part(op: LocalOp, value: Value, piece: _Piece, neutral: Value) -> Value:
    """This device's part of the result, which may start before its first window or end after the last."""
    before, after = max(0, piece.begin), max(0, piece.part - piece.begin - piece.length)
    value = pad_dim(op.emit, value, piece.dim, before, after, neutral)
    value = cut(op.emit, value, piece.dim, before - piece.begin, (), piece.part)
    if piece.local == piece.part:
        return value
    cause = op.cause(f"shards of '{op.info.name}' contain parts of strides: their results are exchanged")
    return take_windows(op.emit, value, piece.dim, piece.axes, piece.of_result(), None, cause)


def _places(op: LocalOp, type_: TensorType, piece: _Piece) -> tuple[Value, Value]:
    """The start of this device's piece in the dimension, and the position of each of its elements."""
    emit, places_type = op.emit, TensorType(type_.shape, INDEX.element)
    begin = emit.binary("add", piece.shift.places(emit), emit.constant(INDEX, piece.begin))
    places = emit.op("stablehlo.iota", [], [places_type], iota_dimension=emit.i64(piece.dim))
    return begin, emit.binary("add", places, emit.broadcast_scalar(begin, places_type))


def _ends(piece: _Piece) -> list[tuple[str, int]]:
    """The ends that windows exceed: the comparison that is true outside, and the last position inside."""
    return [("LT", 0)] * piece.left + [("GT", piece.size - 1)] * piece.right


def _repeat_ends(op: LocalOp, value: Value, piece: _Piece) -> Value:
    """Replace elements outside the dimension by the last one inside."""
    emit, type_, rank = op.emit, value.type, op.info.operands[0].rank
    if not _ends(piece):
        return value
    begin, places = _places(op, type_, piece)
    zero = emit.constant(INDEX, 0)
    for direction, end in _ends(piece):
        last = emit.constant(INDEX, end)
        column = resized(type_, piece.dim, 1)
        at = emit.binary("subtract", last, begin)
        starts = [at if d == piece.dim else zero for d in range(rank)]
        ends = emit.dynamic_slice(value, starts, column.shape)
        ends = emit.op("stablehlo.broadcast_in_dim", [ends], [type_], broadcast_dimensions=emit.i64s(list(range(rank))))
        outside = emit.compare(places, direction, emit.broadcast_scalar(last, places.type))
        value = emit.op("stablehlo.select", [outside, ends, value], [type_])
    return value


def _collect_ends(op: LocalOp, value: Value, piece: _Piece, neutral: Value) -> Value:
    """Combine the results of elements outside into the last element inside."""
    emit, type_, rank = op.emit, value.type, op.info.operands[0].rank
    if not _ends(piece):
        return value
    _, places = _places(op, type_, piece)
    kept = [d for d in range(rank) if d != piece.dim]
    for direction, end in _ends(piece):
        last = emit.constant(places.type, end)
        other = emit.broadcast_scalar(neutral, type_)
        there = emit.compare(places, "LE" if direction == "LT" else "GE", last)
        scattered = emit.op("stablehlo.select", [there, value, other], [type_])
        total = _reduce(op, scattered, piece.dim, neutral)
        total = emit.op("stablehlo.broadcast_in_dim", [total], [type_], broadcast_dimensions=emit.i64s(kept))
        value = emit.op("stablehlo.select", [emit.compare(places, "EQ", last), total, value], [type_])
    return value


def _reduce(op: LocalOp, value: Value, dim: int, start: Value) -> Value:
    """Reduce a dimension with the scatter's reducer."""
    emit, type_ = op.emit, value.type
    result = TensorType((*type_.shape[:dim], *type_.shape[dim + 1 :]), type_.element)
    body = op.ir.regions[1]
    scalars = [argument.type for argument in body.arguments]
    return op_with_body(
        emit,
        "stablehlo.reduce",
        [value, start],
        [result],
        scalars,
        lambda arguments: inline_body(emit, body, arguments),
        dimensions=emit.i64s([dim]),
    )[0]


def select_and_scatter_flops(info: OpInfo) -> float:
    return float(math.prod(info.ints("window_dimensions")) * math.prod(info.operands[1].shape))


OPS = op_table(
    [
        OpDef(
            "stablehlo.select_and_scatter",
            select_and_scatter_rule,
            localize_select_and_scatter,
            traits=Traits(flops=Flops("reduction", select_and_scatter_flops)),
        )
    ]
)
