"""cholesky, triangular_solve and fft: batches of problems, each of which one device solves."""

from __future__ import annotations

import math

from jaxlib.mlir import ir

from gspmd.dialect.axes import Axes, size_of
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.rule import PASS_THROUGH, PERMUTATION, OpShardingRule, RuleBuilder
from gspmd.transforms.emit.collective_builder import Cause
from gspmd.transforms.emit.local_op import LocalOp
from gspmd.transforms.exchange.pieces import pad_dim
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.operations import Value
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.op_definition import OpDef, op_table
from gspmd.transforms.ops.traits import Flops, Traits


def cholesky_rule(info: OpInfo) -> OpShardingRule:
    """Batch dimensions pass through."""
    shape = info.operands[0].shape
    builder = RuleBuilder([shape], [shape])
    for dim, size in enumerate(shape[:-2]):
        builder.factor([dim], [dim], size)
    return builder.build()


def triangular_solve_rule(info: OpInfo) -> OpShardingRule:
    """Batch dimensions and right-hand sides pass through."""
    matrix, sides = info.operands[0].shape, info.operands[1].shape
    builder = RuleBuilder([matrix, sides], [sides])
    for dim, size in enumerate(matrix[:-2]):
        builder.factor([dim, dim], [dim], size)
    on_the_left = bool(info.attributes["left_side"].value)
    side = len(sides) - 1 if on_the_left else len(sides) - 2
    builder.factor([None, side], [side], sides[side])
    return builder.build()


def fft_rule(info: OpInfo) -> OpShardingRule:
    """Dimensions that are not transformed pass through; a split transformed one is exchanged with another one.

    If no other dimension has more than one element, the transformed one cannot be split. Raises AnnotationError for
    lengths that differ from the last dimensions, which MLIR accepts and XLA crashes on.
    """
    operand, result = info.operands[0].shape, info.results[0].shape
    lengths = info.ints("fft_length")
    first = len(operand) - len(lengths)
    transformed = (result if _kind(info) == "IRFFT" else operand)[first:]
    if transformed != lengths:
        raise AnnotationError(
            f"transforms lengths {list(lengths)} of dimensions {list(transformed)}",
            hint="give the lengths that the last dimensions have",
            code=Code.OPERATION,
        )
    builder = RuleBuilder([operand], [result])
    for dim, size in enumerate(operand):
        if dim < first:
            builder.factor([dim], [dim], size, PASS_THROUGH)
        elif max((n for d, n in enumerate(operand) if d != dim), default=1) > 1 and result[dim] > 1:
            builder.factor([dim], [dim], size, PERMUTATION, exchanged=True)
    return builder.build()


def _kind(info: OpInfo) -> str:
    """`FFT`, `IFFT`, `RFFT` or `IRFFT`."""
    return str(info.attributes["fft_type"]).rpartition(" ")[2].rstrip(">")


def localize_fft(op: LocalOp) -> None:
    """Transform dimension by dimension if one is split, since transforms along different dimensions are independent."""
    lengths = op.info.ints("fft_length")
    rank = op.info.operands[0].rank
    dims = list(range(rank - len(lengths), rank))
    if not any(op.operand_axes(0, dim) for dim in dims):
        op.keep()
        return
    kind = _kind(op.info)
    cause = op.cause("'stablehlo.fft' transforms a split dimension, which is whole while it does")
    value = op.operands[0]
    # Real numbers occur only before or after all transforms.
    order = reversed(dims) if kind in ("FFT", "RFFT") else dims
    for dim in order:
        real = dim == rank - 1 and kind in ("RFFT", "IRFFT")
        one = kind if real else kind.replace("RFFT", "FFT")
        value = _transform(op, value, dim, (one, lengths[dim - dims[0]]), cause)
    op.replace([value])


def _transform(op: LocalOp, value: Value, dim: int, how: tuple[str, int], cause: Cause) -> Value:
    """Transform one dimension, which is exchanged with the longest other one if it is split."""
    axes, rank = op.operand_axes(0, dim), op.info.operands[0].rank
    shape = value.type.shape
    if not axes:
        return _transform_whole(op, value, dim, how)
    other = max((d for d in range(rank) if d != dim), key=lambda d: shape[d])
    size = shape[other]
    value = _exchange(op, value, dim, other, axes, cause)
    value = _resize(op, value, dim, how[1] if how[0] != "IRFFT" else how[1] // 2 + 1)
    value = _transform_whole(op, value, dim, how)
    value = _exchange(op, value, other, dim, axes, cause)
    return _resize(op, value, other, size)


def _exchange(op: LocalOp, value: Value, whole: int, split: int, axes: Axes, cause: Cause) -> Value:
    """Gather dimension `whole` and split another in its place, in parts of equal size."""
    length = value.type.shape[split]
    padding = -length % size_of(axes)
    return op.emit.all_to_all(pad_dim(op.emit, value, split, 0, padding, 0), split, whole, axes, cause)


def _resize(op: LocalOp, value: Value, dim: int, length: int) -> Value:
    """The leading elements of one dimension."""
    shape = value.type.shape
    return op.emit.slice(value, (*shape[:dim], length, *shape[dim + 1 :]))


def _transform_whole(op: LocalOp, value: Value, dim: int, how: tuple[str, int]) -> Value:
    """Transform one dimension, which is transposed to the end for that."""
    emit, (kind, length) = op.emit, how
    type_ = value.type
    order = [*(d for d in range(type_.rank) if d != dim), dim]
    back = [order.index(d) for d in range(type_.rank)]
    in_place = dim == type_.rank - 1
    if not in_place:
        value = emit.transpose(value, order)
    shape = value.type.shape
    element = type_.element
    if kind == "RFFT":
        shape, element = (*shape[:-1], length // 2 + 1), f"complex<{element}>"
    elif kind == "IRFFT":
        shape, element = (*shape[:-1], length), element[len("complex<") : -1]
    value = emit.op(
        "stablehlo.fft",
        [value],
        [TensorType(shape, element)],
        fft_type=ir.Attribute.parse(f"#stablehlo<fft_type {kind}>", emit.context),
        fft_length=emit.i64s([length]),
    )
    return value if in_place else emit.transpose(value, back)


def fft_flops(info: OpInfo) -> float:
    """5 n log2 n for a complex transform of n elements, half of it for a real one."""
    lengths = info.ints("fft_length")
    size = math.prod(lengths)
    complex_side = all(t.element.startswith("complex") for t in (*info.operands, *info.results))
    whole = info.operands[0] if complex_side or not info.operands[0].element.startswith("complex") else info.results[0]
    batch = math.prod(whole.shape[: len(whole.shape) - len(lengths)])
    return (5.0 if complex_side else 2.5) * batch * size * math.log2(max(size, 2))


def cholesky_flops(info: OpInfo) -> float:
    *batch, n, _ = info.operands[0].shape
    return math.prod(batch) * n**3 / 3


def triangular_solve_flops(info: OpInfo) -> float:
    return float(math.prod(info.operands[1].shape) * info.operands[0].shape[-1])


OPS = op_table(
    [
        OpDef("stablehlo.cholesky", cholesky_rule, traits=Traits(flops=Flops("linear algebra", cholesky_flops))),
        OpDef(
            "stablehlo.triangular_solve",
            triangular_solve_rule,
            traits=Traits(flops=Flops("linear algebra", triangular_solve_flops)),
        ),
        OpDef("stablehlo.fft", fft_rule, localize_fft, traits=Traits(flops=Flops("fft", fft_flops))),
    ]
)
