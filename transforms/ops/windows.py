"""reduce_window, select_and_scatter, convolution.

Dimensions that no window moves over pass through. Others stay split where windows are small: each device fetches
what its windows span beyond its shard.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from gspmd.dialect.axes import Axes
from gspmd.dialect.rule import NEED_REPLICATION, PERMUTATION, REDUCTION, OpShardingRule, RuleBuilder
from gspmd.transforms.support.halo import Windows, pad_interior, take_windows
from gspmd.transforms.support.local_op import LocalOp
from gspmd.transforms.support.op_definition import OpDef, op_table
from gspmd.transforms.support.op_info import OpInfo

# What shards exchange may be up to one in so many of a dimension's elements.
_SMALL = 4


@dataclasses.dataclass(frozen=True, slots=True)
class _Window:
    """How windows move over one dimension: `extent` elements of the operand spread by `spread`, from `low`

    elements before it, in steps of `stride`.
    """

    extent: int
    stride: int
    low: int
    high: int
    spread: int

    @property
    def is_trivial(self) -> bool:
        """Whether windows are single elements, one for each element in place."""
        return (self.extent, self.stride, self.low, self.high, self.spread) == (1, 1, 0, 0, 1)

    def is_small(self, size: int, result: int) -> bool:
        """Whether shards of the operand and of the result are close to each other."""
        beyond = self.extent - 1 + abs(self.low) + abs(size * self.spread - self.stride * result)
        return size > 1 and result > 1 and _SMALL * beyond <= size * self.spread

    def fetch(self, op: LocalOp, value: Any, dim: int, axes: Axes, size: int, result: int, fill: Any) -> Any:
        """What the windows of this device's part of the result span; `size` is global, `result` per device."""
        value = pad_interior(op.emit, value, dim, self.spread - 1, fill)
        windows = Windows(
            (size - 1) * self.spread + 1, -self.low, self.stride * result, self.stride * (result - 1) + self.extent
        )
        cause = op.cause(f"windows of '{op.info.name}' reach into other shards of a split dimension")
        return take_windows(op.emit, value, dim, axes, windows, fill, cause)


def _window(info: OpInfo, dim: int, extent: int) -> _Window:
    """The windows along a dimension, counted among those that the operation lists windows for."""

    def at(name: str) -> int:
        values = info.ints(name)
        return values[dim] if values else 1

    padding = info.ints("padding")
    low, high = padding[2 * dim : 2 * dim + 2] if padding else (0, 0)
    dilation = at("window_dilations") * at("rhs_dilation")
    spread = at("base_dilations") * at("lhs_dilation")
    return _Window((extent - 1) * dilation + 1, at("window_strides"), low, high, spread)


def _drop_padding(op: LocalOp, dims: list[int], dilation: str) -> None:
    """Windows of these dimensions are complete in the operand now."""
    padding = list(op.info.ints("padding"))
    for name, width, value in (("padding", 2, 0), (dilation, 1, 1)):
        values = padding if name == "padding" else list(op.info.ints(name))
        if not values or not dims:
            continue
        for dim in dims:
            values[width * dim : width * dim + width] = [value] * width
        if name == "padding":
            pairs = np.array(values, np.int64).reshape(-1, 2)
            op.ir.attributes[name] = ir.DenseElementsAttr.get(pairs, context=op.emit.context)
        else:
            op.ir.attributes[name] = op.emit.i64s(values)


def reduce_window_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions with windows of one element, in place, pass through; small windows leave them split."""
    count = len(info.results)
    shapes = [t.shape for t in info.operands]
    builder = RuleBuilder(shapes, [t.shape for t in info.results])
    for dim, size in enumerate(shapes[0]):
        window = _window(info, dim, info.ints("window_dimensions")[dim])
        dims = [dim] * count + [None] * count
        if window.is_trivial:
            builder.factor(dims, [dim] * count, size)
        elif window.is_small(size, info.results[0].shape[dim]):
            builder.factor(dims, [dim] * count, size, PERMUTATION)
    return builder.build()


def localize_reduce_window(op: LocalOp) -> None:
    """Elements outside the operand are the initial value, as the operation's own padding is."""
    count = len(op.info.results)
    fetched = []
    for dim, size in enumerate(op.info.operands[0].shape):
        window = _window(op.info, dim, op.info.ints("window_dimensions")[dim])
        axes = op.operand_axes(0, dim)
        if axes and not window.is_trivial:
            fetched.append(dim)
            for index in range(count):
                op.operands[index] = window.fetch(
                    op, op.operands[index], dim, axes, size, op.local_result(0).shape[dim], op.operands[count + index]
                )
    _drop_padding(op, fetched, "base_dilations")
    op.keep()


def select_and_scatter_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions with windows of one element pass through, and so do windows side by side, split between them."""
    operand, source = info.operands[0].shape, info.operands[1].shape
    builder = RuleBuilder([operand, source, ()], [operand])
    for dim, size in enumerate(operand):
        window = _window(info, dim, info.ints("window_dimensions")[dim])
        if window.is_trivial:
            builder.factor([dim, dim, None], [dim], size)
        elif window.extent == window.stride and not window.low and size == window.stride * source[dim]:
            builder.factor([dim, dim, None], [dim], source[dim], even=True)
    return builder.build()


def convolution_rule(info: OpInfo) -> OpShardingRule:
    """Batch and output features pass through, input features leave partial sums, groups split evenly.

    Spatial dimensions pass through where the kernel is one element wide and moves in steps of one, and stay
    split where it is small.
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
        window = _window(info, index, rhs[numbers.kernel_spatial_dimensions[index]])
        if window.is_trivial:
            builder.factor([source, None], [target], lhs[source])
        elif window.is_small(lhs[source], result[target]):
            builder.factor([source, None], [target], lhs[source], PERMUTATION)
    return builder.build()


def localize_convolution(op: LocalOp) -> None:
    """Padding along input features is made zero on both sides, each device has its share of the groups, and

    of split spatial dimensions what its windows span.
    """
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
    fetched = []
    for index, dim in enumerate(numbers.input_spatial_dimensions):
        window = _window(op.info, index, op.info.operands[1].shape[numbers.kernel_spatial_dimensions[index]])
        axes = op.operand_axes(0, dim)
        if axes and not window.is_trivial:
            fetched.append(index)
            size = op.info.operands[0].shape[dim]
            result = op.local_result(0).shape[numbers.output_spatial_dimensions[index]]
            op.operands[0] = window.fetch(op, op.operands[0], dim, axes, size, result, 0)
    _drop_padding(op, fetched, "lhs_dilation")
    op.keep()


OPS = op_table(
    [
        OpDef("stablehlo.reduce_window", reduce_window_rule, localize_reduce_window),
        OpDef("stablehlo.select_and_scatter", select_and_scatter_rule),
        OpDef("stablehlo.convolution", convolution_rule, localize_convolution),
    ]
)
