"""convolution: contraction over input features and the taps of the kernel, with windows that move over space."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir.dialects import stablehlo

from gspmd.dialect.axes import size_of
from gspmd.dialect.placement import factor_axes
from gspmd.dialect.rule import PASS_THROUGH, PERMUTATION, REDUCTION, OpShardingRule, RuleBuilder
from gspmd.transforms.ops.windows import Reach, Shift, Window, set_padding, windows_of, without_cuts
from gspmd.transforms.support.local_op import LocalOp
from gspmd.transforms.support.op_definition import OpDef, op_table
from gspmd.transforms.support.op_info import OpInfo, TensorType


def convolution_rule(info: OpInfo) -> OpShardingRule:
    """Batch and output features pass through, input features leave partial sums.

    Groups pass through, major to what is within a group. Of a spatial dimension, input and result are split alike and
    windows are fetched, or, where the kernel is the larger one (as in the gradient of weights), input and kernel are,
    which leaves partial sums.
    """
    numbers = _numbers(info)
    lhs, rhs, result = info.operands[0].shape, info.operands[1].shape, info.results[0].shape
    builder = RuleBuilder([lhs, rhs], [result])
    _add_features(builder, info)
    for index, window in enumerate(_windows(info)):
        source, kernel = numbers.input_spatial_dimensions[index], numbers.kernel_spatial_dimensions[index]
        target = numbers.output_spatial_dimensions[index]
        size, count = lhs[source], result[target]
        if not (size and count and window.taps):
            continue
        if window.is_trivial:
            builder.factor([source, None], [target], size)
        elif window.is_wide(count):
            builder.factor([source, kernel], [None], max(size, window.taps), REDUCTION)
            if count > 1:
                builder.factor([None, None], [target], count, PERMUTATION)
        else:
            builder.factor([source, None], [target], max(size, count), PERMUTATION)
            if window.taps > 1:
                builder.factor([None, kernel], [None], window.taps, REDUCTION)
    return builder.build()


def _numbers(info: OpInfo) -> stablehlo.ConvDimensionNumbers:
    return stablehlo.ConvDimensionNumbers(info.attributes["dimension_numbers"])


def _windows(info: OpInfo) -> list[Window]:
    return windows_of(info, [info.operands[1].shape[d] for d in _numbers(info).kernel_spatial_dimensions])


def _groups(info: OpInfo) -> tuple[str, int, int]:
    """The attribute that tells the number of groups, that number, and the dimension of the input they are of."""
    numbers = _numbers(info)
    batches = info.integer("batch_group_count", 1)
    if batches > 1:
        return "batch_group_count", batches, numbers.input_batch_dimension
    return "feature_group_count", info.integer("feature_group_count", 1), numbers.input_feature_dimension


def _add_features(builder: RuleBuilder, info: OpInfo) -> None:
    """The factors of batch and features. A dimension with groups is the groups, then what is in each.

    Shards of groups are of whole ones, so that only groups of one element each are split unevenly.
    """
    numbers = _numbers(info)
    batch, feature = numbers.input_batch_dimension, numbers.input_feature_dimension
    kernel_in, kernel_out = numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension
    out_batch, out_feature = numbers.output_batch_dimension, numbers.output_feature_dimension
    name, groups, grouped = _groups(info)
    within = info.operands[0].shape[grouped] // groups
    made = info.results[0].shape[out_feature] // groups
    if groups > 1:
        even = within != 1 or made != 1
        builder.factor([grouped, kernel_out], [out_feature], groups, PASS_THROUGH, even=even)
    of_batch, of_features = (within, info.operands[1].shape[kernel_in])
    if name == "feature_group_count":
        of_batch = info.operands[0].shape[batch]
    if of_features != 1 or groups == 1 or name == "batch_group_count":
        even = groups > 1 and name == "feature_group_count"
        builder.factor([feature, kernel_in], [None], of_features, REDUCTION, even=even)
    if of_batch != 1 or groups == 1 or name == "feature_group_count":
        even = groups > 1 and name == "batch_group_count"
        builder.factor([batch, None], [out_batch], of_batch, even=even)
    if made != 1 or groups == 1:
        builder.factor([None, kernel_out], [out_feature], made, even=groups > 1)


def localize_convolution(op: LocalOp) -> None:
    """Padding along contracted dimensions is made zero on both sides (zero times unknown may be NaN), each device

    has its share of the groups, and what its windows span of the input.
    """
    for factor in op.reduction_factors():
        for operand in range(2):
            dim = op.operand_dim(operand, factor)
            if dim is not None:
                op.mask_operand(operand, dim, "zero")
    name, groups, dim = _groups(op.info)
    if groups > 1:
        axes = factor_axes(op.rule, 0, op.operand_shardings[0]).get(op.rule.operands[0][dim][0], ())
        op.ir.attributes[name] = op.emit.i64(-(-groups // size_of(axes)))
    reversed_dims = _reversed(op.info)
    if reversed_dims:
        _reverse_kernel(op, reversed_dims)
    windows = _windows(op.info)
    fetched = [_fetch(op, index, window) for index, window in enumerate(windows)]
    for index, dim in enumerate(_numbers(op.info).input_spatial_dimensions):
        op.operands[0], fetched[index] = without_cuts(op.emit, op.operands[0], dim, fetched[index], _zero(op))
    if fetched != windows:
        set_padding(op.ir, op.emit, fetched, "lhs_dilation")
    op.keep()


def _reversed(info: OpInfo) -> list[int]:
    """The kernel's dimensions whose taps are in reverse order."""
    given = info.ints("window_reversal")
    return [d for d, there in zip(_numbers(info).kernel_spatial_dimensions, given, strict=False) if there]


def _reverse_kernel(op: LocalOp, dims: list[int]) -> None:
    """Taps are put in order here: XLA forgets that they are reversed where a convolution becomes a product."""
    type_ = op.local_operand(1)
    op.operands[1] = op.emit.op("stablehlo.reverse", [op.operands[1]], [type_], dimensions=op.emit.i64s(dims))
    del op.ir.attributes["window_reversal"]


def _fetch(op: LocalOp, index: int, window: Window) -> Window:
    """Make the input what this device's windows and taps span of a spatial dimension, and say how it is padded."""
    numbers = _numbers(op.info)
    source, target = numbers.input_spatial_dimensions[index], numbers.output_spatial_dimensions[index]
    kernel = numbers.kernel_spatial_dimensions[index]
    axes, of_taps = op.operand_axes(0, source), op.operand_axes(1, kernel)
    of_windows = op.result_shardings[0].dims[target].axes
    if not (axes or of_taps or of_windows) or (window.is_trivial and not of_taps):
        return window
    count, taps = op.local_result(0).shape[target], op.local_operand(1).shape[kernel]
    begin, step = -window.low, taps * window.dilation
    if kernel in _reversed(op.info):
        # The last taps come first.
        begin, step = begin + (window.taps - taps) * window.dilation, -step
    reach = Reach(
        op.info.operands[0].shape[source],
        axes,
        window.spread,
        begin,
        (count - 1) * window.stride + (taps - 1) * window.dilation + 1,
        tuple(Shift(a, s) for a, s in ((of_windows, window.stride * count), (of_taps, step)) if a),
    )
    op.operands[0], found = reach.fetch(op, op.operands[0], source, _zero(op))
    return found


def _zero(op: LocalOp) -> Any:
    return op.emit.constant(TensorType((), op.info.operands[0].element), 0)


OPS = op_table([OpDef("stablehlo.convolution", convolution_rule, localize_convolution)])
