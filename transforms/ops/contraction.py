"""dot_general and ragged_dot: contraction of two tensors."""

from __future__ import annotations

import math

from jaxlib.mlir.dialects import chlo, stablehlo

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.rule import NEED_REPLICATION, PASS_THROUGH, REDUCTION, OpShardingRule, RuleBuilder
from gspmd.transforms.emit.emitter import Emitter
from gspmd.transforms.emit.indices import clamp, index_element, relative
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.op_definition import OpDef, op_table
from gspmd.transforms.ops.traits import Flops, Traits


def dot_general_rule(info: OpInfo) -> OpShardingRule:
    """Batch and free dimensions pass through; contracted ones leave partial sums."""
    numbers = stablehlo.DotDimensionNumbers(info.attributes["dot_dimension_numbers"])
    lhs, rhs = info.operands[0].shape, info.operands[1].shape
    builder = RuleBuilder([lhs, rhs], [info.results[0].shape])
    batch = list(zip(numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions, strict=True))
    contracted = list(zip(numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions, strict=True))
    out = 0
    for left, right in batch:
        builder.factor([left, right], [out], lhs[left])
        out += 1
    for dim in range(len(lhs)):
        if dim not in {left for left, _ in batch + contracted}:
            builder.factor([dim, None], [out], lhs[dim])
            out += 1
    for dim in range(len(rhs)):
        if dim not in {right for _, right in batch + contracted}:
            builder.factor([None, dim], [out], rhs[dim])
            out += 1
    for left, right in contracted:
        builder.factor([left, right], [None], lhs[left], REDUCTION)
    return builder.build()


def localize_dot_general(op: LocalOp) -> None:
    """Zero the padding along contracted dimensions on both sides, since 0 times unknown content may be NaN."""
    for operand in range(2):
        for factor in op.reduction_factors():
            dim = op.operand_dim(operand, factor)
            if dim is not None:
                op.mask_operand(operand, dim, "zero")
    op.keep()


def ragged_dot_rule(info: OpInfo) -> OpShardingRule:
    """As for dot_general; along the grouped dimension, a device has parts of some groups, and groups are not split.

    With sizes that differ by row (a tensor instead of a list), only the free dimensions of the right side are split.
    """
    numbers = chlo.RaggedDotDimensionNumbers(info.attributes["ragged_dot_dimension_numbers"])
    lhs, rhs, sizes = (t.shape for t in info.operands)
    ragged: set[int] = set() if len(sizes) == 1 else set(range(len(lhs)))
    groups = set(numbers.rhs_group_dimensions)
    batch = list(zip(numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions, strict=True))
    contracted = list(zip(numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions, strict=True))
    builder = RuleBuilder([lhs, rhs, sizes], [info.results[0].shape])
    # Groups of the contracted dimension are the leading dimension of the result.
    out = 1 if any(left in numbers.lhs_ragged_dimensions for left, _ in contracted) else 0
    for left, right in batch:
        builder.factor([left, right, None], [out], lhs[left], NEED_REPLICATION if left in ragged else PASS_THROUGH)
        out += 1
    for dim, size in enumerate(lhs):
        if dim not in {left for left, _ in batch + contracted}:
            builder.factor([dim, None, None], [out], size, NEED_REPLICATION if dim in ragged else PASS_THROUGH)
            out += 1
    for dim, size in enumerate(rhs):
        if dim not in groups and dim not in {right for _, right in batch + contracted}:
            builder.factor([None, dim, None], [out], size)
            out += 1
    for left, right in contracted:
        kind = NEED_REPLICATION if left in ragged else REDUCTION
        builder.factor([left, right, None], [None], lhs[left], kind)
    return builder.build()


def localize_ragged_dot(op: LocalOp) -> None:
    """As for dot_general, with the sizes of the groups' parts on this device."""
    numbers = chlo.RaggedDotDimensionNumbers(op.info.attributes["ragged_dot_dimension_numbers"])
    (dim,) = numbers.lhs_ragged_dimensions
    axes = op.operand_axes(0, dim)
    if axes:
        op.operands[2] = _sizes_here(op.emit, op.operands[2], axes, op.info.operands[0].shape[dim])
    localize_dot_general(op)


def _sizes_here(emit: Emitter, sizes: Value, axes: Axes, size: int) -> Value:
    """The sizes of the parts of consecutive groups in this device's shard of a dimension of `size` elements."""
    type_, local = sizes.type, -(-size // size_of(axes))
    ends = _running_sum(emit, sizes)
    places = [emit.binary("subtract", ends, sizes), ends]
    element = index_element((size,))
    begin, end = (
        clamp(emit, relative(emit, clamp(emit, place, 0, size, element), axes, local), 0, local, element)
        for place in places
    )
    return emit.convert(emit.binary("subtract", end, begin), type_.element)


def _running_sum(emit: Emitter, values: Value) -> Value:
    """The prefix sums of a list."""
    type_ = values.type
    square = TensorType(type_.shape * 2, type_.element)
    places = [emit.op("stablehlo.iota", [], [square.of_element("i32")], iota_dimension=emit.i64(dim)) for dim in (0, 1)]
    spread = emit.op("stablehlo.broadcast_in_dim", [values], [square], broadcast_dimensions=emit.i64s([1]))
    kept = [emit.compare(places[1], "LE", places[0]), spread, emit.constant(square, 0)]
    terms = emit.op("stablehlo.select", kept, [square])
    return emit.sum_over(terms, [1])


def dot_flops(info: OpInfo) -> float:
    numbers = stablehlo.DotDimensionNumbers(info.attributes["dot_dimension_numbers"])
    contracted = math.prod(info.operands[0].shape[d] for d in numbers.lhs_contracting_dimensions)
    return float(2 * math.prod(info.results[0].shape) * contracted)


def vector_dot_flops(info: OpInfo) -> float:
    """`stablehlo.dot` contracts the last dimension of the left side."""
    return 2.0 * math.prod(info.results[0].shape) * info.operands[0].shape[-1]


def ragged_dot_flops(info: OpInfo) -> float:
    """Every element of the left side is multiplied with the free dimensions of the right side of its group."""
    numbers = chlo.RaggedDotDimensionNumbers(info.attributes["ragged_dot_dimension_numbers"])
    shared = {
        *numbers.rhs_contracting_dimensions,
        *numbers.rhs_batching_dimensions,
        *numbers.rhs_group_dimensions,
    }
    free = math.prod(n for d, n in enumerate(info.operands[1].shape) if d not in shared)
    return 2.0 * math.prod(info.operands[0].shape) * free


OPS = op_table(
    [
        OpDef(
            "stablehlo.dot_general",
            dot_general_rule,
            localize_dot_general,
            traits=Traits(flops=Flops("dot", dot_flops)),
        ),
        OpDef(
            "chlo.ragged_dot",
            ragged_dot_rule,
            localize_ragged_dot,
            traits=Traits(flops=Flops("dot", ragged_dot_flops)),
        ),
    ]
)
