"""Gather shards that are mostly padding, by a sum of every device's elements at their positions.

For example, `f32[1,8] [{"x"}, {}]` over x=8 is one row on the first device, and padding on the others. An all-gather
would send seven rows, of which a device keeps the first. An all-reduce of the row among zeros sends 1.75 rows per
device.
"""

from __future__ import annotations

import math

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.sharding import local_shape
from gspmd.transforms.emit.carriers import carried, delivered
from gspmd.transforms.emit.collective_builder import Cause
from gspmd.transforms.emit.emitter import INDEX, Emitter
from gspmd.transforms.exchange.blocks import Dims
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.types import TensorType


def is_mostly_padding(shape: tuple[int, ...], before: Dims, after: Dims) -> bool:
    """Whether an all-gather between two shardings sends more than an all-reduce of the result."""
    held, left = (math.prod(local_shape(shape, dims)) for dims in (before, after))
    counts = [size_of(b) // size_of(a) for b, a in zip(before, after, strict=True)]
    return 2 * left < math.prod(counts) * held


def gather_into_place(emit: Emitter, value: Value, dims: dict[int, Axes], left: tuple[int, ...], cause: Cause) -> Value:
    """The concatenated shards of `dims`; `left` is the shape without padding."""
    local = value.type.shape
    whole = TensorType(
        tuple([n * size_of(dims[d]) if d in dims else n for d, n in enumerate(local)]), value.type.element
    )
    axes = tuple(axis for each in dims.values() for axis in each)
    starts = [emit.shard_offset(dims[d], n) if d in dims else emit.constant(INDEX, 0) for d, n in enumerate(local)]
    sums = []
    for part in carried(emit, value):
        zeros = emit.constant(whole.of_element(part.type.element), "zero")
        placed = emit.op("stablehlo.dynamic_update_slice", [zeros, part, *starts], [zeros.type])
        sums.append(emit.all_reduce(emit.slice(placed, left), axes, "add", cause))
    made: Value = delivered(emit, iter(sums), TensorType(left, value.type.element))
    return made
