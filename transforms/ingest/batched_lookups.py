"""Batching dimensions for gathers and scatters whose indices count along a batch, as in `x[arange(n), i]`.

A batching dimension can be split without communication; with other indices, any device may need any element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from gspmd.transforms.ingest.edits import create
from gspmd.transforms.ir.operations import Operation, Value
from gspmd.transforms.ir.reducers import is_zero
from gspmd.transforms.ir.types import element_bytes

GATHER, SCATTER = "stablehlo.gather", "stablehlo.scatter"
_JOIN = "stablehlo.concatenate"
# Operations that compute indices; they are erased if the rewrite leaves them unused.
_PURE = {_JOIN} | {
    f"stablehlo.{name}"
    for name in ("add", "broadcast_in_dim", "compare", "constant", "convert", "iota", "reshape", "select")
}
_MAX_ELEMENTS = 65536


class _DimensionNumbers(NamedTuple):
    """The dimension numbers of a gather or scatter, with the names of gather."""

    offset: list[int]
    collapsed: list[int]
    operand_batching: list[int]
    indices_batching: list[int]
    start: list[int]
    vector_dim: int


def joins_indices(op: Operation) -> bool:
    """Whether the indices of a gather or scatter are concatenated, so that one component may count along a batch."""
    return _name_of(_indices(op)) == _JOIN


def batch_lookups(main: Operation) -> None:
    """Rewrite the gathers and scatters of a function without calls."""
    for op in [op for op in main.walk() if op.name in (GATHER, SCATTER)]:
        if joins_indices(op):
            _rewrite(op)


def _indices(op: Operation) -> Value:
    return op.operands[len(op.results)]


def _name_of(value: Value) -> str:
    return "" if value.op is None else value.op.name


def _rewrite(op: Operation) -> None:
    numbers = _read(op)
    join = _indices(op).maker
    parts = list(join.operands)
    if int(join.attributes["dimension"]) != numbers.vector_dim or len(parts) != len(numbers.start):
        return  # the parts are not the components
    shape, indices = _shape(op.operands[0]), _shape(_indices(op))
    pairs = dict(zip(numbers.operand_batching, numbers.indices_batching, strict=True))
    kept = []
    for dim, part in zip(numbers.start, parts, strict=True):
        batch = _counted_dim(part) if dim in numbers.collapsed and shape[dim] > 1 else None
        if batch is None or batch in pairs.values() or indices[batch] != shape[dim]:
            kept.append((dim, part))
        else:
            pairs[dim] = batch
    if len(kept) == len(parts):
        return
    ordered = dict(sorted(pairs.items()))
    collapsed = [d for d in numbers.collapsed if d not in ordered]
    changed = _DimensionNumbers(
        numbers.offset, collapsed, [*ordered], [*ordered.values()], [d for d, _ in kept], numbers.vector_dim
    )
    _write(op, changed)
    op.operands[len(op.results)] = _joined([part for _, part in kept], numbers.vector_dim, join.results[0], op)
    if "indices_are_sorted" in op.attributes:
        op.attributes["indices_are_sorted"] = ir.BoolAttr.get(False)
    _erase_unused(join)


def _read(op: Operation) -> _DimensionNumbers:
    if op.name == GATHER:
        gather = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
        return _DimensionNumbers(
            gather.offset_dims,
            gather.collapsed_slice_dims,
            gather.operand_batching_dims,
            gather.start_indices_batching_dims,
            gather.start_index_map,
            gather.index_vector_dim,
        )
    scatter = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    return _DimensionNumbers(
        scatter.update_window_dims,
        scatter.inserted_window_dims,
        scatter.input_batching_dims,
        scatter.scatter_indices_batching_dims,
        scatter.scattered_dims_to_operand_dims,
        scatter.index_vector_dim,
    )


def _write(op: Operation, numbers: _DimensionNumbers) -> None:
    if op.name == GATHER:
        op.attributes["dimension_numbers"] = stablehlo.GatherDimensionNumbers.get(*numbers)
    else:
        op.attributes["scatter_dimension_numbers"] = stablehlo.ScatterDimensionNumbers.get(*numbers)


def _shape(value: Value) -> list[int]:
    return list(value.type.shape)


def _joined(parts: Sequence[Value], dim: int, like: Value, before: Operation) -> Value:
    """The concatenation of these components; an empty value with the element type of `like` for none."""
    if len(parts) == 1:
        return parts[0]
    result = like.type.of_shape(tuple(len(parts) if d == dim else n for d, n in enumerate(like.type.shape)))
    if not parts:
        empty = ir.Attribute.parse(f"dense<> : {result.text}")
        return create("stablehlo.constant", [], [result], {"value": empty}, before).results[0]
    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)
    return create(_JOIN, parts, [result], {"dimension": number}, before).results[0]


def _erase_unused(op: Operation) -> None:
    """Erase the operation and its producers, as far as they have no other users."""
    for found in reversed(_makers(op, {})):
        if not any(result.is_used for result in found.results):
            found.erase()


def _makers(op: Operation, seen: dict[Operation, None]) -> list[Operation]:
    """The producers of an operation, transitively, in order of execution."""
    for value in op.operands:
        made = value.op
        if made is not None and made.name in _PURE and made not in seen:
            _makers(made, seen)
    seen[op] = None
    return list(seen)


# ---- values that count ----


def _counted_dim(value: Value) -> int | None:
    """The dimension along which the value counts 0, 1, 2 and so on, if it is constant along all others.

    None if this is unknown. Dimensions of one element are ignored.
    """
    op = value.op
    if op is None:
        passed = _carried(value)
        return None if passed is None else _counted_dim(passed)
    known = _COUNTED.get(op.name)
    return None if known is None else known(op)


def _carried(argument: Value) -> Value | None:
    """The initial value of a loop variable that the loop does not change."""
    loop, index = argument.block.owner, argument.index
    if loop is None or loop.name != "stablehlo.while":
        return None
    body = loop.regions[1]
    return loop.operands[index] if body.terminator.operands[index] is body.arguments[index] else None


def _iota(op: Operation) -> int | None:
    dim = int(op.attributes["iota_dimension"])
    return dim if _shape(op.results[0])[dim] > 1 else None


def _constant(op: Operation) -> int | None:
    """A constant with a literal for each element."""
    value, shape = op.attributes["value"], _shape(op.results[0])
    if not isinstance(value, ir.DenseIntElementsAttr) or value.is_splat or np.prod(shape) > _MAX_ELEMENTS:
        return None
    numbers = np.array(value).reshape(shape)
    for dim, size in enumerate(shape):
        counting = np.arange(size).reshape([-1 if d == dim else 1 for d in range(len(shape))])
        if size > 1 and np.array_equal(numbers, np.broadcast_to(counting, shape)):
            return dim
    return None


def _broadcast(op: Operation) -> int | None:
    dim = _counted_dim(op.operands[0])
    return None if dim is None else int(list(op.attributes["broadcast_dimensions"])[dim])


def _reshape(op: Operation) -> int | None:
    """A reshape may add and remove dimensions of one element only."""
    before, after = _shape(op.operands[0]), _shape(op.results[0])
    dim = _counted_dim(op.operands[0])
    if dim is None or [n for n in before if n != 1] != [n for n in after if n != 1]:
        return None
    return [d for d, n in enumerate(after) if n != 1][sum(n != 1 for n in before[:dim])]


def _convert(op: Operation) -> int | None:
    """A conversion must be to an integer type that can represent all positions."""
    dim, element = _counted_dim(op.operands[0]), op.results[0].type.element
    if dim is None or not element.startswith(("i", "ui")) or element == "index":
        return None
    return dim if _shape(op.results[0])[dim] <= 2 ** (round(8 * element_bytes(element)) - 1) else None


def _select(op: Operation) -> int | None:
    """`x < 0 ? x + n : x` is x if x counts, because it is never negative."""
    return _counted_dim(op.operands[2]) if _is_never(op.operands[0]) else None


def _is_never(test: Value) -> bool:
    if _name_of(test) != "stablehlo.compare":
        return is_zero(test)
    compare = test.maker
    is_less = "LT" in str(compare.attributes["comparison_direction"])
    return is_less and is_zero(compare.operands[1]) and _counted_dim(compare.operands[0]) is not None


def _first(op: Operation) -> int | None:
    return _counted_dim(op.operands[0])


_COUNTED: dict[str, Callable[[Operation], int | None]] = {
    "stablehlo.iota": _iota,
    "stablehlo.constant": _constant,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.reshape": _reshape,
    "stablehlo.convert": _convert,
    "stablehlo.select": _select,
    "sdy.sharding_constraint": _first,
}
