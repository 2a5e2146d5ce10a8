"""Convolutions and reductions of windows: sums over the positions of a window."""

from __future__ import annotations

import numpy as np
from jaxlib.mlir.dialects import stablehlo

from gspmd.transforms.ir.operations import Operation
from gspmd.verification.attributes import integer, ints, reducer
from gspmd.verification.index_maps import IndexMap, Label, counted, dim, integer_map, pointwise
from gspmd.verification.meaning.contraction import product
from gspmd.verification.meaning.elementwise import spread
from gspmd.verification.meaning.meaning import Execution, Meaning
from gspmd.verification.meaning.opaque import opaque
from gspmd.verification.meaning.reduction import with_initial
from gspmd.verification.not_known import NotKnown
from gspmd.verification.values import SymbolicValue


def covered(
    out: int, taps: int, size: int, at: tuple[int, int], steps: tuple[int, int, int, int]
) -> tuple[IndexMap, IndexMap]:
    """The position of every tap of every window, by the dimensions `at` of windows and taps, and whether it exists.

    `steps` are the stride of windows, the dilation of taps, the dilation of the operand, and the padding before it.
    """
    stride, dilation, base, low = steps
    place = np.arange(out)[:, None] * stride + np.arange(taps)[None, :] * dilation - low
    there = (place >= 0) & (place % base == 0) & (place // base < size)
    labels = [dim(at[0]), dim(at[1])]
    return integer_map(labels, np.where(there, place // base, 0)), integer_map(labels, there.astype(np.int64))


def _spread(op: Operation, name: str, count: int, default: int) -> list[int]:
    return ints(op, name) or [default] * count


def _padding(op: Operation, count: int) -> list[int]:
    return ints(op, "padding")[::2] or [0] * count


def _convolution(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    image, kernel = values
    algebra, shape = machine.algebra, op.results[0].type.shape
    if 0 in shape:
        return [algebra.zero(op.results[0].type.element, shape)]
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    spatial = list(numbers.output_spatial_dimensions)
    count, rank = len(spatial), len(shape)
    groups, batches = integer(op, "feature_group_count", 1), integer(op, "batch_group_count", 1)
    strides, low = _spread(op, "window_strides", count, 1), _padding(op, count)
    base, dilation = _spread(op, "lhs_dilation", count, 1), _spread(op, "rhs_dilation", count, 1)
    reversal = op.attributes.get("window_reversal")
    turned = [bool(b) for b in reversal] if reversal is not None else [False] * count
    features = kernel.shape[numbers.kernel_input_feature_dimension]
    # [result..., taps of every spatial dimension..., features of a group]
    taps = [kernel.shape[d] for d in numbers.kernel_spatial_dimensions]
    extended = (*shape, *taps, features)
    of_image: dict[Label, IndexMap] = {}
    of_kernel: dict[Label, IndexMap] = {}
    masks = []
    for i, d in enumerate(numbers.input_spatial_dimensions):
        steps = strides[i], dilation[i], base[i], low[i]
        place, there = covered(shape[spatial[i]], taps[i], image.shape[d], (spatial[i], rank + i), steps)
        of_image[dim(d)] = place
        masks.append(there)
        tap = counted(dim(rank + i), taps[i], taps[i] - 1 if turned[i] else 0, -1 if turned[i] else 1)
        of_kernel[dim(numbers.kernel_spatial_dimensions[i])] = tap
    batch, feature = numbers.output_batch_dimension, numbers.output_feature_dimension
    of_output = counted(dim(feature), shape[feature])
    of_kernel[dim(numbers.kernel_output_feature_dimension)] = of_output
    of_kernel[dim(numbers.kernel_input_feature_dimension)] = counted(dim(rank + count), features)
    per_group = max(shape[feature] // (groups * batches), 1)
    group = pointwise(lambda o: o // (shape[feature] // groups), of_output)
    channel = pointwise(lambda g, f: g * features + f, group, counted(dim(rank + count), features))
    of_image[dim(numbers.input_feature_dimension)] = channel
    rows = counted(dim(batch), shape[batch])
    if batches > 1:
        part = pointwise(lambda o: o // per_group, of_output)
        rows = pointwise(lambda b, p: p * shape[batch] + b, rows, part)
    of_image[dim(numbers.input_batch_dimension)] = rows
    left = algebra.moved(image, extended, of_image)
    for mask in masks:
        left = algebra.choice(mask, left, algebra.zero(left.element, extended))
    made = product(machine, op, left, algebra.moved(kernel, extended, of_kernel))
    for axis in reversed(range(rank, len(extended))):
        made = algebra.total("add", made, axis)
    return [made]


def _reduce_window(machine: Execution, op: Operation, values: list[SymbolicValue]) -> list[SymbolicValue]:
    monoid = reducer(op.regions[0])
    if len(op.results) != 1 or monoid is None:
        return opaque(machine, op, values)
    value, initial = values
    algebra, shape = machine.algebra, op.results[0].type.shape
    rank = len(shape)
    if 0 in shape or 0 in value.shape:
        return [spread(initial, shape)]
    windows = ints(op, "window_dimensions")
    strides, low = _spread(op, "window_strides", rank, 1), _padding(op, rank)
    base, dilation = _spread(op, "base_dilations", rank, 1), _spread(op, "window_dilations", rank, 1)
    wide = [d for d, size in enumerate(windows) if size > 1]
    extended = (*shape, *(windows[d] for d in wide))
    places: dict[Label, IndexMap] = {}
    masks = []
    for d in range(rank):
        if d in wide:
            at = (d, rank + wide.index(d))
            place, there = covered(shape[d], windows[d], value.shape[d], at, (strides[d], dilation[d], base[d], low[d]))
        else:
            place, there = covered(shape[d], 1, value.shape[d], (d, rank), (strides[d], 1, base[d], low[d]))
        places[dim(d)] = place
        masks.append(there)
    made = algebra.moved(value, extended, places)
    from gspmd.verification import index_maps, numbers

    bits = numbers.neutral(monoid, value.element)
    if bits is None:
        raise NotKnown(f"windows that are combined by '{monoid}'")
    for mask in masks:
        made = algebra.choice(mask, made, algebra.number(index_maps.constant(bits), value.element, extended))
    for axis in reversed(range(rank, len(extended))):
        made = algebra.total(monoid, made, axis)
    return [with_initial(machine, monoid, made, initial)]


MEANINGS: dict[str, Meaning] = {"stablehlo.convolution": _convolution, "stablehlo.reduce_window": _reduce_window}
