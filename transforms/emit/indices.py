"""Start indices of gathers, scatters and dynamic slices, converted from global to per-shard ones.

Indices have any integer type and may be far out of range. They are clamped in their own type first, which preserves
their meaning; then all computation is in a signed type that can represent every difference.
"""

from __future__ import annotations

import dataclasses

from gspmd.dialect.axes import Axes, size_of
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.types import TensorType


@dataclasses.dataclass(frozen=True, slots=True)
class WindowDim:
    """A dimension that windows are read from or written to, with the splits of both.

    It has `size` elements, in shards of `shard` over `axes`. Windows have `window` elements, split over `part_axes`
    into parts of `part` elements.
    """

    dim: int
    size: int
    shard: int
    axes: Axes
    window: int
    part: int
    part_axes: Axes

    @property
    def is_split(self) -> bool:
        return bool(self.axes or self.part_axes)

    @property
    def overhang(self) -> int:
        """The padding of the last part of the window."""
        return self.part * size_of(self.part_axes) - self.window

    def position(self, emit: Emitter, start: Value) -> Value:
        """The start of this device's part of a window, relative to the start of its shard; it may be out of range."""
        if self.part_axes:
            start = emit.binary("add", start, _offset(emit, start, self.part_axes, self.part))
        return relative(emit, start, self.axes, self.shard) if self.axes else start


def index_element(sizes: tuple[int, ...]) -> str:
    """The signed type for positions in a tensor with these dimensions."""
    return "i32" if max(sizes, default=0) < 2**30 else "i64"


def clamp(emit: Emitter, indices: Value, low: int, high: int, element: str) -> Value:
    """Indices clamped to [low, high] in their own type, then converted to `element`."""
    type_ = indices.type
    least, most = _range(type_.element)
    scalar = TensorType((), type_.element)
    limits = [emit.constant(scalar, min(max(limit, least), most)) for limit in (low, high)]
    clamped = emit.op("stablehlo.clamp", [limits[0], indices, limits[1]], [type_])
    return emit.convert(clamped, element)


def _range(element: str) -> tuple[int, int]:
    bits = int(element.lstrip("uis"))
    return (0, 2**bits - 1) if element.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def relative(emit: Emitter, indices: Value, axes: Axes, shard_size: int) -> Value:
    """Indices relative to the start of this device's shard; they may be negative."""
    return emit.binary("subtract", indices, _offset(emit, indices, axes, shard_size))


def _offset(emit: Emitter, like: Value, axes: Axes, shard_size: int) -> Value:
    """The start of this device's shard, in the type of these indices."""
    type_ = like.type
    offset = emit.shard_offset(axes, shard_size, type_.element)
    return emit.broadcast_scalar(offset, type_) if type_.shape else offset


def inside(emit: Emitter, indices: Value, size: int) -> Value:
    """Whether indices are in [0, size), as i1."""
    type_ = indices.type
    low, high = emit.constant(type_, 0), emit.constant(type_, size)
    return emit.binary("and", emit.compare(indices, "GE", low), emit.compare(indices, "LT", high))


def both(emit: Emitter, first: Value | None, second: Value) -> Value:
    """The conjunction of two conditions; the first may be None."""
    return second if first is None else emit.binary("and", first, second)


class IndexVectors:
    """The index vectors of a gather or scatter, one component at a time.

    `dims` lists the operand's dimension of every component. A component has the shape of the indices, with an index
    vector dimension of size one; if the indices have no such dimension, one is appended.
    """

    def __init__(self, emit: Emitter, indices: Value, vector_dim: int, dims: list[int]) -> None:
        self._emit = emit
        self._vector_dim = vector_dim
        self.dims = list(dims)
        type_ = indices.type
        shape = tuple(1 if d == vector_dim else n for d, n in enumerate(type_.shape))
        self._type = TensorType(shape if vector_dim < type_.rank else (*shape, 1), type_.element)
        self._indices = indices

    @property
    def batch_shape(self) -> list[int]:
        """The shape without the index vector dimension."""
        return [n for d, n in enumerate(self._type.shape) if d != self._vector_dim]

    def component(self, dim: int) -> Value:
        """The start index in a dimension of the operand; 0 if the vectors have no component for it."""
        emit, type_ = self._emit, self._type
        if dim not in self.dims:
            return emit.constant(type_, 0)
        if len(self.dims) == 1:
            return emit.reshape(self._indices, type_.shape)
        place = self.dims.index(dim)
        starts = [place if d == self._vector_dim else 0 for d in range(type_.rank)]
        return emit.op(
            "stablehlo.slice",
            [self._indices],
            [type_],
            start_indices=emit.i64s(starts),
            limit_indices=emit.i64s([a + n for a, n in zip(starts, type_.shape, strict=True)]),
            strides=emit.i64s([1] * type_.rank),
        )

    def join(self, parts: list[Value]) -> Value:
        """The indices with these components."""
        if len(parts) == 1:
            return parts[0]
        type_ = parts[0].type
        shape = tuple(len(parts) if d == self._vector_dim else n for d, n in enumerate(type_.shape))
        result = TensorType(shape, type_.element)
        return self._emit.op("stablehlo.concatenate", parts, [result], dimension=self._emit.i64(self._vector_dim))
