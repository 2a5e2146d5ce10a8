"""Windows over a dimension, and the range that a device's share of them reads.

Window i covers, for every tap q, the position `i * stride + q * dilation - low` of the operand, whose elements are
`spread` positions apart. So a device with one shard of windows and taps reads a range of positions that starts at a sum
of multiples of its shard indices: `WindowRange`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import Unsupported
from gspmd.dialect.limits import MAX_WINDOW
from gspmd.transforms.emit.emitter import INDEX, Emitter
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.exchange.halo import Windows, take_windows
from gspmd.transforms.exchange.intervals import Exchange, Range
from gspmd.transforms.exchange.pieces import pad_dim, resized, spread_size
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Operation, Value


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """The windows of one dimension: `taps` elements each, with padding `low` and `high`, as above."""

    taps: int
    stride: int = 1
    dilation: int = 1
    low: int = 0
    high: int = 0
    spread: int = 1

    @property
    def extent(self) -> int:
        """The positions from the first to after the last tap."""
        return (self.taps - 1) * self.dilation + 1

    @property
    def is_trivial(self) -> bool:
        """Whether windows are the single elements in place."""
        return (self.taps, self.stride, self.low, self.high, self.spread) == (1, 1, 0, 0, 1)

    def places(self, size: int) -> int:
        """The positions of `size` elements, including dilation and padding."""
        return max(0, spread_size(size, self.spread) + self.low + self.high)

    def count(self, size: int) -> int:
        """The number of windows over `size` elements and their padding."""
        return max(0, (self.places(size) - self.extent) // self.stride + 1)

    def is_wide(self, result: int) -> bool:
        """Whether a window spans more positions than the starts of all `result` windows."""
        return self.extent - 1 > (result - 1) * self.stride


def windows_of(info: OpInfo, taps: Sequence[int]) -> list[Window]:
    """The windows of every dimension for which the operation has windows."""
    count = len(taps)

    def listed(*names: str) -> tuple[int, ...]:
        return next((values for name in names if (values := info.ints(name))), (1,) * count)

    padding = info.ints("padding") or (0,) * (2 * count)
    windows = [
        Window(*numbers)
        for numbers in zip(
            taps,
            listed("window_strides"),
            listed("window_dilations", "rhs_dilation"),
            padding[::2],
            padding[1::2],
            listed("base_dilations", "lhs_dilation"),
            strict=True,
        )
    ]
    for dim, window in enumerate(windows):
        for what, number, least in (
            ("taps", window.taps, 0),
            ("stride", window.stride, 1),
            ("dilation", window.dilation, 1),
            ("dilation of the operand", window.spread, 1),
        ):
            if not least <= number <= MAX_WINDOW:  # MLIR's verifier accepts some that overflow
                raise Unsupported(
                    f"has windows with {number} as {what} in dimension {dim}; expected {least} to {MAX_WINDOW}",
                    op=info.name,
                    code=Code.LIMIT,
                )
    return windows


def set_padding(op: Operation, emit: Emitter, windows: Sequence[Window], spread: str = "") -> None:
    """Write the padding to an operation and, if it has one, to its attribute `spread` the dilation of the operand."""
    pairs = np.array([(w.low, w.high) for w in windows], np.int64).reshape(-1, 2)
    op.attributes["padding"] = ir.DenseElementsAttr.get(pairs, context=emit.context)
    if spread:
        op.attributes[spread] = emit.i64s([w.spread for w in windows])


@dataclasses.dataclass(frozen=True, slots=True)
class ShardOffset:
    """An offset of `step` positions per shard along `axes`."""

    axes: Axes
    step: int

    @property
    def span(self) -> int:
        """The offset of the last shard; negative if `step` is."""
        return self.step * (size_of(self.axes) - 1)

    def places(self, emit: Emitter) -> Value:
        """The offset of this device."""
        return emit.binary("multiply", emit.shard_index(self.axes), emit.constant(INDEX, self.step))


@dataclasses.dataclass(frozen=True, slots=True)
class WindowRange:
    """The positions of a dimension that a device reads: `length` from `begin` plus all shifts.

    The dimension has `size` elements, `spread` positions apart, and is whole or split over `axes`, along which there is
    a shift.
    """

    size: int
    axes: Axes
    spread: int
    begin: int
    length: int
    shifts: tuple[ShardOffset, ...]

    @property
    def _own(self) -> ShardOffset:
        """The shift along the dimension's own axes."""
        return next((s for s in self.shifts if self.axes and s.axes == self.axes), ShardOffset((), 0))

    @property
    def _others(self) -> list[ShardOffset]:
        return [s for s in self.shifts if s is not self._own and s.axes]

    @property
    def _range(self) -> Range:
        """The first position of the first shard under all other shifts, and the length of all of these together."""
        lowest = self.begin + sum(min(s.span, 0) for s in self._others)
        return lowest, self.length + sum(abs(s.span) for s in self._others)

    @property
    def _windows(self) -> Windows:
        """The windows that the shards need: of elements if all shards are aligned, else of positions."""
        lowest, width = self._range
        if self._own.step % self.spread:
            return Windows(self.size, lowest, self._own.step, width, self.spread)
        first = -(-lowest // self.spread)
        length = max((lowest + width - 1) // self.spread - first + 1, 1)
        return Windows(self.size, first, self._own.step // self.spread, length)

    @property
    def exchange(self) -> Exchange:
        """The exchange that fetches these windows of a split dimension."""
        count = size_of(self.axes)
        return self._windows.exchange(count, -(-self.size // count))

    def fetch(self, op: LocalOp, value: Value, dim: int, fill: Value) -> tuple[Value, Window]:
        """The elements at these positions, and the remaining padding and dilation.

        Positions before, after and between the elements are `fill`, a scalar value.
        """
        spread, others = self.spread, self._others
        lowest, width = self._range
        first, held = 0, self.size
        if self.axes:
            windows = self._windows
            first, held, spread = windows.start, windows.length, spread // windows.spread
            cause = op.cause(f"windows of '{op.info.name}' reach into other shards of a split dimension")
            value = take_windows(op.emit, value, dim, self.axes, windows, fill, cause)
        begin, held = self.begin - spread * first, spread_size(held, spread)
        if not others:
            return value, Window(1, low=-begin, high=self.length + begin - held, spread=spread)
        smallest = lowest - spread * first
        before, after = max(0, -smallest), max(0, smallest + width - held)
        value = pad_dim(op.emit, value, dim, before, after, fill, between=spread - 1)
        return cut(op.emit, value, dim, begin + before, others, self.length), Window(1)


def without_cuts(emit: Emitter, value: Value, dim: int, window: Window, fill: Value) -> tuple[Value, Window]:
    """Slice off the elements that negative padding removes, because XLA's CPU backend confuses some of them.

    If none are left, the result is the scalar `fill`.
    """
    type_ = value.type
    size, spread = type_.shape[dim], window.spread
    before, after = (max(0, -(amount // spread)) for amount in (window.low, window.high))
    if not before + after:
        return value, window
    if before + after >= size:
        value = emit.broadcast_scalar(fill, resized(type_, dim, window.places(size)))
        return value, dataclasses.replace(window, low=0, high=0, spread=1)
    value = cut(emit, value, dim, before, (), size - before - after)
    return value, dataclasses.replace(window, low=window.low + before * spread, high=window.high + after * spread)


def cut(emit: Emitter, value: Value, dim: int, begin: int, shifts: Sequence[ShardOffset], length: int) -> Value:
    """`length` elements from `begin` plus all shifts, which must exist."""
    type_ = value.type
    result = resized(type_, dim, length)
    if not shifts:
        if result == type_:
            return value
        starts = [begin if d == dim else 0 for d in range(type_.rank)]
        return emit.op(
            "stablehlo.slice",
            [value],
            [result],
            start_indices=emit.i64s(starts),
            limit_indices=emit.i64s([a + n for a, n in zip(starts, result.shape, strict=True)]),
            strides=emit.i64s([1] * type_.rank),
        )
    zero, start = emit.constant(INDEX, 0), emit.constant(INDEX, begin)
    for shift in shifts:
        start = emit.binary("add", start, shift.places(emit))
    return emit.dynamic_slice(value, [start if d == dim else zero for d in range(type_.rank)], result.shape)
