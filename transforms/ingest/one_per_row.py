"""Scatters of one element into every row of zeros become a comparison with the positions of the row.

The gradient of a look-up of one score per row is such a scatter. A comparison is fused into its consumer and can be
split along every dimension; the result of a scatter stays in memory and can be split only as scatters can.
"""

from __future__ import annotations

from jaxlib.mlir.dialects import stablehlo

from gspmd.transforms.emit.builder import Builder
from gspmd.transforms.ir.modules import context_of
from gspmd.transforms.ir.operations import Operation, Point, Value
from gspmd.transforms.ir.reducers import is_splat
from gspmd.transforms.ir.types import TensorType, element_bytes

_SCATTER, _SAID = "stablehlo.scatter", "sdy.sharding"


def is_one_per_row(op: Operation) -> bool:
    """Whether an operation is a scatter with one index per row, where a row is along one dimension."""
    if op.name != _SCATTER or len(op.results) != 1:
        return False
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    batching, vector = list(numbers.scatter_indices_batching_dims), numbers.index_vector_dim
    if numbers.update_window_dims or len(numbers.inserted_window_dims) != 1:
        return False
    if len(numbers.scattered_dims_to_operand_dims) != 1:
        return False
    shape = op.operands[1].type.shape
    return all(size == 1 or dim in batching for dim, size in enumerate(shape) if dim != vector)


def compare_positions(main: Operation) -> None:
    """Rewrite the scatters into zeros of a function without calls."""
    for op in [op for op in main.walk() if is_one_per_row(op)]:
        if _is_zero(op.operands[0]) and _writes_updates(op):
            _compare(op)


def _is_zero(value: Value) -> bool:
    if value.op is not None and value.op.name == "stablehlo.broadcast_in_dim":
        value = value.op.operands[0]
    return is_splat(value, "zero")


def _writes_updates(op: Operation) -> bool:
    """Whether an update replaces a zero or is added to it; these differ only in the sign of -0.0."""
    block = op.regions[0]
    *inner, last = list(block)
    if not inner:
        return bool(last.operands[0] == block.arguments[1])
    adds = len(inner) == 1 and inner[0].name == "stablehlo.add" and last.operands[0] == inner[0].results[0]
    return adds and set(inner[0].operands) == set(block.arguments)


def _compare(op: Operation) -> None:
    """`select(index == iota, update, 0)`."""
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    zeros, indices, updates = op.operands
    type_, counted = zeros.type, indices.type.element
    (dim,) = numbers.inserted_window_dims
    if type_.shape[dim] > 2 ** (round(8 * element_bytes(counted)) - 1):
        return
    build = Builder(context_of(op))
    build.point, build.location = Point.at(op), op.location
    of = dict(zip(numbers.scatter_indices_batching_dims, numbers.input_batching_dims, strict=True))
    order = [of[index] for index in sorted(of)]

    def along_rows(value: Value) -> Value:
        flat = build.reshape(value, [type_.shape[d] for d in order])
        result = TensorType(type_.shape, value.type.element)
        return build.op("stablehlo.broadcast_in_dim", [flat], [result], broadcast_dimensions=build.i64s(order))

    place = TensorType(type_.shape, counted)
    positions = build.op("stablehlo.iota", [], [place], iota_dimension=build.i64(dim))
    hit = build.compare(along_rows(indices), "EQ", positions)
    made = build.op("stablehlo.select", [hit, along_rows(updates), zeros], [type_])
    if _SAID in op.attributes:
        made.maker.attributes[_SAID] = op.attributes[_SAID]
    op.replace([made])
