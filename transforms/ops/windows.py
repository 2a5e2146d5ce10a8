"""reduce_window, select_and_scatter, convolution: dimensions that no window moves over pass through."""

from __future__ import annotations

from jaxlib.mlir.dialects import stablehlo

from gspmd.dialect.rule import NEED_REPLICATION, REDUCTION, OpShardingRule, RuleBuilder
from gspmd.transforms.support.local_op import LocalOp
from gspmd.transforms.support.op_definition import OpDef, op_table
from gspmd.transforms.support.op_info import OpInfo


def reduce_window_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions with windows of one element, in place, pass through."""
    count = len(info.results)
    shapes = [t.shape for t in info.operands]
    builder = RuleBuilder(shapes, [t.shape for t in info.results])
    for dim, size in enumerate(shapes[0]):
        if _is_trivial(info, dim, "window_dimensions"):
            builder.factor([dim] * count + [None] * count, [dim] * count, size)
    return builder.build()


def select_and_scatter_rule(info: OpInfo) -> OpShardingRule:
    """As for reduce_window; the source has the result's windows for elements."""
    operand, source = info.operands[0].shape, info.operands[1].shape
    builder = RuleBuilder([operand, source, ()], [operand])
    for dim, size in enumerate(operand):
        if _is_trivial(info, dim, "window_dimensions"):
            builder.factor([dim, dim, None], [dim], size)
    return builder.build()


def _is_trivial(info: OpInfo, dim: int, window: str) -> bool:
    """Whether windows along a dimension are single elements, one for each element in place.

    `dim` counts among the dimensions that the operation lists windows for.
    """
    ones = [info.ints(name) for name in (window, "window_strides", "base_dilations", "lhs_dilation")]
    padding = info.ints("padding")
    if any(values and values[dim] != 1 for values in ones):
        return False
    return not padding or not any(padding[2 * dim : 2 * dim + 2])


def convolution_rule(info: OpInfo) -> OpShardingRule:
    """Batch and output features pass through, input features leave partial sums, groups split evenly.

    Spatial dimensions pass through where the kernel is one element wide and moves in steps of one.
    """
    numbers = stablehlo.ConvDimensionNumbers(info.attributes["dimension_numbers"])
    lhs, rhs, result = info.operands[0].shape, info.operands[1].shape, info.results[0].shape
    batch, feature = numbers.input_batch_dimension, numbers.input_feature_dimension
    kernel_in, kernel_out = numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension
    out_batch, out_feature = numbers.output_batch_dimension, numbers.output_feature_dimension
    feature_groups, batch_groups = info.integer("feature_group_count", 1), info.integer("batch_group_count", 1)
    builder = RuleBuilder([lhs, rhs], [result])
    if feature_groups > 1:
        builder.factor([feature, kernel_out], [out_feature], feature_groups, even=True)
        builder.factor([feature, None], [None], lhs[feature] // feature_groups, NEED_REPLICATION)
    else:
        builder.factor([feature, kernel_in], [None], lhs[feature], REDUCTION)
    if batch_groups > 1:
        builder.factor([batch, kernel_out], [out_feature], batch_groups, even=True)
        builder.factor([batch, None], [None], lhs[batch] // batch_groups, NEED_REPLICATION)
    else:
        builder.factor([batch, None], [out_batch], lhs[batch])
    groups = max(feature_groups, batch_groups)
    kind = [NEED_REPLICATION] if groups > 1 else []
    builder.factor([None, kernel_out], [out_feature], result[out_feature] // groups, *kind)
    spatial = zip(numbers.input_spatial_dimensions, numbers.output_spatial_dimensions, strict=True)
    for index, (source, target) in enumerate(spatial):
        if rhs[numbers.kernel_spatial_dimensions[index]] == 1 and _is_trivial(info, index, "window_strides"):
            builder.factor([source, None], [target], lhs[source])
    return builder.build()


def localize_convolution(op: LocalOp) -> None:
    """Padding along input features is made zero on both sides, and each device has its share of the groups."""
    for factor in op.reduction_factors():
        for operand in range(2):
            dim = op.operand_dim(operand, factor)
            if dim is not None:
                op.mask_operand(operand, dim, "zero")
    numbers = stablehlo.ConvDimensionNumbers(op.info.attributes["dimension_numbers"])
    for name, dim in (
        ("feature_group_count", numbers.input_feature_dimension),
        ("batch_group_count", numbers.input_batch_dimension),
    ):
        groups = op.info.integer(name, 1)
        if groups > 1:
            local = groups * op.local_operand(0).shape[dim] // op.info.operands[0].shape[dim]
            op.ir.attributes[name] = op.emit.i64(local)
    op.keep()


OPS = op_table(
    [
        OpDef("stablehlo.reduce_window", reduce_window_rule),
        OpDef("stablehlo.select_and_scatter", select_and_scatter_rule),
        OpDef("stablehlo.convolution", convolution_rule, localize_convolution),
    ]
)
