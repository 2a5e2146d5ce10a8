"""Scatters of one element into every row of zeros: a comparison with the positions of the row.

The gradient of looking one score up in every row is such a scatter. Written as a comparison it is computed where it is
used; a scatter's result is held from when the indices are known, and split only as scatters can be.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from gspmd.transforms.emit.builder import Builder, read_type
from gspmd.transforms.ingest.edits import replace
from gspmd.transforms.ingest.survey import all_operations
from gspmd.transforms.ir.op_info import TensorType
from gspmd.transforms.ir.reducers import is_splat

_SCATTER, _SAID = "stablehlo.scatter", "sdy.sharding"


def is_one_per_row(op: Any) -> bool:
    """Whether an operation is a scatter that has one index in every row, a row being along one dimension."""
    if op.name != _SCATTER or len(op.results) != 1:
        return False
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    batching, vector = list(numbers.scatter_indices_batching_dims), numbers.index_vector_dim
    if numbers.update_window_dims or len(numbers.inserted_window_dims) != 1:
        return False
    if len(numbers.scattered_dims_to_operand_dims) != 1:
        return False
    shape = read_type(op.operands[1]).shape
    return all(size == 1 or dim in batching for dim, size in enumerate(shape) if dim != vector)


def compare_positions(main: Any) -> None:
    """Rewrite the scatters of a function, which has no calls left, that write to zeros."""
    for op in [op for op in all_operations(main) if is_one_per_row(op)]:
        if _is_zero(op.operands[0]) and _writes_updates(op):
            _compare(op)


def _is_zero(value: Any) -> bool:
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.operation.name == "stablehlo.broadcast_in_dim":
        value = owner.operation.operands[0]
    return is_splat(value, "zero")


def _writes_updates(op: Any) -> bool:
    """Whether an update takes the place of a zero, or is added to it, which gives it too but for the sign of -0.0."""
    block = op.regions[0].blocks[0]
    *inner, last = [view.operation for view in block.operations]
    if not inner:
        return bool(last.operands[0] == block.arguments[1])
    adds = len(inner) == 1 and inner[0].name == "stablehlo.add" and last.operands[0] == inner[0].results[0]
    return adds and set(inner[0].operands) == set(block.arguments)


def _compare(op: Any) -> None:
    """`select(index == iota, update, 0)`."""
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    zeros, indices, updates = op.operands
    type_, counted = read_type(zeros), ir.RankedTensorType(indices.type).element_type
    (dim,) = numbers.inserted_window_dims
    if not isinstance(counted, ir.IntegerType) or type_.shape[dim] > 2 ** (counted.width - 1):
        return
    build = Builder(op.context)
    build.point, build.location = ir.InsertionPoint(op), op.location
    of = dict(zip(numbers.scatter_indices_batching_dims, numbers.input_batching_dims, strict=True))
    order = [of[index] for index in sorted(of)]

    def along_rows(value: Any) -> Any:
        flat = build.reshape(value, [type_.shape[d] for d in order])
        result = TensorType(type_.shape, read_type(value).element)
        return build.op("stablehlo.broadcast_in_dim", [flat], [result], broadcast_dimensions=build.i64s(order))

    place = TensorType(type_.shape, str(counted))
    positions = build.op("stablehlo.iota", [], [place], iota_dimension=build.i64(dim))
    hit = build.compare(along_rows(indices), "EQ", positions)
    made = build.op("stablehlo.select", [hit, along_rows(updates), zeros], [type_])
    if _SAID in op.attributes:
        made.owner.operation.attributes[_SAID] = op.attributes[_SAID]
    replace(op, [made])
