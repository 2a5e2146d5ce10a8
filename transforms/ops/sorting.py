"""sort and top_k: order along one dimension."""

from __future__ import annotations

import math
from typing import Any

from jaxlib.mlir import ir

from gspmd.dialect.rule import NEED_REPLICATION, PERMUTATION, OpShardingRule, RuleBuilder
from gspmd.transforms.support.builder import read_type
from gspmd.transforms.support.emitter import Emitter
from gspmd.transforms.support.local_op import LocalOp
from gspmd.transforms.support.op_definition import OpDef, op_table
from gspmd.transforms.support.op_info import OpInfo, TensorType


def sort_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions but the sorted one pass through, together in all operands and results."""
    shape, count = info.operands[0].shape, len(info.operands)
    sorted_dim = info.integer("dimension", -1) % max(len(shape), 1)
    builder = RuleBuilder([shape] * count, [shape] * count)
    for dim, size in enumerate(shape):
        if dim == sorted_dim:
            builder.factor([dim] * count, [dim] * count, size, NEED_REPLICATION)
        else:
            builder.factor([dim] * count, [dim] * count, size)
    return builder.build()


def top_k_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions but the last pass through; along that, the best of all shards are brought together."""
    shape = info.operands[0].shape
    builder = RuleBuilder([shape], [t.shape for t in info.results])
    for dim, size in enumerate(shape):
        if dim == len(shape) - 1:
            builder.factor([dim], [None, None], size, PERMUTATION)
        else:
            builder.factor([dim], [dim, dim], size)
    return builder.build()


def localize_top_k(op: LocalOp) -> None:
    """The best of each shard are gathered, and the best of these are the result.

    What counts as larger is the total order, in which positive NaN is above and negative NaN below
    everything; of equal elements the first one comes first, which keeps its place when shards are joined in
    order.
    """
    emit, operand = op.emit, op.info.operands[0]
    last = operand.rank - 1
    axes = op.operand_axes(0, last)
    if not axes:
        op.keep()
        return
    floating = not operand.element.lstrip("u").startswith("i")
    op.mask_operand(0, last, -math.nan if floating else "lowest")
    k, local = op.info.results[0].shape[last], op.local_operand(0).shape
    best = min(k, local[last])
    values, indices = _top_k(emit, op.operands[0], best)
    positions = read_type(indices)
    offset = emit.shard_offset(axes, local[last])
    indices = emit.binary("add", indices, emit.broadcast_scalar(offset, positions))
    cause = op.cause(f"'{op.info.name}' selects from a split dimension: the best of all shards are compared")
    values, indices = (emit.all_gather(value, last, axes, cause) for value in (values, indices))
    values, places = _top_k(emit, values, k)
    op.replace([values, _take_along_last(emit, indices, places)])


def _top_k(emit: Emitter, value: Any, k: int) -> Any:
    """The k largest elements along the last dimension, and where they are (i32)."""
    type_ = read_type(value)
    shape = (*type_.shape[:-1], k)
    results = [TensorType(shape, type_.element), TensorType(shape, "i32")]
    return emit.op("chlo.top_k", [value], results, k=emit.i64(k))


def _take_along_last(emit: Emitter, value: Any, places: Any) -> Any:
    """`value[..., places]`, row by row."""
    type_, index = read_type(value), read_type(places)
    rows = list(range(type_.rank - 1))
    numbers = (
        f"#stablehlo.gather<collapsed_slice_dims = [{type_.rank - 1}], operand_batching_dims = {rows}, "
        f"start_indices_batching_dims = {rows}, start_index_map = [{type_.rank - 1}], index_vector_dim = {type_.rank}>"
    )
    return emit.op(
        "stablehlo.gather",
        [value, places],
        [TensorType(index.shape, type_.element)],
        dimension_numbers=ir.Attribute.parse(numbers, emit.context),
        slice_sizes=emit.i64s([1] * type_.rank),
    )


OPS = op_table([OpDef("stablehlo.sort", sort_rule), OpDef("chlo.top_k", top_k_rule, localize_top_k)])
