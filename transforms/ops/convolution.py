"""convolution: contraction over input features and kernel taps, with windows over spatial dimensions."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

from jaxlib.mlir.dialects import stablehlo

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.limits import MAX_COUNTED_PLACES
from gspmd.dialect.placement import factor_axes
from gspmd.dialect.rule import PASS_THROUGH, PERMUTATION, REDUCTION, OpShardingRule, RuleBuilder
from gspmd.transforms.emit.emitter import INDEX
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.op_definition import OpDef, Shardings, op_table
from gspmd.transforms.ops.traits import Flops, Traits
from gspmd.transforms.ops.windows import ShardOffset, Window, WindowRange, cut, set_padding, windows_of, without_cuts


def convolution_rule(info: OpInfo) -> OpShardingRule:
    """Batch and output features pass through, input features leave partial sums.

    Groups pass through, as the major part of a dimension. Along a spatial dimension, input and result are split alike
    and windows are fetched. If the kernel is larger than the result, as in the gradient of weights, input and kernel
    are split, and the result is partial.
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
    """The attribute with the number of groups, that number, and the dimension of the input that the groups divide."""
    numbers = _numbers(info)
    batches = info.integer("batch_group_count", 1)
    if batches > 1:
        return "batch_group_count", batches, numbers.input_batch_dimension
    return "feature_group_count", info.integer("feature_group_count", 1), numbers.input_feature_dimension


def _add_features(builder: RuleBuilder, info: OpInfo) -> None:
    """The factors of batch and features. A dimension with groups has two factors: the groups and their elements.

    Shards contain whole groups, so only groups of one element are split unevenly.
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
    """Convolve, on each device, the part of the input that its windows span, with its share of the groups.

    Padding along contracted features is zeroed on both sides, because zero times unspecified content may be NaN.
    """
    numbers = _numbers(op.info)
    features = numbers.input_feature_dimension, numbers.kernel_input_feature_dimension
    for factor in op.reduction_factors():
        for operand in range(2):
            if op.operand_dim(operand, factor) == features[operand]:
                op.mask_operand(operand, features[operand], "zero")
    name, groups, dim = _groups(op.info)
    if groups > 1:
        axes = factor_axes(op.rule, 0, op.operand_shardings[0]).get(op.rule.operands[0][dim][0], ())
        op.ir.attributes[name] = op.emit.i64(-(-groups // size_of(axes)))
    reversed_dims = _reversed(op.info)
    if reversed_dims:
        _reverse_kernel(op, reversed_dims)
    windows = [_fetch(op, index, window) for index, window in enumerate(_windows(op.info))]
    parts = itertools.product(*(_taps(op, dim) for dim in numbers.kernel_spatial_dimensions))
    total, *others = (_convolved(op, windows, part) for part in parts)
    for other in others:
        total = op.emit.binary("add", total, other)
    op.replace([total])


@dataclasses.dataclass(frozen=True, slots=True)
class _Taps:
    """The taps from `begin` to `end` of a device's part of a kernel dimension.

    They exist on the first `holders` devices along `axes`, or on all if there are no `axes`.
    """

    begin: int
    end: int
    axes: Axes = ()
    holders: int = 0


def _taps(op: LocalOp, dim: int) -> list[_Taps]:
    """The taps of a kernel dimension, in parts that a device has either completely or not at all.

    Missing taps must not be multiplied as zeros, because zero times NaN of the input is NaN.
    """
    taps, local, axes = op.info.operands[1].shape[dim], op.local_operand(1).shape[dim], op.operand_axes(1, dim)
    if local * size_of(axes) == taps:
        return [_Taps(0, local)]
    full, rest = divmod(taps, local)
    found = [(0, rest, full + 1), (rest, local, full)] if rest else [(0, local, full)]
    if dim in _reversed(op.info):
        found = [(local - end, local - begin, holders) for begin, end, holders in found]
    return [_Taps(begin, end, axes if holders < size_of(axes) else (), holders) for begin, end, holders in found]


def _convolved(op: LocalOp, windows: Sequence[Window], part: Sequence[_Taps]) -> Value:
    """The operation with only these taps; zero on devices without them."""
    emit, (value, kernel), numbers, windows = op.emit, op.operands, _numbers(op.info), list(windows)
    for index, taps in enumerate(part):
        source, dim = numbers.input_spatial_dimensions[index], numbers.kernel_spatial_dimensions[index]
        window, count = windows[index], kernel.type.shape[dim]
        before, after = taps.begin * window.dilation, (count - taps.end) * window.dilation
        windows[index] = dataclasses.replace(window, low=window.low - before, high=window.high - after)
        kernel = cut(emit, kernel, dim, taps.begin, (), taps.end - taps.begin)
        value, windows[index] = without_cuts(emit, value, source, windows[index], _zero(op))
    clone = op.ir.clone().insert(emit.point)
    clone.operands[0], clone.operands[1] = value, kernel
    if windows != _windows(op.info):
        set_padding(clone, emit, windows, "lhs_dilation")
    result = op.local_result(0)
    clone.results[0].type = result
    found = clone.results[0]
    for taps in part:
        if taps.axes:
            there = emit.compare(emit.shard_index(taps.axes), "LT", emit.constant(INDEX, taps.holders))
            found = emit.op("stablehlo.select", [there, found, emit.constant(result, 0)], [result])
    return found


def _reversed(info: OpInfo) -> list[int]:
    """The kernel dimensions with reversed taps."""
    given = info.ints("window_reversal")
    return [d for d, there in zip(_numbers(info).kernel_spatial_dimensions, given, strict=False) if there]


def _reverse_kernel(op: LocalOp, dims: list[int]) -> None:
    """Reverse the kernel by a separate operation, because XLA ignores the reversal if a convolution becomes a dot."""
    type_ = op.local_operand(1)
    op.operands[1] = op.emit.op("stablehlo.reverse", [op.operands[1]], [type_], dimensions=op.emit.i64s(dims))
    del op.ir.attributes["window_reversal"]


def _fetch(op: LocalOp, index: int, window: Window) -> Window:
    """Fetch the part of the input that this device's windows and taps span; returns the windows over it."""
    reach = _reach(op.info, index, window, op.operand_shardings, op.result_shardings)
    if reach is None:
        return window
    dim = _numbers(op.info).input_spatial_dimensions[index]
    op.operands[0], found = reach.fetch(op, op.operands[0], dim, _zero(op))
    return dataclasses.replace(window, low=found.low, high=found.high, spread=found.spread)


