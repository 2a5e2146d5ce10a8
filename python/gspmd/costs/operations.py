"""What single operations compute: floating-point (or integer) operations, by kind.

A multiplication and an addition count as two. Every elementwise operation counts as one an element, whatever it is.
"""

from __future__ import annotations

import functools
import math

from jaxlib.mlir.dialects import chlo, stablehlo

from gspmd.dialect.limits import MAX_COUNTED_PLACES
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ops import elementwise

ELEMENTWISE_OPERATIONS = frozenset(elementwise.OPS) - {"stablehlo.bitcast_convert"}
# Operations that only move or name what is there.
_MOVING = """
all_gather all_reduce all_to_all bitcast_convert broadcast broadcast_in_dim case collective_permute concatenate constant
convert create_token dynamic_slice dynamic_update_slice gather get_tuple_element if iota optimization_barrier pad
partition_id reduce_scatter replica_id reshape reverse slice transpose tuple while
"""
_MOVES = frozenset(f"stablehlo.{name}" for name in _MOVING.split())


def flops_of(info: OpInfo) -> tuple[str, float] | None:
    """The kind of an operation and how many arithmetic operations it does; None where that is not known.

    Kinds are `dot`, `convolution`, `fft`, `linear algebra`, `reduction`, `sort` and `elementwise`; what only moves data
    is `elementwise` with 0.
    """
    name = info.name
    elements = float(sum(math.prod(t.shape) for t in info.results[:1]))
    if name in _MOVES or name.startswith("sdy."):
        return "elementwise", 0.0
    if name in ELEMENTWISE_OPERATIONS:
        return "elementwise", elements
    count = _COUNTS.get(name)
    return (count[0], count[1](info)) if count else None


def _dot(info: OpInfo) -> float:
    numbers = stablehlo.DotDimensionNumbers(info.attributes["dot_dimension_numbers"])
    contracted = math.prod(info.operands[0].shape[d] for d in numbers.lhs_contracting_dimensions)
    return float(2 * math.prod(info.results[0].shape) * contracted)


def _vector_dot(info: OpInfo) -> float:
    """`stablehlo.dot` contracts the last dimension of the left side."""
    return 2.0 * math.prod(info.results[0].shape) * info.operands[0].shape[-1]


def _ragged_dot(info: OpInfo) -> float:
    """Every element of the left side meets the free dimensions of the right side once, whatever group it is in."""
    numbers = chlo.RaggedDotDimensionNumbers(info.attributes["ragged_dot_dimension_numbers"])
    shared = {
        *numbers.rhs_contracting_dimensions,
        *numbers.rhs_batching_dimensions,
        *numbers.rhs_group_dimensions,
    }
    free = math.prod(n for d, n in enumerate(info.operands[1].shape) if d not in shared)
    return 2.0 * math.prod(info.operands[0].shape) * free


def _convolution(info: OpInfo) -> float:
    """Products with elements of the input only: those with padding and between dilated elements are left out."""
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
    """Pairs of a window position and a kernel element that meet an element of the input, along one dimension."""
    end = (size - 1) * spread
    count = 0
    # Positions are stride * o + dilation * k - low. The shorter of the two is walked, the longer counted.
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
    """How many of `offset + step * o`, for every o from `first` to `last`, are multiples of `of`."""
    common = math.gcd(step, of)
    if offset % common:
        return 0
    period = of // common
    place = -offset // common * pow(step // common, -1, period) % period
    return max(0, last - first - (place - first) % period + period) // period


def _at(info: OpInfo, name: str, index: int, default: int) -> int:
    values = info.ints(name)
    return values[index] if values else default


def _fft(info: OpInfo) -> float:
    """5 n log2 n for a complex transform of n elements, half of it for a real one."""
    lengths = info.ints("fft_length")
    size = math.prod(lengths)
    complex_side = all(t.element.startswith("complex") for t in (*info.operands, *info.results))
    whole = info.operands[0] if complex_side or not info.operands[0].element.startswith("complex") else info.results[0]
    batch = math.prod(whole.shape[: len(whole.shape) - len(lengths)])
    return (5.0 if complex_side else 2.5) * batch * size * math.log2(max(size, 2))


def _reduce(info: OpInfo) -> float:
    inputs = len(info.results)
    return float(inputs * max(0, math.prod(info.operands[0].shape) - math.prod(info.results[0].shape)))


def _reduce_window(info: OpInfo) -> float:
    window = math.prod(info.ints("window_dimensions"))
    return float(len(info.results) * (window - 1) * math.prod(info.results[0].shape))


def _select_and_scatter(info: OpInfo) -> float:
    return float(math.prod(info.ints("window_dimensions")) * math.prod(info.operands[1].shape))


def _scatter(info: OpInfo) -> float:
    combines = any(name != "stablehlo.return" for name in info.body)
    return float(math.prod(info.operands[-1].shape)) if combines else 0.0


def _sort(info: OpInfo) -> float:
    shape = info.operands[0].shape
    length = shape[info.integer("dimension", len(shape) - 1)] if shape else 1
    return math.prod(shape) * math.log2(max(length, 1)) if length > 1 else 0.0


def _cholesky(info: OpInfo) -> float:
    *batch, n, _ = info.operands[0].shape
    return math.prod(batch) * n**3 / 3


def _triangular_solve(info: OpInfo) -> float:
    return float(math.prod(info.operands[1].shape) * info.operands[0].shape[-1])


def _normalization(info: OpInfo) -> float:
    return 5.0 * math.prod(info.operands[0].shape)


def _random(info: OpInfo) -> float:
    return float(math.prod(info.results[-1].shape))


_COUNTS = {
    "stablehlo.dot_general": ("dot", _dot),
    "stablehlo.dot": ("dot", _vector_dot),
    "chlo.ragged_dot": ("dot", _ragged_dot),
    "stablehlo.convolution": ("convolution", _convolution),
    "stablehlo.fft": ("fft", _fft),
    "stablehlo.reduce": ("reduction", _reduce),
    "stablehlo.reduce_window": ("reduction", _reduce_window),
    "stablehlo.select_and_scatter": ("reduction", _select_and_scatter),
    "stablehlo.scatter": ("reduction", _scatter),
    "stablehlo.sort": ("sort", _sort),
    "chlo.top_k": ("sort", _sort),
    "stablehlo.cholesky": ("linear algebra", _cholesky),
    "stablehlo.triangular_solve": ("linear algebra", _triangular_solve),
    "stablehlo.batch_norm_inference": ("elementwise", _normalization),
    "stablehlo.batch_norm_training": ("elementwise", _normalization),
    "stablehlo.batch_norm_grad": ("elementwise", _normalization),
    "stablehlo.rng": ("elementwise", _random),
    "stablehlo.rng_bit_generator": ("elementwise", _random),
}
