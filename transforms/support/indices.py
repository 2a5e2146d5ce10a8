"""Start indices of gathers, scatters and dynamic slices, turned from global into per-shard ones.

Indices come in any integer type, and may be far out of range. They are clamped in their own type first,
which keeps what they mean, then computed with in a signed type that holds every difference.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes
from gspmd.transforms.support.builder import read_type
from gspmd.transforms.support.emitter import Emitter
from gspmd.transforms.support.op_info import TensorType


def index_element(sizes: tuple[int, ...]) -> str:
    """The signed type to compute positions of a tensor of these dimensions in."""
    return "i32" if max(sizes, default=0) < 2**30 else "i64"


def compare(emit: Emitter, left: Any, direction: str, right: Any) -> Any:
    """Elementwise comparison; `direction` is LT, GE and so on."""
    return emit.op(
        "stablehlo.compare",
        [left, right],
        [TensorType(read_type(left).shape, "i1")],
        comparison_direction=ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>", emit.context),
    )


def clamp(emit: Emitter, indices: Any, low: int, high: int, element: str) -> Any:
    """Indices limited to [low, high], as far as their type reaches there, then converted to `element`."""
    type_ = read_type(indices)
    least, most = _range(type_.element)
    scalar = TensorType((), type_.element)
    limits = [emit.constant(scalar, min(max(limit, least), most)) for limit in (low, high)]
    clamped = emit.op("stablehlo.clamp", [limits[0], indices, limits[1]], [type_])
    return emit.convert(clamped, element)


def _range(element: str) -> tuple[int, int]:
    bits = int(element.lstrip("uis"))
    return (0, 2**bits - 1) if element.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def relative(emit: Emitter, indices: Any, axes: Axes, shard_size: int) -> Any:
    """Indices counted from where this device's shard begins; may be negative."""
    type_ = read_type(indices)
    offset = emit.shard_offset(axes, shard_size, type_.element)
    if type_.shape:
        offset = emit.broadcast_scalar(offset, type_)
    return emit.binary("subtract", indices, offset)


def inside(emit: Emitter, indices: Any, shard_size: int) -> Any:
    """Whether relative indices are in [0, shard_size), as i1."""
    type_ = read_type(indices)
    low, high = emit.constant(type_, 0), emit.constant(type_, shard_size)
    return emit.binary("and", compare(emit, indices, "GE", low), compare(emit, indices, "LT", high))


def components(emit: Emitter, indices: Any, vector_dim: int, count: int) -> list[Any]:
    """The index vectors of a gather or scatter as `count` tensors, each with a vector of one element.

    Without a dimension for vectors (`vector_dim` equal to the rank) there is one, the indices themselves.
    """
    if count == 1:
        return [indices]
    type_ = read_type(indices)
    shape = tuple(1 if d == vector_dim else n for d, n in enumerate(type_.shape))
    found = []
    for component in range(count):
        starts = [component if d == vector_dim else 0 for d in range(type_.rank)]
        found.append(
            emit.op(
                "stablehlo.slice",
                [indices],
                [TensorType(shape, type_.element)],
                start_indices=emit.i64s(starts),
                limit_indices=emit.i64s([a + n for a, n in zip(starts, shape, strict=True)]),
                strides=emit.i64s([1] * type_.rank),
            )
        )
    return found


def join_components(emit: Emitter, parts: list[Any], vector_dim: int) -> Any:
    """The inverse of `components`."""
    if len(parts) == 1:
        return parts[0]
    type_ = read_type(parts[0])
    shape = tuple(len(parts) if d == vector_dim else n for d, n in enumerate(type_.shape))
    result = TensorType(shape, type_.element)
    return emit.op("stablehlo.concatenate", parts, [result], dimension=emit.i64(vector_dim))