def _reach(info: OpInfo, index: int, window: Window, operands: Shardings, results: Shardings) -> WindowRange | None:
    """The range of a spatial dimension that a device reads; None if that is its shard."""
    numbers = _numbers(info)
    source, target = numbers.input_spatial_dimensions[index], numbers.output_spatial_dimensions[index]
    kernel = numbers.kernel_spatial_dimensions[index]
    axes, of_taps, of_windows = (
        s.dims[d].axes for s, d in ((operands[0], source), (operands[1], kernel), (results[0], target))
    )
    if not (axes or of_taps or of_windows) or (window.is_trivial and not of_taps):
        return None
    count, taps = -(-info.results[0].shape[target] // size_of(of_windows)), -(-window.taps // size_of(of_taps))
    begin, step = -window.low, taps * window.dilation
    if kernel in _reversed(info):
        # The last taps come first.
        begin, step = begin + (window.taps - taps) * window.dilation, -step
    return WindowRange(
        info.operands[0].shape[source],
        axes,
        window.spread,
        begin,
        (count - 1) * window.stride + (taps - 1) * window.dilation + 1,
        tuple(ShardOffset(a, s) for a, s in ((of_windows, window.stride * count), (of_taps, step)) if a),
    )


def _zero(op: LocalOp) -> Value:
    return op.emit.constant(TensorType((), op.info.operands[0].element), 0)


def convolution_flops(info: OpInfo) -> float:
    """The multiplications with elements of the input, without those of padding and dilation."""
    numbers = stablehlo.ConvDimensionNumbers(info.attributes["dimension_numbers"])
    kernel, result = info.operands[1].shape, info.results[0].shape
    pairs = 1
    for index, dim in enumerate(numbers.input_spatial_dimensions):
        pairs *= _pairs(
            info.operands[0].shape[dim],
            kernel[numbers.kernel_spatial_dimensions[index]],
            result[numbers.output_spatial_dimensions[index]],
            _at(info, "window_strides", index, 1),
            _at(info, "padding", 2 * index, 0),
            _at(info, "lhs_dilation", index, 1),
            _at(info, "rhs_dilation", index, 1),
        )
    batch, features = result[numbers.output_batch_dimension], result[numbers.output_feature_dimension]
    return float(2 * pairs * batch * features * kernel[numbers.kernel_input_feature_dimension])


@functools.lru_cache(maxsize=4096)
def _pairs(size: int, kernel: int, result: int, stride: int, low: int, spread: int, dilation: int) -> int:
    """The number of pairs of a window and a tap that read an element of the input, along one dimension."""
    if not size:
        return 0
    end = (size - 1) * spread
    count = 0
    # Positions are stride * o + dilation * k - low. This iterates over the shorter range and counts the longer one.
    walk, step, number = (dilation, stride, result) if kernel <= result else (stride, dilation, kernel)
    walked = min(kernel, result)
    every = max(1, -(-walked // MAX_COUNTED_PLACES))
    for k in range(0, walked, every):
        offset = walk * k - low
        first = max(0, -(offset // step)) if offset < 0 else 0
        last = min(number - 1, (end - offset) // step) if end >= offset else -1
        count += min(every, walked - k) * _multiples(offset, step, first, last, spread)
    return count


def _multiples(offset: int, step: int, first: int, last: int, of: int) -> int:
    """The number of o from `first` to `last` for which `offset + step * o` is a multiple of `of`."""
    common = math.gcd(step, of)
    if offset % common:
        return 0
    period = of // common
    place = -offset // common * pow(step // common, -1, period) % period
    return max(0, last - first - (place - first) % period + period) // period


def _at(info: OpInfo, name: str, index: int, default: int) -> int:
    values = info.ints(name)
    return values[index] if values else default


OPS = op_table(
    [
        OpDef(
            "stablehlo.convolution",
            convolution_rule,
            localize_convolution,
            traits=Traits(flops=Flops("convolution", convolution_flops)),
        )
    ]
)
