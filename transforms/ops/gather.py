"""gather: look-ups such as an embedding's, with rows that may live on other devices."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from gspmd.dialect.rule import REDUCTION, OpShardingRule, RuleBuilder
from gspmd.transforms.support.identity import identity_of, partial_combiner
from gspmd.transforms.support.indices import clamp, components, index_element, inside, join_components, relative
from gspmd.transforms.support.local_op import LocalOp
from gspmd.transforms.support.op_definition import OpDef, op_table
from gspmd.transforms.support.op_info import OpInfo


def gather_rule(info: OpInfo) -> OpShardingRule:
    """Whole windows, batching dimensions and dimensions of the indices pass through.

    A dimension that is looked up one element at a time leaves partial results: each device finds the
    elements it holds. Index vectors and windows that are part of a dimension cannot be split.
    """
    numbers = stablehlo.GatherDimensionNumbers(info.attributes["dimension_numbers"])
    operand, indices, result = info.operands[0].shape, info.operands[1].shape, info.results[0].shape
    element = info.results[0].element
    sizes = info.ints("slice_sizes")
    builder = RuleBuilder([operand, indices], [result], combiner=partial_combiner(element))
    place = dict(zip(_index_dims(info), _batch_dims(info), strict=True))
    batching = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    windows = [d for d in range(len(operand)) if d not in batching and d not in numbers.collapsed_slice_dims]
    window_place = dict(zip(windows, numbers.offset_dims, strict=True))
    for dim, size in enumerate(operand):
        if dim in batching:
            builder.factor([dim, batching[dim]], [place[batching[dim]]], size)
        elif dim in window_place and sizes[dim] == size:
            builder.factor([dim, None], [window_place[dim]], size)
        elif dim in numbers.start_index_map and sizes[dim] == 1 and not element.startswith("!"):
            builder.factor([dim, None], [None], size, REDUCTION)
    for dim, target in place.items():
        if dim not in batching.values():
            builder.factor([None, dim], [target], indices[dim])
    return builder.build()


def _index_dims(info: OpInfo) -> list[int]:
    """Dimensions of the indices other than the index vector's."""
    numbers = stablehlo.GatherDimensionNumbers(info.attributes["dimension_numbers"])
    return [d for d in range(info.operands[1].rank) if d != numbers.index_vector_dim]


def _batch_dims(info: OpInfo) -> list[int]:
    """Dimensions of the result that come from the indices."""
    numbers = stablehlo.GatherDimensionNumbers(info.attributes["dimension_numbers"])
    return [d for d in range(info.results[0].rank) if d not in numbers.offset_dims]


def localize_gather(op: LocalOp) -> None:
    """Look up what this shard holds; where another one holds it, give the neutral element."""
    numbers = stablehlo.GatherDimensionNumbers(op.info.attributes["dimension_numbers"])
    local, shape = op.local_operand(0), op.info.operands[0].shape
    sizes = op.info.ints("slice_sizes")
    local_sizes = [local.shape[d] if size == shape[d] else size for d, size in enumerate(sizes)]
    looked_up = [d for d in numbers.start_index_map if d in numbers.collapsed_slice_dims or sizes[d] != shape[d]]
    split = [d for d in looked_up if op.operand_axes(0, d)]
    indices, found = op.operands[1], None
    if split:
        indices, found = _relative_indices(op, numbers, split)
    result = op.local_result(0)
    value = op.emit.op(
        "stablehlo.gather",
        [op.operands[0], indices],
        [result],
        dimension_numbers=op.ir.attributes["dimension_numbers"],
        slice_sizes=op.emit.i64s(local_sizes),
        indices_are_sorted=_sorted_attribute(op, bool(split)),
    )
    if found is not None:
        mask = op.emit.op(
            "stablehlo.broadcast_in_dim",
            [found],
            [result._replace(element="i1")],
            broadcast_dimensions=op.emit.i64s(_batch_dims(op.info)),
        )
        neutral = op.emit.constant(result, identity_of(op.rule.combiner))
        value = op.emit.op("stablehlo.select", [mask, value, neutral], [result])
    op.replace([value])


def _sorted_attribute(op: LocalOp, changed: bool) -> Any:
    """Indices that were changed or padded are not sorted any more."""
    padded = not op.operand_shardings[1].divides(op.info.operands[1].shape)
    if changed or padded:
        return ir.BoolAttr.get(False, op.emit.context)
    return op.info.attributes.get("indices_are_sorted")


def _relative_indices(op: LocalOp, numbers: Any, split: list[int]) -> tuple[Any, Any]:
    """Indices into this shard, and which of them are inside it (`index dimensions` of i1).

    The clamp that the operation does on the whole operand comes first: it decides which shard answers.
    """
    emit, shape, local = op.emit, op.info.operands[0].shape, op.local_operand(0).shape
    sizes = op.info.ints("slice_sizes")
    element = index_element(shape)
    parts, found = [], None
    vectors = components(emit, op.operands[1], numbers.index_vector_dim, len(numbers.start_index_map))
    for dim, value in zip(numbers.start_index_map, vectors, strict=True):
        position = clamp(emit, value, 0, shape[dim] - sizes[dim], element)
        if dim in split:
            position = relative(emit, position, op.operand_axes(0, dim), local[dim])
            here = inside(emit, position, local[dim])
            found = here if found is None else emit.binary("and", found, here)
        parts.append(position)
    index_shape = op.local_operand(1).shape
    found = emit.reshape(found, [index_shape[d] for d in _index_dims(op.info)])
    return join_components(emit, parts, numbers.index_vector_dim), found


OPS = op_table([OpDef("stablehlo.gather", gather_rule, localize_gather)])
